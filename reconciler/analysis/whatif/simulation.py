"""Allocates and frees units one after another on a separate store, as the reconciler would."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import AskedGroup, GangQuestion, GangUnsatisfied, Member, Seat
from reconciler.allocation.placement.order import queue_key
from reconciler.allocation.placement.placing import Placement
from reconciler.allocation.pod_devices import PodDevices, PodRefusal
from reconciler.allocation.policies.selection import Policies
from reconciler.analysis.whatif.scenario import Gang, Placed, PlacedGang, Refused, Unit
from reconciler.analysis.world import Fit, NoFit, Sharing, WantedPod, attempt, unallocated
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.core import Pod, claims_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan, Reason
from reconciler.api.objects.selectors import NodeSelector
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.pods.device_shares import demand_of
from reconciler.state.pods.groups import INCOMPLETE
from reconciler.state.trial import Trial


def lost_claims(
    drained: frozenset[str], snapshot: Snapshot, holding: Iterable[ResourceClaim]
) -> list[ResourceClaim]:
    """The claims whose allocation cannot be used without the drained nodes."""
    if not drained:
        return []
    known: dict[NodeSelector, bool] = {}  # claims of one node have equal selectors

    def matches_only_drained(selector: NodeSelector) -> bool:
        if selector not in known:
            known[selector] = _matches_only(selector, drained, snapshot)
        return known[selector]

    return [
        claim
        for claim in holding
        if claim.allocation is not None
        and _is_lost(claim.allocation, drained, matches_only_drained, snapshot)
    ]


def _is_lost(
    allocation: Allocation,
    drained: frozenset[str],
    matches_only_drained: Callable[[NodeSelector], bool],
    snapshot: Snapshot,
) -> bool:
    values = snapshot.fleet.vocabulary.nodes.values
    for result in allocation.devices.results:
        codes = [int(snapshot.fleet.codes["node"][row]) for row in snapshot.fleet.rows_of(result.id)]
        if codes and all(code >= 0 and values[code] in drained for code in codes):
            return True
    return allocation.node_selector is not None and matches_only_drained(allocation.node_selector)


def _matches_only(selector: NodeSelector, drained: frozenset[str], snapshot: Snapshot) -> bool:
    """Whether a selector matches nodes, and all of them are drained."""
    try:
        matching = {
            name for name, node in snapshot.topology.nodes.items() if selector.matches(name, node.labels)
        }
    except Rejected:
        return False
    return bool(matching) and matching <= drained


def units_of(lost: Iterable[ResourceClaim], pods: Mapping[ObjectKey, Pod]) -> list[Unit]:
    """The lost claims by pod, unallocated, in the order in which they are placed.

    The claims of an unknown pod have the position of their first claim.
    """
    groups: dict[ObjectKey | None, list[ResourceClaim]] = {}
    for claim in lost:
        user = _user(claim)
        groups.setdefault(user or ObjectKey("claim " + claim.key.namespace, claim.key.name), []).append(claim)
    units = []
    for user, claims in groups.items():
        pod = pods.get(user) if user is not None else None
        members = sorted(claims, key=lambda claim: claim.key)
        name = f"pod {pod.key}" if pod is not None else ", ".join(f"claim {claim.key}" for claim in members)
        first = queue_key(pod) if pod is not None else min(map(queue_key, members))
        units.append((first, Unit(name, tuple(map(unallocated, members)), pod)))
    return [unit for _, unit in sorted(units, key=lambda entry: entry[0])]


def _user(claim: ResourceClaim) -> ObjectKey | None:
    """The first pod in the claim's reservedFor."""
    pods = (user for user in claim.status.reserved_for if user.resource == "pods")
    return next((ObjectKey(claim.key.namespace, user.name) for user in pods), None)


def remaining_claims(unit: Unit, holding: Mapping[ObjectKey, ResourceClaim]) -> Iterator[ResourceClaim]:
    """The claims of the same pod that keep their devices."""
    for key in claims_of(unit.pod) if unit.pod is not None else ():
        claim = holding.get(key)
        if claim is not None and claim.allocation is not None:
            yield claim


