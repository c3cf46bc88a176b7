"""What holds where nobody says otherwise. Imports nothing, so that help texts can name it."""

STEPS = 10_000
"""Devices tried for one decision on one node before the search gives up"""
