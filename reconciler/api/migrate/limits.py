"""Limits of the API that rewritten requests keep. Imports nothing, so that help texts can name them."""

MOST = 32
"""Devices of one claim"""
