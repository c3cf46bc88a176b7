"""The decision: which devices of one machine are allocated to a pod (KOO-9, KOO-20), or why none.

A joint allocation chooses devices of several types near each other: on one PCIe switch, else on one NUMA
node, else on the machine. The release chooses the primary type first and does not backtrack (KOO-11).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.plugins.koordinator import choice
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.choice import Attempt, Option, Options, Takeover
from reconciler.plugins.koordinator.demand import (
    Demand,
    Failure,
    Instance,
    Status,
    instances,
    insufficient,
    leading_type,
)
from reconciler.plugins.koordinator.holdings import Allocation, Grant, Holdings
from reconciler.plugins.koordinator.machine import Machine
from reconciler.plugins.koordinator.vocabulary import GPU, Rules, printed


def completed(allocation: Allocation, machine: Machine) -> Allocation | Failure:
    """The allocation with GPU memory both in bytes and in percent; the missing one is computed."""
    found = dict(allocation)
    if GPU in found:
        gpus: list[Grant] = []
        for grant in found[GPU]:
            total = machine.capacity.get(GPU, {}).get(grant.minor, {}).get(koord.GPU_MEMORY, 0)
            if not total:
                message = f"no healthy gpu device with minor {grant.minor} of allocation"
                return Failure("gpu-capacity-unknown", Status.ERROR, message)
            gpus.append(_with_memory(grant, total))
        found[GPU] = tuple(gpus)
    return found


def annotation(allocation: Allocation, machine: Machine) -> str:
    """The text of `device-allocated`."""
    value = {
        kind: [_entry(grant, machine.devices[kind][grant.minor].id) for grant in allocation[kind]]
        for kind in sorted(allocation)
    }
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _with_memory(grant: Grant, total: int) -> Grant:
    shares = dict(grant.shares)
    if koord.GPU_MEMORY not in shares and koord.GPU_MEMORY_RATIO in shares:
        shares[koord.GPU_MEMORY] = shares[koord.GPU_MEMORY_RATIO] * total // 100
    if koord.GPU_MEMORY_RATIO not in shares and koord.GPU_MEMORY in shares:
        shares[koord.GPU_MEMORY_RATIO] = shares[koord.GPU_MEMORY] * 100 // total
    return replace(grant, shares=shares)


def _entry(grant: Grant, identifier: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"minor": grant.minor, "resources": printed(grant.shares)}
    if identifier:
        entry["id"] = identifier
    extension: dict[str, Any] = {}
    if grant.vfs:
        extension["vfs"] = [
            {"minor": vf.minor, "busID": vf.bus_id} if vf.minor else {"busID": vf.bus_id} for vf in grant.vfs
        ]
    if grant.template:
        extension["gpuSharedResourceTemplate"] = grant.template
    if extension:
        entry["extension"] = extension
    return entry


JOINT_VIOLATION = Failure(
    "joint-scope-violation", Status.LATER, "node(s) Device Joint-Allocate rules violation"
)

GrantsByType = dict[str, tuple[Grant, ...]]


def allocate_jointly_as_released(at: Attempt, needed: Mapping[str, Instance]) -> GrantsByType | Failure:
    """Devices for all types of the joint list (KOO-11)."""
    primary, *secondary = at.demand.joint
    first = allocate_type(at, primary, needed[primary])
    if isinstance(first, Failure):
        return first
    pcies = _pcies(at, primary, first)
    chosen: GrantsByType = {primary: first}
    for kind in secondary:
        wanted = needed[kind]
        if at.demand.same_pcie:
            wanted = Instance(max(wanted.count, len(pcies)), wanted.each, wanted.shared)
        limit = max(wanted.count, len(pcies))
        if kind == GPU:
            found = allocate_type(at, kind, wanted, limit=limit)
        else:
            found = choice.choose(at, kind, wanted, limit=limit, pcies=pcies)
        if isinstance(found, Failure):
            return found
        chosen[kind] = found
    if at.demand.same_pcie and any(_pcies(at, kind, chosen[kind]) != pcies for kind in secondary):
        return JOINT_VIOLATION
    return chosen


def allocate_type(at: Attempt, kind: str, needed: Instance, *, limit: int = 0) -> tuple[Grant, ...] | Failure:
    """Devices for one type, independent of other types."""
    if kind != GPU:
        return choice.choose(at, kind, needed, limit=limit)
    options = choice.gpu_options(at, needed)
    if isinstance(options, Failure):
        return options
    best = options.tiers[0][0]
    count = max(needed.count, limit) if best.open_end else needed.count
    minors = best.minors if best.whole else best.minors[:count]
    return choice.gpu_grants(minors, needed, options.template)


def _pcies(at: Attempt, kind: str, grants: tuple[Grant, ...]) -> set[str]:
    switches = (at.machine.pcie(kind, grant.minor) for grant in grants)
    return {switch for switch in switches if switch is not None}


class Place(NamedTuple):
    """Devices at one place, and the companions that become usable if any of the devices is taken."""

    things: int
    beside: tuple[int, ...]
    """Number of companions here, by further type."""


class _State(NamedTuple):
    """The remaining need from place number `at` on."""

    at: int
    left: int
    missing: tuple[int, ...]


def spread(places: Sequence[Place], need: int, wanted: tuple[int, ...]) -> list[int] | None:
    """The number of devices to take from each place, or None if there is no solution.

    The numbers add up to `need`. Each used place has a companion of every further type, and all used places
    together have at least `wanted` companions of each type. Earlier places are filled first, with
    backtracking. No state is tried twice, so it ends after places x need x wanted steps.
    """
    if sum(place.things for place in places) < need:
        return None
    start = _State(0, need, wanted)
    tried = {start}
    # An explicit stack: a machine may have more places than the recursion limit.
    stack = [(start, _counts(places, start))]
    taken: list[int] = []
    while stack:
        state, counts = stack[-1]
        if state.at == len(places):
            if state.left == 0 and not any(state.missing):
                return taken
            count = None
        else:
            count = next(counts, None)
        if count is None:
            stack.pop()
            if taken:
                taken.pop()
            continue
        after = _after(places[state.at], state, count)
        if after not in tried:
            tried.add(after)
            taken.append(count)
            stack.append((after, _counts(places, after)))
    return None


def _counts(places: Sequence[Place], state: _State) -> Iterator[int]:
    """Possible numbers of devices from the next place, the largest first."""
    if state.at == len(places):
        return iter(())
    place = places[state.at]
    return iter(range(min(place.things, state.left) if all(place.beside) else 0, -1, -1))


def _after(place: Place, state: _State, count: int) -> _State:
    missing = state.missing
    if count:
        missing = tuple(max(m - b, 0) for m, b in zip(missing, place.beside, strict=True))
    return _State(state.at + 1, state.left - count, missing)


class Proximity(IntEnum):
    """The proximity of two devices, the nearest first."""

    PCIE = 0
    NUMA = 1
    MACHINE = 2


Spot = str | int | None
"""A switch, a NUMA node or the machine; None if it is not known."""


class Companions(Struct, frozen=True):
    """The usable devices of a further type, the best first."""

    kind: str
    wanted: int
    grants: tuple[Grant, ...]


def allocate_jointly(at: Attempt, needed: Mapping[str, Instance]) -> GrantsByType | Failure:
    """Devices for all types of the joint list, as near to each other as the machine allows.

    The leading type (GPUs if listed) comes first; for each of its devices the nearest devices of the other
    types are chosen. All options of the leading type are tried before the next proximity.
    """
    lead = leading_type(at.demand)
    further = [kind for kind in at.demand.joint if kind != lead]
    options = _options(at, lead, needed[lead])
    if isinstance(options, Failure):
        return options
    companions = [
        Companions(kind, needed[kind].count, tuple(choice.usable(at, kind, needed[kind]))) for kind in further
    ]
    for other in companions:
        if len(other.grants) < other.wanted:
            return insufficient(other.kind)
    for tier in options.tiers:
        for proximity in (Proximity.PCIE,) if at.demand.same_pcie else Proximity:
            for option in tier:
                minors = _take(at, lead, option, needed[lead].count, companions, proximity)
                if minors is None:
                    continue
                chosen: GrantsByType = {lead: _granted(at, lead, minors, needed[lead], options.template)}
                for other in companions:
                    chosen[other.kind] = tuple(_companions(at, lead, minors, other))
                return chosen
    return JOINT_VIOLATION


def _options(at: Attempt, lead: str, needed: Instance) -> Options | Failure:
    if lead == GPU:
        return choice.gpu_options(at, needed)
    minors = tuple(grant.minor for grant in choice.usable(at, lead, needed))
    return Options(((Option(minors),),)) if len(minors) >= needed.count else insufficient(lead)


def _granted(
    at: Attempt, lead: str, minors: tuple[int, ...], needed: Instance, template: str
) -> tuple[Grant, ...]:
    if lead == GPU:
        return choice.gpu_grants(minors, needed, template)
    grants = (choice.grant_of(at, lead, minor, needed) for minor in minors)
    return tuple(grant for grant in grants if grant is not None)


def _take(
    at: Attempt, lead: str, option: Option, count: int, companions: Sequence[Companions], proximity: Proximity
) -> tuple[int, ...] | None:
    """Leading devices that each have a device of every further type in this proximity, or None."""
    if len(option.minors) < count:
        return None
    spots = _by_spot(at, lead, option.minors, proximity)
    by_spot = [_by_spot(at, other.kind, (g.minor for g in other.grants), proximity) for other in companions]
    places = [Place(len(spots[spot]), tuple(len(by.get(spot, ())) for by in by_spot)) for spot in spots]
    counts = spread(places, count, tuple(other.wanted for other in companions))
    if counts is None:
        return None
    taken = {m for spot, n in zip(spots, counts, strict=True) for m in spots[spot][:n]}
    return tuple(minor for minor in option.minors if minor in taken)


def _companions(at: Attempt, lead: str, minors: tuple[int, ...], other: Companions) -> Iterator[Grant]:
    """The devices of one further type: the nearest to each leading device, without duplicates."""
    by_minor = {grant.minor: grant for grant in other.grants}
    unserved, taken = list(minors), list[int]()
    for proximity in Proximity:
        here = _by_spot(at, other.kind, by_minor, proximity)
        left = [minor for minor in unserved if not here.get(_spot(at, lead, minor, proximity))]
        for spot in dict.fromkeys(_spot(at, lead, minor, proximity) for minor in unserved):
            group = here.get(spot, [])
            if group and not any(minor in taken for minor in group):
                taken.append(group[0])
        unserved = left
    taken += _topping_up(at, lead, minors, other, taken)
    return (by_minor[minor] for minor in taken)


def _topping_up(
    at: Attempt, lead: str, minors: tuple[int, ...], other: Companions, taken: Sequence[int]
) -> list[int]:
    """More devices up to the requested number, from near to far, alternating between switches."""
    rest = [grant.minor for grant in other.grants if grant.minor not in taken]
    ranked: list[int] = []
    for proximity in Proximity:
        spots = {_spot(at, lead, minor, proximity) for minor in minors} - {None}
        here = [m for m in rest if _spot(at, other.kind, m, proximity) in spots and m not in ranked]
        in_turn = [
            choice.Ranked(minor, -place, at.machine.pcie(other.kind, minor))
            for place, minor in enumerate(here)
        ]
        pcies = {device.pcie for device in in_turn if device.pcie is not None}
        ranked += [device.minor for device in choice.rank(in_turn, pcies=pcies)]
    return ranked[: max(other.wanted - len(taken), 0)]


def _by_spot(at: Attempt, kind: str, minors: Iterable[int], proximity: Proximity) -> dict[Spot, list[int]]:
    found: dict[Spot, list[int]] = {}
    for minor in minors:
        spot = _spot(at, kind, minor, proximity)
        if spot is not None:
            found.setdefault(spot, []).append(minor)
    return found


def _spot(at: Attempt, kind: str, minor: int, proximity: Proximity) -> Spot:
    if proximity is Proximity.PCIE:
        return at.machine.pcie(kind, minor)
    return at.machine.numa(kind, minor) if proximity is Proximity.NUMA else "machine"


NOTHING_TO_TAKE_OVER = Takeover()


def allocate(
    demand: Demand,
    machine: Machine,
    holdings: Holdings,
    rules: Rules,
    *,
    takeover: Takeover = NOTHING_TO_TAKE_OVER,
    trial: bool = False,
) -> Allocation | Failure:
    """The allocation of a pod on one machine, complete for the annotation. Changes nothing.

    A trial omits the secondary types of a well-planned machine.
    """
    if refused := _unsuitable(demand, machine, rules):
        return refused
    needed = instances(demand, machine, trial=trial)
    if isinstance(needed, Failure):
        return needed
    at = choice.attempt(demand, machine, holdings, rules, takeover)
    chosen: GrantsByType = {}
    if demand.joint and all(kind in needed for kind in demand.joint):
        jointly = allocate_jointly_as_released if rules.upstream else allocate_jointly
        found = jointly(at, needed)
        if isinstance(found, Failure):
            return found
        chosen = found
    for kind in [kind for kind in needed if kind not in chosen]:
        grants = allocate_type(at, kind, needed[kind])
        if isinstance(grants, Failure):
            return grants
        chosen[kind] = grants
    return completed(chosen, machine)


def _unsuitable(demand: Demand, machine: Machine, rules: Rules) -> Failure | None:
    """The failure if the machine's policy is unknown, or it cannot share GPUs as the pod requests (KOO-8)."""
    if demand.gpu is not None and machine.unknown_policy:
        message = f"node(s) with the unknown GPU partition policy {machine.unknown_policy!r}"
        return Failure("partition-policy-unknown", Status.NEVER, message)
    if demand.gpu is None or not demand.gpu.shared:
        return None
    provider = demand.isolation
    if provider and machine.isolation != provider:
        name = "HAMICore" if provider == "HAMi-core" else provider
        message = f"GPUIsolationProvider{name} not found on the node"
        return Failure("isolation-provider-missing", Status.ERROR, message)
    if (machine.vendor, machine.model) in rules.unshared_models:
        message = f'model "{machine.model}" of vendor "{machine.vendor}" does not support {GPU.upper()} Share'
        return Failure("gpu-share-unsupported-model", Status.NEVER, message)
    return None
