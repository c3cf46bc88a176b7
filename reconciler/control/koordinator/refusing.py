"""A refusal by the whole fleet, as the reconciler tells it."""

from dataclasses import dataclass

from reconciler.allocation.koordinator.feasible import KindCount
from reconciler.allocation.koordinator.fleet import Unserved
from reconciler.allocation.koordinator.refusing import main_reason, no_room
from reconciler.api.koordinator.names import TYPE_OF
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Gate, Reason, RequestCount

BOTH = "TwoKindsOfDevices"
BOTH_WHY = "requests devices by resource claims and by Koordinator's resources; use only one"
OFFERED = frozenset(TYPE_OF)
"""Resources that a node need not offer itself: its Device object says what there is of them."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No, as things are."""

    reason: str
    message: str
    crowded: bool = False
    """Whether pods that go elsewhere might help, by what they take besides devices"""


def refusal(answer: Unserved, left_out: str, *, crowded: bool) -> Refusal:
    """Why no machine serves a pod; `left_out` says which nodes it cannot run on, if any."""
    message = f"{no_room(answer)}; {left_out}" if left_out else no_room(answer)
    reason = Reason.NO_NODE if answer.unsuited or not answer.machines else main_reason(answer)
    return Refusal(reason, message, crowded)


def counts(pod: ObjectKey, found: tuple[KindCount, ...]) -> tuple[RequestCount, ...]:
    """What the tests left of each type, for logs."""
    return tuple(
        RequestCount(pod, count.kind, count.wanted, tuple(Gate(name, left) for name, left in count.gates))
        for count in found
    )
