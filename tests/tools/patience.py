"""How long a test waits on the real clock for what must come true, so that only what never comes fails it."""

import os

PATIENCE = float(os.environ.get("PATIENCE", "300"))
"""Seconds. A machine with one slow core that others use too takes a minute for what takes a second here.
Tests that have to fail, because what they test is broken, get less.
"""
