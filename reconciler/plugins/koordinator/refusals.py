"""Why no machine serves a pod: counted by reason, and the reason and message that are reported."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Rows
from reconciler.api.objects.plan import Reason
from reconciler.plugins.koordinator.demand import Failure, Status
from reconciler.plugins.koordinator.filters import SICK, WAITING, WHY, Lack, Verdict, for_good
from reconciler.plugins.koordinator.vocabulary import TYPE_OF


class Unserved(Struct, frozen=True):
    """No machine can serve a pod; the number of machines for each reason."""

    machines: int
    unsuited: int
    """Machines that pass the filter, but on which the pod cannot run"""
    refused: Counter[Failure]
    """Failures of machines where each device would do, but not the devices together"""
    short: Counter[Failure]
    """What machines with too few devices lack"""
    near: frozenset[Failure]
    """Those of `short` that occur where the pod can run; all if they occur nowhere there"""


class Machines(Struct, frozen=True, eq=False):
    """The machines that cannot serve a pod."""

    verdict: Codes
    """(N,) Verdict of the filter"""
    outlook: Codes
    """(N,) code of what a machine lacks"""
    refused: Mapping[int, Failure]
    """Failures of the exact decision on machines that pass the filter"""
    can_run: Callable[[int], bool]

    def waiting(self) -> Iterator[int]:
        """Machines that may serve once pods end, by the filter, and where the pod can run."""
        failed = self.verdict != Verdict.OPEN
        failed[list(self.refused)] = True
        return filter(self.can_run, np.flatnonzero(failed & (self.outlook == Lack.NOTHING)).tolist())


def prospects(
    machines: Machines,
    at_best: dict[int, Failure | None],
    decide: Callable[[int], Failure | None],
    tries: int,
) -> dict[int, Failure] | None:
    """Failures of machines that are other than they seem, since waiting helps, or does not help anywhere.

    `decide` is the failure of the exact decision on a machine of which all devices are healthy and free, and
    `at_best` keeps its results. None after `tries` new decisions: the next call continues there.
    """
    # Free devices may also resolve a failure that looks final: another way of choosing becomes possible.
    final = {n for n, why in machines.refused.items() if why.status is not Status.LATER}
    found: dict[int, Failure] = {}
    for number in chain(filter(machines.can_run, sorted(final)), machines.waiting()):
        if number not in at_best:
            at_best[number] = decide(number)
            tries -= 1
        best = at_best[number]
        if best is None and number not in final:
            return {n: why for n, why in found.items() if n in final}
        found[number] = WAITING if best is None else for_good(best)
        if not tries:
            return None
    return found


def unserved(
    machines: Machines, unsuited: int, actual: Mapping[int, Failure], failure: Callable[[int], Failure]
) -> Unserved:
    """Count the reasons. `actual` is the result of `prospects`; `failure` says what a code of a lack means.

    What an unsuitable machine lacks matters only if the pod can run nowhere.
    """
    refused = Counter(
        actual.get(number, why) for number, why in machines.refused.items() if machines.can_run(number)
    )
    asked = len(machines.refused)
    short: dict[Failure, list[int]] = {}
    for verdict, code, numbers in _groups(machines):
        lacks = failure(code)
        if verdict != Verdict.TOO_FEW:
            asked += len(numbers)
            why = lacks if lacks is not WAITING else WHY[Verdict(verdict)]
            refused.update(actual.get(n, why) for n in numbers.tolist() if machines.can_run(n))
        elif lacks is WAITING and actual:
            for number in numbers.tolist():
                short.setdefault(actual.get(number, lacks), []).append(number)
        else:
            short[lacks] = numbers.tolist()
    # One reason needs no look at the nodes of the pod: most refusals are of this kind.
    near = frozenset(
        why for why, numbers in short.items() if len(short) == 1 or any(map(machines.can_run, numbers))
    )
    counted = Counter({why: len(numbers) for why, numbers in short.items()})
    left = unsuited + asked - refused.total()
    return Unserved(len(machines.verdict), left, refused, counted, near or frozenset(short))


def _groups(machines: Machines) -> Iterable[tuple[int, int, Rows]]:
    """The machines that the filter excludes, by verdict and by what they lack."""
    for verdict in _occurring(machines.verdict[machines.verdict != Verdict.OPEN]):
        mine = machines.verdict == verdict
        for code in _occurring(machines.outlook[mine]):
            yield verdict, code, np.flatnonzero(mine & (machines.outlook == code))


def _occurring(codes: Codes) -> list[int]:
    """The small codes that occur, ascending. `distinct` would sort."""
    found: list[int] = np.flatnonzero(np.bincount(codes)).tolist()
    return found


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