class Simulation:
    """What is placed holds its devices and its room from then on."""

    def __init__(
        self,
        trial: Trial,
        devices: Sequence[tuple[Any, PodDevices]],
        steps: int,
        budget: Budget,
        policies: Policies,
    ) -> None:
        """`devices` are those of plugins, beside their plugin."""
        self._trial, self._devices = trial, devices
        self._placement = Placement(trial.nodes, supposed=trial.supposed)
        self._expected: dict[ObjectKey, str] = {}
        """The node of each pod that was placed with another that shares its claims"""
        self._steps, self._budget, self._policies = steps, budget, policies

    def place(self, unit: Unit, copy: int, others: Sequence[Unit] = ()) -> Placed | Refused:
        """Place a unit. `others` have no place yet; those that share its claims must fit, too."""
        return self._place(unit, copy, (), others)

    def move(self, unit: Unit) -> Placed | Refused:
        """Place a unit that leaves its node."""
        return self._place(unit, 1, unit.held, (), leaves=True)

    def place_gang(self, gang: Gang, copy: int) -> PlacedGang | Refused:
        """Place a gang: at least its minimum together."""
        if gang.refusal is not None:
            return Refused(gang.name, copy, gang.refusal.reason, gang.refusal.message)
        if len(gang.members) < gang.least:
            why = f"{len(gang.members)} of {gang.least} pods exist"
            return Refused(gang.name, copy, INCOMPLETE, why)
        pods = [(unit, unit.pod) for unit in gang.members if unit.pod is not None]
        members = tuple(Member(pod, unit.claims, unit.held) for unit, pod in pods)
        tree = AskedGroup.of(gang.rules, members, gang.placed) if gang.rules is not None else None
        question = GangQuestion(
            gang.key, members, gang.least, gang.tiers, gang.nodes, gang.devices, self._policies, tree
        )
        outcome = decide_gang(question, self._trial, steps=self._steps, budget=self._budget)
        if isinstance(outcome, GangUnsatisfied):
            return Refused(gang.name, copy, outcome.reason, outcome.message)
        names = {pod.key: unit.name for unit, pod in pods}
        return PlacedGang(
            gang.name,
            copy,
            tuple(_seat(names[seat.pod], copy, seat) for seat in outcome.seats),
            tuple(names[pod] for pod in outcome.left_out),
            tuple((tier.key, value) for tier, value in outcome.domain),
        )

    def _place(
        self,
        unit: Unit,
        copy: int,
        held: Sequence[ResourceClaim],
        others: Sequence[Unit],
        *,
        leaves: bool = False,
    ) -> Placed | Refused:
        for plugin, part in self._devices:
            if unit.pod is not None and plugin.requests(unit.pod):
                return self._place_device_pod(unit, unit.pod, part, copy, leaves=leaves)
        todo = tuple(claim for claim in unit.claims if self._plan(claim) is None)
        if unit.pod is not None and not todo:
            self._budget.spend()
        found = attempt(
            WantedPod(todo, unit.pod, (*held, *self._allocated(unit.claims)), self._sharing(todo, others)),
            self._trial,
            steps=self._steps,
            budget=self._budget,
            policies=self._policies,
            leaves=leaves,
            # A pod that shares all its claims goes where it was placed with the first pod that uses them.
            preferred=None if unit.pod is None else self._expected.get(unit.pod.key),
        )
        if isinstance(found, NoFit):
            return Refused(unit.name, copy, found.reason, found.message)
        node = self._hold(found, unit, others)
        return Placed(unit.name, copy, node, _devices(found.plans))

    def _sharing(self, todo: Sequence[ResourceClaim], others: Sequence[Unit]) -> tuple[Sharing, ...]:
        """The other pods that share the claims."""
        uids = [claim.metadata.uid for claim in todo]
        found: list[Sharing] = []
        for unit in others:
            theirs = {claim.metadata.uid for claim in unit.claims}
            shared = tuple(at for at, uid in enumerate(uids) if uid in theirs)
            if shared and unit.pod is not None:
                found.append((unit.pod, self._allocated(unit.claims), shared))
        return tuple(found)

    def _hold(self, found: Fit, unit: Unit, others: Sequence[Unit]) -> str:
        """Count a pod on its node, and those that share its claims on theirs. Returns its node."""
        places: Mapping[ObjectKey, str] = {}
        pod = unit.pod
        if found.together is not None:
            reach = [self._placement.reach(plan, self._trial.snapshot) for plan in found.plans]
            places = found.together.places(reach, self._budget.spend) or {}
        node = places.get(pod.key, found.node) if pod is not None else found.node
        self._trial.place(found.plans)
        if pod is not None and node:
            self._host(unit, pod, node)
        for other in others:
            if other.pod is not None and other.pod.key in places:
                self._host(other, other.pod, places[other.pod.key])
                self._expected[other.pod.key] = places[other.pod.key]
        return node

    def _host(self, unit: Unit, pod: Pod, node: str) -> None:
        """Count the pod of a unit on a node, with what its devices take."""
        plans = [plan for claim in unit.claims if (plan := self._plan(claim)) is not None]
        self._trial.host(pod, node, demand_of(pod, self._trial.store, plans))

    def _allocated(self, claims: Sequence[ResourceClaim]) -> tuple[ResourceClaim, ...]:
        """The claims that units before have allocated, as if that were written."""
        found = ((claim, self._plan(claim)) for claim in claims)
        return tuple(
            claim.model_copy(
                update={"status": claim.status.model_copy(update={"allocation": plan.allocation})}
            )
            for claim, plan in found
            if plan is not None
        )

    def _plan(self, claim: ResourceClaim) -> Plan | None:
        """What a unit before has allocated for a claim that it shares."""
        return self._trial.store.assumed(claim.metadata.uid)

    def _place_device_pod(
        self, unit: Unit, pod: Pod, part: PodDevices, copy: int, *, leaves: bool
    ) -> Placed | Refused:
        """Place a pod that requests devices of a plugin."""
        self._budget.spend()
        snapshot = self._trial.snapshot
        try:
            choose = self._placement.before_binding if leaves else self._placement.for_pod
            choice = choose(pod, (), snapshot, offered=part.offered)
        except Rejected as exc:
            return Refused(unit.name, copy, Reason.NODE_SELECTOR, str(exc))
        names = snapshot.topology.nodes.keys() if choice.nodes is None else frozenset(choice.nodes)
        found = part.place(
            pod,
            names.__contains__,
            lambda: self._placement.left_out(pod, (), snapshot, offered=part.offered),
        )
        if isinstance(found, PodRefusal):
            return Refused(unit.name, copy, found.reason, found.message)
        self._trial.nodes.host(pod.key, pod, found.node, demand_of(pod, self._trial.store))
        devices = tuple((pod.key, kind, device) for kind, device in found.held.devices)
        return Placed(unit.name, copy, found.node, devices)


def _seat(unit: str, copy: int, seat: Seat) -> Placed:
    return Placed(unit, copy, seat.node, _devices(seat.plans))


def _devices(plans: Sequence[Plan]) -> tuple[tuple[ObjectKey, str, DeviceID], ...]:
    return tuple(
        (plan.claim, result.request, result.id)
        for plan in plans
        for result in plan.allocation.devices.results
    )
