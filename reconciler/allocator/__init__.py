"""Decides which devices claims get. No I/O, no clock, no logging: values in, values out."""

from reconciler.allocator.nodes import allocate
from reconciler.allocator.onenode import Found, NotFound, attempt

__all__ = ["Found", "NotFound", "allocate", "attempt"]
