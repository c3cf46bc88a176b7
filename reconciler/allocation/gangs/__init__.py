"""Places gangs: enough pods together, with nodes and devices, or none. No I/O, no clock."""

from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.validity import still_fits

__all__ = ["decide_gang", "still_fits"]
