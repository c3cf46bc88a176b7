"""What holds where nobody says otherwise. Imports nothing, so that help texts can name it."""

TRIES = 2_000
"""Most sets of pods that are tried"""
