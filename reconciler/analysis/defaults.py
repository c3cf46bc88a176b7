"""What holds where nobody says otherwise. Imports nothing, so that help texts can name it."""

TRIES = 2_000
"""Most sets of pods that are tried"""


STEPS = 2_000
"""Devices and nodes that the search tries for one set in one domain; ten times as many in all"""
