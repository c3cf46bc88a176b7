"""Advises which pods to move so that more fits, and moves them if the settings allow it."""
