"""Decides which devices claims get. No I/O, no clock, no logging: values in, values out."""

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.node_attempt import Found, NotFound, attempt

__all__ = ["Found", "NotFound", "allocate", "attempt"]
