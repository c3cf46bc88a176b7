"""Answers a scenario: places the lost claims first, then copy after copy of the units."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from reconciler.allocation.alignment import decide
from reconciler.allocation.dra.budget import UNLIMITED, Budget
from reconciler.allocation.koordinator.refusing import OFFERED, Refusal
from reconciler.allocation.placement import NodeChoice, Placement, refusal_reason
from reconciler.allocation.policies.pod_room import PodRoom
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.analysis.whatif.answer import Answer, Limit, Lost, Placed, Refused
from reconciler.analysis.whatif.device_pods import DeviceSimulation, device_ids, holders, lost_pods
from reconciler.analysis.whatif.losing import lost_claims, remaining_claims, unallocated, units_of
from reconciler.analysis.whatif.scenario import Baseline, Scenario, Unit
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Reason
from reconciler.api.objects.similar_names import instead, key_instead
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot.snapshot import Snapshot
from reconciler.state.koordinator.holder import Holder
from reconciler.state.loading import load
from reconciler.state.nodes.charging import node_of
from reconciler.state.nodes.demand import demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from reconciler.state.trial import Trial

MAX_COPIES = 1_000
"""Maximum copies if the scenario has no count"""
STEPS = 10_000
"""Maximum devices tried for one decision on one node"""


def answer(
    scenario: Scenario,
    baseline: Baseline,
    *,
    steps: int = STEPS,
    max_copies: int = MAX_COPIES,
    budget: Budget = UNLIMITED,
    policies: Policies = PLAIN,
) -> Answer:
    """Answer a scenario. Raises Rejected for unknown claims and nodes, Unfinished if `budget` interrupts.

    Lost claims are placed before the units, because they are older. Placed copies keep their devices.
    """
    held = holders(baseline)
    _check(scenario, baseline.store, held)
    store = baseline.store
    allocated = {key: claim for key, claim in store.claims.items() if claim.allocation is not None}
    freed = tuple(sorted(scenario.without))
    kept = [claim for key, claim in allocated.items() if key not in scenario.without]
    lost = lost_claims(scenario.drained, store.snapshot(), kept)
    without = [key for key in freed if key in allocated]
    load(store, (unallocated(allocated[key]) for key in (*without, *(claim.key for claim in lost))))
    for name in scenario.drained:
        store.apply(Removed("Node", ObjectKey("", name)))
    gone_pods = list(lost_pods(held, scenario, store.pods))
    absent = {key for key in freed if key in held and key not in allocated}
    devices = DeviceSimulation(baseline, scenario, held)
    simulation = _Simulation(baseline, devices, absent, steps, budget, policies)
    gone = [_lose(unit, simulation, allocated, store) for unit in units_of(lost, store.pods)]
    gone += [_lose_pod(pod, before, simulation) for pod, before in gone_pods]
    copies, limit, placed, refused = _copies(scenario, simulation, max_copies)
    return Answer(freed, tuple(gone), copies, scenario.count, limit, tuple(placed), refused)


def _check(scenario: Scenario, store: Store, held: Mapping[ObjectKey, Holder]) -> None:
    for key in sorted(scenario.without - held.keys()):
        claim = store.claims.get(key)
        if claim is None:
            if key in store.pods:
                raise Rejected(f"pod {key} holds no devices of Koordinator, and there is no claim {key}")
            allocated = [other for other, one in store.claims.items() if one.allocation is not None]
            raise Rejected(
                f"there is no claim {key}{key_instead(key, [*allocated, *held], 'allocated claims')}"
            )
        if claim.allocation is None:
            raise Rejected(f"claim {key} holds no devices, so removing it frees nothing")
    nodes = store.snapshot().topology.nodes
    for name in sorted(scenario.drained):
        if name not in nodes:
            raise Rejected(f"there is no node {name}{instead(name, list(nodes), 'nodes')}")


def _lose(
    unit: Unit,
    simulation: "_Simulation",
    allocated: Mapping[ObjectKey, ResourceClaim],
    store: Store,
) -> Lost:
    before = [allocated[claim.key].allocation for claim in unit.claims]
    return Lost(
        claims=tuple(claim.key for claim in unit.claims),
        pod=unit.pod.key if unit.pod is not None else None,
        devices=tuple(
            result.id
            for allocation in before
            if allocation is not None
            for result in allocation.devices.results
        ),
        elsewhere=simulation.move(unit, tuple(remaining_claims(unit, store.claims))),
    )


def _lose_pod(pod: Pod, before: Holder, simulation: "_Simulation") -> Lost:
    return Lost(
        claims=(),
        pod=pod.key,
        devices=tuple(device for _, device in device_ids(before.node, before.allocation)),
        elsewhere=simulation.move(Unit(f"pod {pod.key}", (), pod), ()),
    )


def _copies(
    scenario: Scenario, simulation: "_Simulation", max_copies: int
) -> tuple[int, Limit, list[Placed], Refused | None]:
    placed: list[Placed] = []
    if not scenario.units:
        return 0, Limit.NOTHING, placed, None
    wanted = max_copies if scenario.count is None else scenario.count
    for copy in range(1, wanted + 1):
        for unit in _copy_units(scenario.units, copy):
            outcome = simulation.place(unit, copy)
            if isinstance(outcome, Refused):
                limit = Limit.GAVE_UP if outcome.reason == Reason.GAVE_UP else Limit.FULL
                return copy - 1, limit, placed, outcome
            placed.append(outcome)
    return wanted, Limit.BOUND if scenario.count is None else Limit.ASKED, placed, None


def _copy_units(units: Sequence[Unit], copy: int) -> Iterator[Unit]:
    """The units of one copy, with their own claims and pods."""
    for unit in units:
        pod = _copy_pod(unit.pod, copy) if unit.pod is not None else None
        yield Unit(unit.name, tuple(_copy_claim(claim, copy) for claim in unit.claims), pod)


def _copy_claim(claim: ResourceClaim, copy: int) -> ResourceClaim:
    """The uid cannot occur on a server, so it is unique."""
    metadata = claim.metadata.model_copy(update={"uid": f"what if {claim.key} {copy}"})
    return claim.model_copy(update={"metadata": metadata})


def _copy_pod(pod: Pod, copy: int) -> Pod:
    """The name is not a valid pod name, so it is unique and each copy uses its own node resources."""
    return pod.model_copy(
        update={"metadata": pod.metadata.model_copy(update={"name": f"what if {pod.key.name} {copy}"})}
    )


class _Simulation:
    """A store on which units are placed one after another."""

    def __init__(
        self,
        baseline: Baseline,
        devices: DeviceSimulation,
        absent: Collection[ObjectKey],
        steps: int,
        budget: Budget,
        policies: Policies,
    ) -> None:
        """`absent` are pods that use no resources of their nodes."""
        self._devices = devices
        self._absent = absent
        nodes = Nodes(volumes=baseline.volumes)
        for other in (*baseline.namespaces, *baseline.storage):
            nodes.note(Changed(type(other).__name__, other))
        for node in baseline.nodes:
            nodes.note(Changed("Node", node))
        for node in baseline.supposed:
            nodes.suppose(node)
        self._trial = Trial(baseline.store, nodes, supposed=True)
        self._placement = Placement(nodes, supposed=True)
        self._charged = False
        self._steps = steps
        self._budget = budget
        self._policies = policies

    def place(self, unit: Unit, copy: int) -> Placed | Refused:
        """Place a unit; it holds its devices from now on."""
        return self._place(unit, copy, self._placement.for_pod, ())

    def move(self, unit: Unit, held: Sequence[ResourceClaim]) -> Placed | Refused:
        """Place a unit that leaves its node. `held` are the claims of its pod that keep their devices."""
        return self._place(unit, 1, self._placement.before_binding, held)

    def _place(
        self, unit: Unit, copy: int, choose_nodes: Callable[..., NodeChoice], held: Sequence[ResourceClaim]
    ) -> Placed | Refused:
        snapshot, left_out = self._trial.snapshot, ""
        if unit.pod is not None and (not unit.claims or self._devices.serves(unit.pod)):
            return self._place_pod(unit, unit.pod, copy, choose_nodes)
        try:
            if unit.pod is None:
                choice = self._placement.for_claim(snapshot)
            else:
                self._charge()
                choice = choose_nodes(unit.pod, held, snapshot)
        except Rejected as exc:
            return Refused(unit.name, copy, refusal_reason(exc), str(exc))
        outcome = decide(
            unit.claims,
            snapshot,
            nodes=choice.nodes,
            steps=self._steps,
            budget=self._budget,
            policy=self._policies.of(unit.claims, snapshot, self._budget),
            pod=self._room(unit, snapshot),
        )
        if not isinstance(outcome, Granted):
            if unit.pod is not None:
                left_out = self._placement.left_out(unit.pod, held, snapshot)
            return Refused(
                unit.name, copy, outcome.reason, "; ".join(filter(None, [outcome.message, left_out]))
            )
        self._trial.place(outcome.plans, unit.pod, outcome.node)
        devices = tuple(
            (plan.claim, result.request, result.id)
            for plan in outcome.plans
            for result in plan.allocation.devices.results
        )
        return Placed(unit.name, copy, outcome.node, devices)

    def _room(self, unit: Unit, snapshot: Snapshot) -> PodRoom | None:
        if unit.pod is None or not self._policies.looks_at_pods:
            return None
        return self._placement.room(unit.pod, snapshot)

    def _place_pod(
        self, unit: Unit, pod: Pod, copy: int, choose_nodes: Callable[..., NodeChoice]
    ) -> Placed | Refused:
        """Place a pod that requests Koordinator's devices."""
        self._budget.spend()
        self._charge()
        snapshot = self._trial.snapshot
        try:
            choice = choose_nodes(pod, (), snapshot, offered=OFFERED)
        except Rejected as exc:
            return Refused(unit.name, copy, Reason.NODE_SELECTOR, str(exc))
        names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
        found = self._devices.place(
            pod,
            names.__contains__,
            lambda: self._placement.left_out(pod, (), snapshot, offered=OFFERED),
        )
        if isinstance(found, Refusal):
            return Refused(unit.name, copy, found.reason, found.message)
        self._trial.nodes.host(pod.key, pod, found.node, demand(pod))
        devices = device_ids(found.node, found.allocation)
        return Placed(unit.name, copy, found.node, tuple((pod.key, kind, device) for kind, device in devices))

    def _charge(self) -> None:
        """Charge the nodes for the existing pods, once a unit has a pod: there may be thousands."""
        if self._charged:
            return
        self._charged = True
        store, nodes = self._trial.store, self._trial.nodes
        for pod in store.pods.values():
            self._budget.spend()
            if pod.key not in self._absent:
                nodes.residents.nominate(pod.key, pod if not pod.spec.node_name else None)
                nodes.host(pod.key, pod, node_of(pod, store), demand(pod))
