"""How many devices of each type passed each test, as logs report it."""

from reconciler.allocation.koordinator.device_tests import KindCount
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Gate, RequestCount


def counts(pod: ObjectKey, found: tuple[KindCount, ...]) -> tuple[RequestCount, ...]:
    """How many devices of each type passed each test."""
    return tuple(
        RequestCount(pod, count.kind, count.wanted, tuple(Gate(name, left) for name, left in count.gates))
        for count in found
    )
