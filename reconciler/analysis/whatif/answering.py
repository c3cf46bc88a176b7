"""Answers a scenario: places the lost claims first, then copy after copy of the units."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec.structs import replace

from reconciler.allocation.dra.budget import STEPS, UNLIMITED, Budget
from reconciler.allocation.placement.order import queue_key
from reconciler.allocation.pod_devices import HeldDevices, PodDevices
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.analysis.whatif.question import Gang, Scenario, Unit, moved_together, with_special_claims
from reconciler.analysis.whatif.simulation import Answer, Limit, Lost, Placed, PlacedGang, Refused, Simulation
from reconciler.analysis.world import World, remove_nodes, unallocated
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.pinning import unpinned
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.selectors import NodeSelector
from reconciler.api.objects.similar_names import key_instead
from reconciler.api.plugins import PLUGINS
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nominations import Nominee, of_claim, own_of_all
from reconciler.state.pods.device_shares import demand_of
from reconciler.state.pods.placed import node_of
from reconciler.state.store import Store
from reconciler.state.trial import load

MAX_COPIES = 1_000
"""Maximum copies if the scenario has no count"""
NO_OPTIONS: Mapping[str, str] = {}
NO_SEAT = "its gang has its minimum, and there is no place for this pod"


def answer(
    scenario: Scenario,
    world: World,
    *,
    machines: Sequence[ApiObject] = (),
    options: Mapping[str, str] = NO_OPTIONS,
    steps: int = STEPS,
    max_copies: int = MAX_COPIES,
    budget: Budget = UNLIMITED,
    policies: Policies = PLAIN,
) -> Answer:
    """Answer a scenario. Raises Rejected for unknown claims and nodes, Unfinished if `budget` interrupts.

    Lost claims are placed before the units, because they are older. Placed copies keep their devices.
    `machines` are objects of plugins, such as devices, and `options` those of plugins. The world is of no
    use afterwards: what the scenario leaves out is gone.
    """
    store = world.store
    units = tuple(
        with_special_claims(scenario.units, store.supply.classes, store.rules, of_plugins=bool(machines))
    )
    if scenario.units and not units and not scenario.drained:
        (first, *_) = scenario.units
        raise Rejected(f"no DeviceClass serves the extended resources of {first.name}")
    scenario = replace(scenario, units=units)
    every = _of_plugins(world, machines, filter(is_live, store.pods.values()), options)
    held = {key: one for _, part in every for key, one in part.held.items()}
    _check(scenario, store, held)
    allocated = {key: claim for key, claim in store.claims.items() if claim.allocation is not None}
    kept = [claim for key, claim in allocated.items() if key not in scenario.without]
    lost = _lost_claims(scenario.drained, store.snapshot(), kept)
    remove_nodes(scenario.drained, store, world.nodes)
    freed = [allocated[key] for key in sorted(scenario.without) if key in allocated]
    _free([*freed, *lost], world)
    stay = [one for one in machines if one.key.name not in scenario.drained]
    holders = [
        store.pods[key]
        for key, one in held.items()
        if key not in scenario.without and one.node not in scenario.drained
    ]
    parts = _of_plugins(world, stay, [*holders, *_asking(scenario)], options)
    leaving = [
        replace(unit, held=tuple(_remaining_claims(unit, store.claims)))
        for unit in _units_of(lost, store.pods)
    ]
    gone: list[Lost] = []
    with replace(world, own=_own(scenario)).trial() as trial:
        for key in scenario.without & held.keys() - allocated.keys():
            trial.remove(key)
        simulation = Simulation(trial, parts, steps, budget, policies)
        for unit in moved_together(leaving, store, world.groups, scenario.drained):
            gone += _lose(unit, simulation, allocated)
        gone += [_lose_pod(pod, held[pod.key], simulation) for pod in _lost_pods(held, scenario, store.pods)]
        copies = _Copies(simulation, max_copies)
        limit = copies.place(scenario)
    return Answer(
        tuple(sorted(scenario.without)), tuple(gone), copies.complete, scenario.count, limit,
        tuple(copies.placed), copies.refused, tuple(copies.gangs),
    )  # fmt: skip


def _of_plugins(
    world: World, machines: Sequence[ApiObject], pods: Iterable[Pod], options: Mapping[str, str]
) -> list[tuple[Any, PodDevices]]:
    """The devices of plugins, some of which these pods hold."""
    if not machines:
        return []
    known = [*world.nodes.known, *machines]
    found = ((plugin, plugin.offline(known, pods, options)) for plugin in PLUGINS)
    return [(plugin, part) for plugin, part in found if part is not None]


def _free(claims: Sequence[ResourceClaim], world: World) -> None:
    """Count claims as not allocated, and their pods only where they are without these."""
    if not claims:
        return
    store, freed = world.store, {claim.key for claim in claims}
    load(store, map(unallocated, claims))
    for pod in store.pods.values():
        if not freed.isdisjoint(claims_of(pod)):
            world.nodes.host(pod.key, pod, node_of(pod, store), demand_of(pod, store))


def _lost_pods(
    held: Mapping[ObjectKey, HeldDevices], scenario: Scenario, pods: Mapping[ObjectKey, Pod]
) -> Iterator[Pod]:
    """The pods that lose their devices with a drained node, in the order in which they are placed again.

    They are as their controllers recreate them: without our pin to the node, except for a DaemonSet's pods.
    """
    lost = [pods[key] for key, one in held.items() if one.node in scenario.drained]
    for pod in sorted(lost, key=queue_key):
        if pod.key not in scenario.without:
            of_node = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
            yield pod if of_node else unpinned(pod, held[pod.key].node)


def _own(scenario: Scenario) -> frozenset[Nominee]:
    """For whom room may be held that the units use."""
    claims = frozenset(of_claim(claim.key) for unit in _members(scenario) for claim in unit.claims)
    return own_of_all(_asking(scenario)) | claims


def _asking(scenario: Scenario) -> list[Pod]:
    return [unit.pod for unit in _members(scenario) if unit.pod is not None]


def _members(scenario: Scenario) -> list[Unit]:
    return [unit for one in scenario.units for unit in (one.members if isinstance(one, Gang) else (one,))]


def _check(scenario: Scenario, store: Store, held: Mapping[ObjectKey, HeldDevices]) -> None:
    for key in sorted(scenario.without - held.keys()):
        claim = store.claims.get(key)
        if claim is None:
            if key in store.pods:
                raise Rejected(f"pod {key} holds no devices, and there is no claim {key}")
            allocated = [other for other, one in store.claims.items() if one.allocation is not None]
            raise Rejected(
                f"there is no claim {key}{key_instead(key, [*allocated, *held], 'allocated claims')}"
            )
        if claim.allocation is None:
            raise Rejected(f"claim {key} holds no devices, so removing it frees nothing")


def _lost_claims(
    drained: frozenset[str], snapshot: Snapshot, holding: Iterable[ResourceClaim]
) -> list[ResourceClaim]:
    """The claims whose allocation cannot be used without the drained nodes."""
    if not drained:
        return []
    fleet, nodes = snapshot.fleet, snapshot.topology.nodes
    names = fleet.vocabulary.nodes.values

    @cache
    def matches_only_drained(selector: NodeSelector) -> bool:
        try:
            matching = {name for name, node in nodes.items() if selector.matches(name, node.labels)}
        except Rejected:
            return False
        return bool(matching) and matching <= drained

    def is_lost(allocation: Allocation) -> bool:
        for result in allocation.devices.results:
            codes = [int(fleet.codes["node"][row]) for row in fleet.rows_of(result.id)]
            if codes and all(code >= 0 and names[code] in drained for code in codes):
                return True
        return allocation.node_selector is not None and matches_only_drained(allocation.node_selector)

    held = ((claim, claim.allocation) for claim in holding)
    return [claim for claim, allocation in held if allocation is not None and is_lost(allocation)]


def _units_of(lost: Iterable[ResourceClaim], pods: Mapping[ObjectKey, Pod]) -> list[Unit]:
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


def _remaining_claims(unit: Unit, holding: Mapping[ObjectKey, ResourceClaim]) -> Iterator[ResourceClaim]:
    """The claims of the same pod that keep their devices."""
    for key in claims_of(unit.pod) if unit.pod is not None else ():
        claim = holding.get(key)
        if claim is not None and claim.allocation is not None:
            yield claim


def _lose(
    unit: Unit | Gang, simulation: Simulation, allocated: Mapping[ObjectKey, ResourceClaim]
) -> Iterator[Lost]:
    if isinstance(unit, Unit):
        yield _lost(unit, allocated, simulation.move(unit))
        return
    outcome = simulation.place_gang(unit, 1)
    seats = {seat.unit: seat for seat in outcome.seats} if isinstance(outcome, PlacedGang) else {}
    why = outcome if isinstance(outcome, Refused) else Refused(unit.name, 1, Reason.NO_NODE, NO_SEAT)
    for member in unit.members:
        yield _lost(member, allocated, seats.get(member.name, why))


def _lost(unit: Unit, allocated: Mapping[ObjectKey, ResourceClaim], elsewhere: Placed | Refused) -> Lost:
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
        elsewhere=elsewhere,
    )


def _lose_pod(pod: Pod, before: HeldDevices, simulation: Simulation) -> Lost:
    return Lost(
        claims=(),
        pod=pod.key,
        devices=tuple(device for _, device in before.devices),
        elsewhere=simulation.move(Unit(f"pod {pod.key}", (), pod)),
    )


class _Copies:
    """Places copy after copy of the units."""

    def __init__(self, simulation: Simulation, max_copies: int) -> None:
        self._simulation = simulation
        self._max = max_copies
        self.complete = 0
        """Copies with all units placed"""
        self.placed: list[Placed] = []
        self.gangs: list[PlacedGang] = []
        self.refused: Refused | None = None

    def place(self, scenario: Scenario) -> Limit:
        """Place as many copies as asked, or as fit. Returns why no more were tried."""
        if not scenario.units:
            return Limit.NOTHING
        wanted = self._max if scenario.count is None else scenario.count
        for copy in range(1, wanted + 1):
            if not self._place_copy(list(_copy_units(scenario.units, copy)), copy):
                assert self.refused is not None
                return Limit.GAVE_UP if self.refused.reason == Reason.GAVE_UP else Limit.FULL
            self.complete += 1
        return Limit.BOUND if scenario.count is None else Limit.ASKED

    def _place_copy(self, units: Sequence[Unit | Gang], copy: int) -> bool:
        for at, unit in enumerate(units):
            if isinstance(unit, Gang):
                found: PlacedGang | Placed | Refused = self._simulation.place_gang(unit, copy)
            else:
                others = [other for other in units[at + 1 :] if isinstance(other, Unit)]
                found = self._simulation.place(unit, copy, others)
            match found:
                case Refused():
                    self.refused = found
                    return False
                case PlacedGang():
                    self.gangs.append(found)
                    self.placed += found.seats
                case Placed():
                    self.placed.append(found)
        return True


def _copy_units(units: Sequence[Unit | Gang], copy: int) -> Iterator[Unit | Gang]:
    """The units of one copy, with their own claims and pods."""
    mark = f"what if {copy}"
    for unit in units:
        if isinstance(unit, Gang):
            yield replace(unit, members=tuple(member.copy(mark) for member in unit.members))
        else:
            yield unit.copy(mark)
