"""Finds the answer: places what is lost first, then what was asked for, copy after copy."""

from collections.abc import Iterator, Mapping, Sequence

from reconciler.allocator.pace import LEISURE, Pace
from reconciler.errors import Rejected
from reconciler.inventory.loading import load
from reconciler.inventory.store import Store
from reconciler.joint import decide
from reconciler.nodes.table import Nodes
from reconciler.objects.changes import Changed, Removed
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.meta import ObjectKey
from reconciler.objects.nodeselector import NodeSelector
from reconciler.objects.plan import Granted, Reason
from reconciler.whatif.answer import Answer, Limit, Lost, Placed, Refused
from reconciler.whatif.losing import afresh, lost_with, staying, units_of
from reconciler.whatif.question import Base, Question, Unit

MOST = 1_000
"""Copies tried where none are counted"""
SOME = 3
"""Nodes that are named to who names one that is not there"""
STEPS = 10_000
"""Devices tried for one decision on one node"""


def answer(
    question: Question, base: Base, *, steps: int = STEPS, most: int = MOST, pace: Pace = LEISURE
) -> Answer:
    """What would be. Raises Rejected for claims and nodes that are not there, Unfinished where `pace` breaks
    off.

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
    trial = _Trial(base, steps, pace)
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
        elsewhere=trial.place(unit, 1, tuple(staying(unit, store.claims))),
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
    """Units of one copy, with claims of their own."""
    for unit in units:
        yield Unit(unit.name, tuple(_own(claim, copy) for claim in unit.claims), unit.pod)


def _own(claim: ResourceClaim, copy: int) -> ResourceClaim:
    """No server gives such a uid, so that it is nobody else's."""
    metadata = claim.metadata.model_copy(update={"uid": f"what if {claim.key} {copy}"})
    return claim.model_copy(update={"metadata": metadata})


class _Trial:
    """One picture, on which units are placed one after another."""

    def __init__(self, base: Base, steps: int, pace: Pace) -> None:
        self._store = base.store
        self._nodes = Nodes()
        for node in base.nodes:
            self._nodes.note(Changed("Node", node))
        self._steps = steps
        self._pace = pace

    def place(self, unit: Unit, copy: int, held: Sequence[NodeSelector] = ()) -> Placed | Refused:
        """Where a unit goes; it is held from then on. `held` bounds the nodes besides."""
        try:
            nodes = self._where(unit, held)
        except Rejected as exc:
            return Refused(unit.name, copy, Reason.NODE_SELECTOR, str(exc))
        if nodes is not None and not nodes:
            why = "no node goes with the pod's selector, affinity and tolerations"
            return Refused(unit.name, copy, Reason.NO_NODE, why)
        found = decide(unit.claims, self._store.snapshot(), nodes=nodes, steps=self._steps, pace=self._pace)
        if not isinstance(found, Granted):
            return Refused(unit.name, copy, found.reason, found.message)
        for plan in found.plans:
            self._store.assume(plan)
        devices = tuple(
            (plan.claim, result.request, result.id)
            for plan in found.plans
            for result in plan.allocation.devices.results
        )
        return Placed(unit.name, copy, found.node, devices)

    def _where(self, unit: Unit, held: Sequence[NodeSelector]) -> Sequence[str] | None:
        """The nodes that a pod may run on; for a claim alone, those that take any pods. None is all."""
        topology, nodes = self._store.snapshot().topology, self._nodes
        if unit.pod is None:
            open_ = nodes.open(topology)
            return None if open_ is None else tuple(open_)
        suiting = nodes.labelled(unit.pod) & nodes.tolerated(unit.pod) & nodes.matching(held)
        mask = nodes.in_order(suiting, topology.order)
        return [name for name, suits in zip(topology.order, mask.tolist(), strict=True) if suits]
