"""Answers a scenario: places the lost claims first, then copy after copy of the units."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from reconciler.allocation.dra.budget import STEPS, UNLIMITED, Budget
from reconciler.allocation.placement.order import queue_key
from reconciler.allocation.pod_devices import HeldDevices, PodDevices
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.analysis.whatif.reading import moved_together
from reconciler.analysis.whatif.scenario import (
    Answer,
    Baseline,
    Gang,
    Limit,
    Lost,
    Placed,
    PlacedGang,
    Refused,
    Scenario,
    Unit,
)
from reconciler.analysis.whatif.simulation import (
    Simulation,
    lost_claims,
    remaining_claims,
    units_of,
)
from reconciler.analysis.world import check_nodes, claim_like, pod_like, unallocated
from reconciler.api.objects.changes import Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.pinning import unpinned
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.similar_names import key_instead
from reconciler.api.plugins import PLUGINS
from reconciler.errors import Rejected
from reconciler.state.nominations import Nominee, of_claim, own_of_all
from reconciler.state.store import Store
from reconciler.state.trial import load

MAX_COPIES = 1_000
"""Maximum copies if the scenario has no count"""
NO_SEAT = "its gang has its minimum, and there is no place for this pod"


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
    held = _held(baseline)
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
    gone_pods = list(_lost_pods(held, scenario, store.pods))
    absent = {key for key in freed if key in held and key not in allocated}
    stay = [one for one in baseline.others if one.key.name not in scenario.drained]
    holders = [
        store.pods[key]
        for key, one in held.items()
        if key not in scenario.without and one.node not in scenario.drained
    ]
    devices = _of_plugins(baseline, stay, [*holders, *_asking(scenario)])
    simulation = Simulation(baseline, devices, absent, steps, budget, policies, _own(scenario))
    units = [
        replace(unit, held=tuple(remaining_claims(unit, store.claims))) for unit in units_of(lost, store.pods)
    ]
    gone: list[Lost] = []
    for unit in moved_together(units, store, baseline.groups, scenario.drained):
        gone += _lose(unit, simulation, allocated)
    gone += [_lose_pod(pod, before, simulation) for pod, before in gone_pods]
    copies = _Copies(simulation, max_copies)
    limit = copies.place(scenario)
    return Answer(
        freed, tuple(gone), copies.complete, scenario.count, limit, tuple(copies.placed), copies.refused,
        tuple(copies.gangs),
    )  # fmt: skip


def _of_plugins(
    baseline: Baseline, objects: Iterable[ApiObject], pods: Iterable[Pod]
) -> list[tuple[Any, PodDevices]]:
    """The devices of plugins among some objects, some of which these pods hold."""
    if not baseline.others:
        return []
    known = [*baseline.objects, *baseline.supposed, *objects]
    found = ((plugin, plugin.offline(known, pods, baseline.options)) for plugin in PLUGINS)
    return [(plugin, part) for plugin, part in found if part is not None]


def _held(baseline: Baseline) -> dict[ObjectKey, HeldDevices]:
    """The pods that hold devices of plugins, without those that do not say it in a readable way."""
    pods = [pod for pod in baseline.store.pods.values() if is_live(pod)]
    found: dict[ObjectKey, HeldDevices] = {}
    for _, part in _of_plugins(baseline, baseline.others, pods):
        found.update(part.held)
    return found


def _lost_pods(
    held: Mapping[ObjectKey, HeldDevices], scenario: Scenario, pods: Mapping[ObjectKey, Pod]
) -> Iterator[tuple[Pod, HeldDevices]]:
    """The pods that lose their devices with a drained node, in the order in which they are placed again.

    They are as their controllers recreate them: without our pin to the node, except for a DaemonSet's pods.
    """
    lost = [pods[key] for key, one in held.items() if one.node in scenario.drained]
    for pod in sorted(lost, key=queue_key):
        if pod.key not in scenario.without:
            of_node = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
            yield pod if of_node else unpinned(pod, held[pod.key].node), held[pod.key]


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
    check_nodes(scenario.drained, store)


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
    for unit in units:
        if isinstance(unit, Gang):
            yield replace(unit, members=tuple(_copy_unit(member, copy) for member in unit.members))
        else:
            yield _copy_unit(unit, copy)


def _copy_unit(unit: Unit, copy: int) -> Unit:
    claims = (claim_like(claim, f"what if {claim.key} {copy}") for claim in unit.claims)
    pod = unit.pod
    return Unit(
        unit.name,
        tuple(claims),
        pod_like(pod, f"what if {pod.key.name} {copy}") if pod is not None else None,
    )
