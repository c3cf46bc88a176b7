"""Decides which devices claims get. Pure functions: no I/O, no clock, no logging."""

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.node_attempt import Found, NotFound, attempt

__all__ = ["Found", "NotFound", "allocate", "attempt"]
