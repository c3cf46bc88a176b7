"""Decides which devices claims get. Pure functions: no I/O, no clock, no logging."""
