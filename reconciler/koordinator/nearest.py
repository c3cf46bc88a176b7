"""Joint allocation as proposed: on one PCIe switch, otherwise on one NUMA node, otherwise on the machine."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from reconciler.koordinator.demand import Instance, leading
from reconciler.koordinator.failure import Failure, insufficient
from reconciler.koordinator.gpus import Option, Options, gpu_grants, gpu_options
from reconciler.koordinator.holdings import Grant
from reconciler.koordinator.names import GPU
from reconciler.koordinator.ordinary import Ranked, grant_of, rank, usable
from reconciler.koordinator.released import JOINT_VIOLATION, Chosen
from reconciler.koordinator.spread import Place, spread
from reconciler.koordinator.view import Attempt


class Near(IntEnum):
    """How near two devices are, the nearest first."""

    PCIE = 0
    NUMA = 1
    MACHINE = 2


Spot = str | int | None
"""A switch, a NUMA node or the machine; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The devices of a further type that could be given, the best first."""

    kind: str
    wanted: int
    grants: tuple[Grant, ...]


def jointly(at: Attempt, needed: Mapping[str, Instance]) -> Chosen | Failure:
    """The types of the joint list, so near to each other as the machine allows.

    GPUs lead, where they are among them: for each the nearest devices of the other types are given.
    Every way of choosing them is tried before a nearness is given up.
    """
    lead = leading(at.demand)
    further = [kind for kind in at.demand.joint if kind != lead]
    options = _options(at, lead, needed[lead])
    if isinstance(options, Failure):
        return options
    beside = [Beside(kind, needed[kind].count, tuple(usable(at, kind, needed[kind]))) for kind in further]
    for other in beside:
        if len(other.grants) < other.wanted:
            return insufficient(other.kind)
    for tier in options.tiers:
        for near in (Near.PCIE,) if at.demand.same_pcie else Near:
            for option in tier:
                minors = _take(at, lead, option, needed[lead].count, beside, near)
                if minors is None:
                    continue
                chosen: Chosen = {lead: _granted(at, lead, minors, needed[lead], options.template)}
                for other in beside:
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
    at: Attempt, lead: str, option: Option, count: int, beside: Sequence[Beside], near: Near
) -> tuple[int, ...] | None:
    """Leading devices of which each has something of every further type so near, or None."""
    if len(option.minors) < count:
        return None
    spots = _by_spot(at, lead, option.minors, near)
    stands = [_by_spot(at, other.kind, (g.minor for g in other.grants), near) for other in beside]
    places = [Place(len(spots[spot]), tuple(len(by.get(spot, ())) for by in stands)) for spot in spots]
    counts = spread(places, count, tuple(other.wanted for other in beside))
    if counts is None:
        return None
    taken = {m for spot, n in zip(spots, counts, strict=True) for m in spots[spot][:n]}
    return tuple(minor for minor in option.minors if minor in taken)


def _companions(at: Attempt, lead: str, minors: tuple[int, ...], other: Beside) -> Iterator[Grant]:
    """The devices of one further type: the nearest to each leading one, none twice, up to the amount."""
    by_minor = {grant.minor: grant for grant in other.grants}
    unserved, taken = list(minors), list[int]()
    for near in Near:
        here = _by_spot(at, other.kind, by_minor, near)
        left = [minor for minor in unserved if not here.get(_spot(at, lead, minor, near))]
        for spot in dict.fromkeys(_spot(at, lead, minor, near) for minor in unserved):
            group = here.get(spot, [])
            if group and not any(minor in taken for minor in group):
                taken.append(group[0])
        unserved = left
    taken += _topping_up(at, lead, minors, other, taken)
    return (by_minor[minor] for minor in taken)


def _topping_up(
    at: Attempt, lead: str, minors: tuple[int, ...], other: Beside, taken: Sequence[int]
) -> list[int]:
    """Further devices up to the amount asked for, from near to far, switch by switch in turn."""
    rest = [grant.minor for grant in other.grants if grant.minor not in taken]
    ranked: list[int] = []
    for near in Near:
        spots = {_spot(at, lead, minor, near) for minor in minors} - {None}
        here = [m for m in rest if _spot(at, other.kind, m, near) in spots and m not in ranked]
        in_turn = [
            Ranked(minor, -place, at.machine.pcie(other.kind, minor)) for place, minor in enumerate(here)
        ]
        pcies = {device.pcie for device in in_turn if device.pcie is not None}
        ranked += [device.minor for device in rank(in_turn, pcies=pcies)]
    return ranked[: max(other.wanted - len(taken), 0)]


def _by_spot(at: Attempt, kind: str, minors: Iterable[int], near: Near) -> dict[Spot, list[int]]:
    found: dict[Spot, list[int]] = {}
    for minor in minors:
        spot = _spot(at, kind, minor, near)
        if spot is not None:
            found.setdefault(spot, []).append(minor)
    return found


def _spot(at: Attempt, kind: str, minor: int, near: Near) -> Spot:
    if near is Near.PCIE:
        return at.machine.pcie(kind, minor)
    return at.machine.numa(kind, minor) if near is Near.NUMA else "machine"
