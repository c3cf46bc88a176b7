"""How long a test waits on the real clock for what must come true, so that only what never comes fails it."""

PATIENCE = 300.0
"""Seconds. A machine with one slow core that others use too takes a minute for what takes a second here"""
