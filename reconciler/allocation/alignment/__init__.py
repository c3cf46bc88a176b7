"""Wishes beyond the API: devices near each other, and sets of devices that are given away together.

Both are met by asking the allocator plain questions, the best wish first. A claim without wishes is decided
by the allocator alone. No I/O, no clock, no logging.
"""

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.alignment.preferences import preferences_of

__all__ = ["decide", "preferences_of"]
