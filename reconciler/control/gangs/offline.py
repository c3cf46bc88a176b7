"""Places the gangs of manifests, without a cluster."""

from collections.abc import Iterable

from msgspec import Struct

from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangUnsatisfied
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import CoschedulingPodGroup, GangKey, PodGroup, gang_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.gangs.planner import GangPlanner, GiveBack, Solve
from reconciler.control.planner import Blocked, Planner
from reconciler.control.units import GangRoster, Kind, Roster, Unit
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store
from reconciler.state.trial import Trial, load


class GangReport(Struct, frozen=True):
    """What came of a gang."""

    gang: GangKey
    places: tuple[tuple[ObjectKey, str], ...]
    """Pods and their nodes"""
    left_out: tuple[ObjectKey, ...]
    domain: tuple[tuple[str, str], ...]
    """Topology key -> value that all places share"""


class OfflineGangs:
    """The gangs among the pods of manifests. Members are its gated pods."""

    def __init__(
        self,
        groups: Iterable[PodGroup | CoschedulingPodGroup],
        pods: Iterable[Pod],
        store: Store,
        roster: Roster,
        nodes: Nodes,
        planner: Planner,
        *,
        steps: int,
    ) -> None:
        """`store` and `nodes` are those of the run; placing changes neither."""
        self._store, self._nodes = store, nodes
        self._steps = steps
        known, members = _Groups(), GangRoster()
        load(known, groups)
        for pod in pods:
            members.note(pod.key, pod)
        self._planner = GangPlanner(store, roster, members, known.groups, nodes.on_demand, planner)

    def gang(self, pod: Pod) -> GangKey | None:
        """The gang with which a pod is decided."""
        return gang_of(pod) if self._planner.serves(Unit(Kind.POD, pod.key)) else None

    def place(self, gang: GangKey) -> tuple[GangGranted, GangReport] | Blocked | None:
        """Places for the gated members of a gang, or why there are none. None: nothing is needed."""
        match self._planner.next(gang):
            case Blocked() as blocked:
                return blocked
            case GiveBack(why=why):
                return Blocked((), "NoSuitableNode", why)
            case Solve() as solve:
                answer = self._answer(solve)
                if isinstance(answer, GangUnsatisfied):
                    return Blocked((), answer.reason, answer.message)
                return answer, _report(gang, answer)
        return None

    def _answer(self, solve: Solve) -> GangGranted | GangUnsatisfied:
        with Trial(self._store, self._nodes, supposed=True) as trial:
            return decide_gang(solve.question, trial, steps=self._steps, budget=UNLIMITED)


def _report(gang: GangKey, granted: GangGranted) -> GangReport:
    places = {seat.pod: seat.node for seat in granted.seats}
    domain = tuple((tier.key, value) for tier, value in granted.domain)
    return GangReport(gang, tuple(places.items()), granted.left_out, domain)


class _Groups:
    """Takes PodGroups as if each had come from a watch."""

    def __init__(self) -> None:
        self.groups = PodGroups()
        self.apply = self.groups.note
