"""Joint allocation of the proposal: on one PCIe switch, else on one NUMA node, else on the machine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

from msgspec import Struct

from reconciler.allocation.koordinator.demand import Instance, leading_type
from reconciler.allocation.koordinator.failure import Failure, insufficient
from reconciler.allocation.koordinator.gpus import Option, Options, gpu_grants, gpu_options
from reconciler.allocation.koordinator.joint_release import JOINT_VIOLATION, GrantsByType
from reconciler.allocation.koordinator.ordinary import Ranked, grant_of, rank, usable
from reconciler.allocation.koordinator.spread import Place, spread
from reconciler.allocation.koordinator.view import Attempt
from reconciler.api.koordinator.names import GPU
from reconciler.state.koordinator.holdings import Grant


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
        Companions(kind, needed[kind].count, tuple(usable(at, kind, needed[kind]))) for kind in further
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
        return gpu_options(at, needed)
    minors = tuple(grant.minor for grant in usable(at, lead, needed))
    return Options(((Option(minors),),)) if len(minors) >= needed.count else insufficient(lead)


def _granted(
    at: Attempt, lead: str, minors: tuple[int, ...], needed: Instance, template: str
) -> tuple[Grant, ...]:
    if lead == GPU:
        return gpu_grants(minors, needed, template)
    grants = (grant_of(at, lead, minor, needed) for minor in minors)
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
            Ranked(minor, -place, at.machine.pcie(other.kind, minor)) for place, minor in enumerate(here)
        ]
        pcies = {device.pcie for device in in_turn if device.pcie is not None}
        ranked += [device.minor for device in rank(in_turn, pcies=pcies)]
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
