"""What holds where nobody says otherwise. Imports nothing, so that help texts can name it."""

STEPS = 2_000
"""Devices and nodes that the search tries for one set in one domain; ten times as many in all"""
