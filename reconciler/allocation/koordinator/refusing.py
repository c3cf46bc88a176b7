"""A refusal by the whole fleet, as it is reported: its reason and its message."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.allocation.koordinator.outlook import SICK
from reconciler.allocation.koordinator.unserved import Unserved
from reconciler.api.koordinator.names import TYPE_OF
from reconciler.api.objects.plan import Reason

BOTH = "TwoKindsOfDevices"
BOTH_WHY = "requests devices by resource claims and by Koordinator's resources; use only one"
OFFERED = frozenset(TYPE_OF)
"""Resources that need not be in the allocatable of a node: its Device object has their amounts."""
NO_MACHINE = "NoDevicesOfType"
MOST = 4
"""Maximum number of different failures of one kind in the message."""


class Refusal(Struct, frozen=True):
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


def reason_of(failure: Failure) -> str:
    """`joint-scope-violation` in CamelCase; the part after a colon is in the message."""
    return "".join(word.capitalize() for word in failure.reason.partition(":")[0].split("-"))


def no_room(answer: Unserved) -> str:
    """Why no machine can serve a pod: the number of machines for each reason."""
    if not answer.machines:
        return "no node has a Device object"
    parts = [*_spelled(answer.refused), *_spelled(answer.short)]
    parts += [f"{answer.unsuited} could, but the pod cannot run there"] if answer.unsuited else []
    return f"0/{answer.machines} nodes can give the devices: {', '.join(parts)}"


def _spelled(failures: Counter[Failure]) -> Iterator[str]:
    shown = failures.most_common(MOST)
    yield from (f"{number} {failure.message}" for failure, number in shown)
    rest = failures.total() - sum(number for _, number in shown)
    if rest:
        yield f"{rest} for other reasons"


def main_reason(answer: Unserved) -> str:
    """The most frequent failure of those that give most hope.

    First failures that a terminating pod can resolve, then unhealthy devices, then what can never be.
    """
    if not answer.machines:
        return NO_MACHINE
    failures = answer.refused + Counter({why: answer.short[why] for why in answer.near})
    hope = min(map(_hope, failures))
    # That devices are too few says less than why free devices do not suit.
    among = [why for why in failures if _hope(why) == hope]
    known = [why for why in among if why in answer.refused] if hope == 0 else []
    return reason_of(max(known or among, key=failures.__getitem__))


def _hope(failure: Failure) -> int:
    if failure.status is Status.LATER:
        return 0
    return 1 if failure is SICK else 2
