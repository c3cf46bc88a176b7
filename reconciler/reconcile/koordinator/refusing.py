"""A refusal by the whole fleet, as a reason and one line."""

from dataclasses import dataclass

from reconciler.koordinator.failure import Failure, Status
from reconciler.koordinator.feasible import KindCount
from reconciler.koordinator.fleet import Unserved
from reconciler.objects.meta import ObjectKey
from reconciler.objects.plan import Gate, Reason, RequestCount

NO_ROOM = "InsufficientDevices"
MOST = 4
"""Answers of machines that are spelled out."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """No, as things are."""

    reason: str
    message: str
    crowded: bool = False
    """Whether pods that go elsewhere might help, by what they take besides devices"""


def reason_of(failure: Failure) -> str:
    """`joint-scope-violation` as Kubernetes would write it; what follows a colon is in the message."""
    return "".join(word.capitalize() for word in failure.reason.partition(":")[0].split("-"))


def refusal(answer: Unserved, left_out: str, *, crowded: bool) -> Refusal:
    """Why no machine serves a pod; `left_out` says which nodes it cannot run on, if any."""
    if not answer.machines:
        return Refusal(Reason.NO_NODE, "no node has a Device object")
    asked = sum(answer.refused.values())
    parts = [f"{number} {failure.message}" for failure, number in answer.refused.most_common(MOST)]
    rest = asked - sum(number for _, number in answer.refused.most_common(MOST))
    parts += [f"{rest} for other reasons"] if rest else []
    few = answer.machines - asked - answer.unsuited
    parts += [f"{few} too few devices with enough left"] if few else []
    parts += [f"{answer.unsuited} could, but the pod cannot run there"] if answer.unsuited else []
    message = f"0/{answer.machines} nodes can give the devices: {', '.join(parts)}"
    return Refusal(_reason(answer, few), f"{message}; {left_out}" if left_out else message, crowded)


def counts(pod: ObjectKey, found: tuple[KindCount, ...]) -> tuple[RequestCount, ...]:
    """What the tests left of each type, for logs."""
    return tuple(
        RequestCount(pod, count.kind, count.wanted, tuple(Gate(name, left) for name, left in count.gates))
        for count in found
    )


def _reason(answer: Unserved, few: int) -> str:
    """What would help soonest: where the pod may run, then what pods that end might give back."""
    if answer.unsuited:
        return Reason.NO_NODE
    might_help = {f: n for f, n in answer.refused.items() if f.status is Status.LATER}
    failures = might_help or ({} if few else answer.refused)
    return reason_of(max(failures, key=failures.__getitem__)) if failures else NO_ROOM
