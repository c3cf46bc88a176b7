"""Finds the answer: places what is lost first, then what was asked for, copy after copy."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from reconciler.allocation.alignment import decide
from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.placement import NodeChoice, Placement
from reconciler.analysis.whatif.answer import Answer, Limit, Lost, Placed, Refused
from reconciler.analysis.whatif.losing import afresh, lost_with, staying, units_of
from reconciler.analysis.whatif.question import Base, Question, Unit
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Reason
from reconciler.errors import Rejected
from reconciler.state.loading import load
from reconciler.state.nodes.charging import charge_of
from reconciler.state.nodes.demand import demand
from reconciler.state.nodes.room import Charge
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store

MOST = 1_000
"""Copies tried where none are counted"""
SOME = 3
"""Nodes that are named to who names one that is not there"""
STEPS = 10_000
"""Devices tried for one decision on one node"""


def answer(
    question: Question, base: Base, *, steps: int = STEPS, most: int = MOST, budget: Budget = UNLIMITED
) -> Answer:
    """What would be. Raises Rejected for claims and nodes that are not there, Unfinished as `budget` does.

    What is lost comes before what is asked for: it has been there longer. Copies stay where they were put.
    """
    _check(question, base.store)
    store = base.store
    allocated = {key: claim for key, claim in store.claims.items() if claim.allocation is not None}
    freed = tuple(sorted(question.without))
    kept = [claim for key, claim in allocated.items() if key not in question.without]
    lost = lost_with(question.drained, store.snapshot(), kept)
    load(store, (afresh(allocated[key]) for key in (*freed, *(claim.key for claim in lost))))
    for name in question.drained:
        store.apply(Removed("Node", ObjectKey("", name)))
    trial = _Trial(base, steps, budget)
    gone = [_lose(unit, trial, allocated, store) for unit in units_of(lost, store.pods)]
    copies, limit, placed, refused = _copies(question, trial, most)
    return Answer(freed, tuple(gone), copies, question.count, limit, tuple(placed), refused)


def _check(question: Question, store: Store) -> None:
    for key in sorted(question.without):
        claim = store.claims.get(key)
        if claim is None:
            raise Rejected(f"there is no claim {key}; name it as NAMESPACE/NAME")
        if claim.allocation is None:
            raise Rejected(f"claim {key} holds nothing, so nothing would come free without it")
    nodes = store.snapshot().topology.nodes
    for name in sorted(question.drained):
        if name not in nodes:
            some = ", ".join(sorted(nodes)[:SOME])
            raise Rejected(f"there is no node {name}; there are {len(nodes)}: {some or 'none'}")


def _lose(
    unit: Unit,
    trial: "_Trial",
    allocated: Mapping[ObjectKey, ResourceClaim],
    store: Store,
) -> Lost:
    before = [allocated[claim.key].allocation for claim in unit.claims]
    return Lost(
        claims=tuple(claim.key for claim in unit.claims),
        pod=unit.pod.key if unit.pod is not None else None,
        devices=tuple(result.id for one in before if one is not None for result in one.devices.results),
        elsewhere=trial.move(unit, tuple(staying(unit, store.claims))),
    )


def _copies(
    question: Question, trial: "_Trial", most: int
) -> tuple[int, Limit, list[Placed], Refused | None]:
    placed: list[Placed] = []
    if not question.units:
        return 0, Limit.NOTHING, placed, None
    wanted = most if question.count is None else question.count
    for copy in range(1, wanted + 1):
        for unit in _named(question.units, copy):
            found = trial.place(unit, copy)
            if isinstance(found, Refused):
                limit = Limit.GAVE_UP if found.reason == Reason.GAVE_UP else Limit.FULL
                return copy - 1, limit, placed, found
            placed.append(found)
    return wanted, Limit.BOUND if question.count is None else Limit.ASKED, placed, None


def _named(units: Sequence[Unit], copy: int) -> Iterator[Unit]:
    """Units of one copy, with claims and pods of their own."""
    for unit in units:
        pod = _own_pod(unit.pod, copy) if unit.pod is not None else None
        yield Unit(unit.name, tuple(_own(claim, copy) for claim in unit.claims), pod)


def _own(claim: ResourceClaim, copy: int) -> ResourceClaim:
    """No server gives such a uid, so that it is nobody else's."""
    metadata = claim.metadata.model_copy(update={"uid": f"what if {claim.key} {copy}"})
    return claim.model_copy(update={"metadata": metadata})


def _own_pod(pod: Pod, copy: int) -> Pod:
    """No pod can have such a name, so that each copy takes room of its own."""
    return pod.model_copy(
        update={"metadata": pod.metadata.model_copy(update={"name": f"what if {pod.key.name} {copy}"})}
    )


class _Trial:
    """One picture, on which units are placed one after another."""

    def __init__(self, base: Base, steps: int, budget: Budget) -> None:
        self._store = base.store
        self._nodes = Nodes()
        for node in base.nodes:
            self._nodes.note(Changed("Node", node))
        for node in base.supposed:
            self._nodes.suppose(node)
        self._placement = Placement(self._nodes, supposed=True)
        self._charged = False
        self._steps = steps
        self._budget = budget

    def place(self, unit: Unit, copy: int) -> Placed | Refused:
        """Where a unit goes; it is held from then on."""
        return self._place(unit, copy, self._placement.for_pod, ())

    def move(self, unit: Unit, held: Sequence[ResourceClaim]) -> Placed | Refused:
        """Where a unit goes that has to leave its node. `held` are the claims of its pod that stay."""
        return self._place(unit, 1, self._placement.before_binding, held)

    def _place(
        self, unit: Unit, copy: int, suiting: Callable[..., NodeChoice], held: Sequence[ResourceClaim]
    ) -> Placed | Refused:
        world, left_out = self._store.snapshot(), ""
        try:
            if unit.pod is None:
                choice = self._placement.for_claim(world)
            else:
                self._charge()
                choice = suiting(unit.pod, held, world)
        except Rejected as exc:
            return Refused(unit.name, copy, Reason.NODE_SELECTOR, str(exc))
        found = decide(unit.claims, world, nodes=choice.nodes, steps=self._steps, budget=self._budget)
        if not isinstance(found, Granted):
            if unit.pod is not None:
                left_out = self._placement.left_out(unit.pod, held, world)
            return Refused(unit.name, copy, found.reason, "; ".join(filter(None, [found.message, left_out])))
        for plan in found.plans:
            self._store.assume(plan)
        if unit.pod is not None and found.node:
            self._nodes.room.charge(unit.pod.key, Charge(found.node, demand(unit.pod)))
        devices = tuple(
            (plan.claim, result.request, result.id)
            for plan in found.plans
            for result in plan.allocation.devices.results
        )
        return Placed(unit.name, copy, found.node, devices)

    def _charge(self) -> None:
        """Count what the pods of the picture take, once a pod asks for room: there may be many thousands."""
        if self._charged:
            return
        self._charged = True
        for pod in self._store.pods.values():
            self._budget.spend()
            self._nodes.room.charge(pod.key, charge_of(pod, self._store))
