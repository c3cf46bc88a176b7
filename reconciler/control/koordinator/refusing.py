"""A refusal by the whole fleet, as it is reported."""

from dataclasses import dataclass

from reconciler.allocation.koordinator.device_tests import KindCount
from reconciler.allocation.koordinator.refusing import main_reason, no_room
from reconciler.allocation.koordinator.unserved import Unserved
from reconciler.api.koordinator.names import TYPE_OF
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Gate, Reason, RequestCount

BOTH = "TwoKindsOfDevices"
BOTH_WHY = "requests devices by resource claims and by Koordinator's resources; use only one"
OFFERED = frozenset(TYPE_OF)
"""Resources that need not be in the allocatable of a node: its Device object has their amounts."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No devices in the present state of the cluster."""

    reason: str
    message: str
    crowded: bool = False
    """Whether pods that leave might help, by their resources other than devices"""


def refusal(answer: Unserved, left_out: str, *, crowded: bool) -> Refusal:
    """Why no machine serves a pod. `left_out` says which nodes are excluded, if any."""
    message = f"{no_room(answer)}; {left_out}" if left_out else no_room(answer)
    reason = Reason.NO_NODE if answer.unsuited else main_reason(answer)
    return Refusal(reason, message, crowded)


def counts(pod: ObjectKey, found: tuple[KindCount, ...]) -> tuple[RequestCount, ...]:
    """How many devices of each type passed each test, for logs."""
    return tuple(
        RequestCount(pod, count.kind, count.wanted, tuple(Gate(name, left) for name, left in count.gates))
        for count in found
    )
