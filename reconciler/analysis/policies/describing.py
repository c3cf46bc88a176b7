"""Shapes of a demand in words."""

from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.api.objects.requests import ALL

MOST_REQUESTS = 3
"""Requests of one shape that are named"""


def shares(demand: Demand) -> list[tuple[str, float]]:
    """Each shape in words, with its part of all claims, the most frequent first."""
    total = sum(shape.weight for shape in demand.shapes)
    ordered = sorted(demand.shapes, key=lambda shape: -shape.weight)
    return [(in_words(shape), shape.weight / total) for shape in ordered]


def in_words(shape: Shape) -> str:
    """Such as `2 of class gpu, 1 of class nic; CPU 500m`."""
    requests = () if shape.spec is None else shape.spec.devices.requests
    parts = []
    for request in requests[:MOST_REQUESTS]:
        one = request.exactly or request.first_available[0]
        count = "all" if one.allocation_mode == ALL else str(max(one.count or 1, 1))
        more = "" if request.exactly is not None else ", or an alternative"
        selected = " with selectors" if one.selectors else ""
        parts.append(f"{count} of class {one.device_class_name}{selected}{more}")
    if len(requests) > MOST_REQUESTS:
        parts.append(f"{len(requests) - MOST_REQUESTS} more requests")
    devices = ", ".join(parts) or "no devices"
    return f"{devices}; CPU {shape.cores}m" if shape.cores else devices
