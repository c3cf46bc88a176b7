"""What was measured, added up by driver, by pool or by node."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from kernels.types import Rows
from reconciler.analysis.capacity.families import families, summed
from reconciler.analysis.capacity.measure import Measured

By = Literal["driver", "pool", "node"]


@dataclass(frozen=True, slots=True)
class Fits:
    """One profile, in a part of the fleet."""

    profile: str
    devices: int
    """Published"""
    held: int
    """Alone or in shares"""
    fits: int
    """How many more can be had at once, beside all that is held"""
    at_most: int
    """Beyond which certainly none; more than `fits` only where the search gave up"""
    size: float
    """The part of a counter set that one draws; 1 for whole devices"""
    fragmentation: float | None
    """Of a driver: the part of what is free that the profile cannot use. None where that means nothing"""


@dataclass(frozen=True, slots=True)
class Left:
    """One counter, or family of counters, in billionths."""

    counter: str
    total: int
    left: int
    stranded: int
    """Of what is left, what no device that can be had could use"""
    exact: bool
    """Otherwise more may be stranded: the search gave up"""


@dataclass(frozen=True, slots=True)
class Line:
    """One driver; or one of its pools; or what it has on one node."""

    driver: str
    pool: str
    node: str
    """Empty for what several nodes reach"""
    devices: int
    held: int
    shared: int
    allocatable: int
    """Each on its own"""
    tainted: int
    """Free, but only for claims with a toleration"""
    blocked: int
    """Free, but what it draws from or goes with is taken"""
    profiles: tuple[Fits, ...]
    """The largest first"""
    counters: tuple[Left, ...]

    @property
    def largest(self) -> str:
        """The largest profile of which one more fits; empty if none does."""
        return next((one.profile for one in self.profiles if one.fits), "")


class _Parts(NamedTuple):
    """How a fleet is divided. Parts are numbered from 0 in the order of their names."""

    names: list[tuple[str, str, str]]
    """Driver, pool, node"""
    of_device: Rows
    of_set: Rows


def lines(found: Measured, by: By) -> list[Line]:
    """One line for every part, sorted by name."""
    parts = _divide(found, by)
    offered = found.ground.offered
    masks = (offered, found.held, found.shared, found.allocatable, found.tainted)
    counts = [np.bincount(parts.of_device[mask], minlength=len(parts.names)).tolist() for mask in masks]
    profiles = _profiles(found, parts, fragmentation=by == "driver")
    counters = _counters(found, parts)
    return [
        Line(
            driver=name[0],
            pool=name[1],
            node=name[2],
            devices=devices,
            held=held,
            shared=shared,
            allocatable=allocatable,
            tainted=tainted,
            blocked=devices - held - shared - allocatable - tainted,
            profiles=tuple(profiles.get(at, ())),
            counters=tuple(counters.get(at, ())),
        )
        for at, (name, devices, held, shared, allocatable, tainted) in enumerate(
            zip(parts.names, *counts, strict=True)
        )
        if devices
    ]


def _divide(found: Measured, by: By) -> _Parts:
    ground = found.ground
    fleet = ground.fleet
    if by == "driver":
        names = [(driver, "", "") for driver in ground.drivers]
        of_pool = ground.driver_of_pool.astype(np.intp)
        return _Parts(names, of_pool[fleet.pool_of], of_pool[ground.pool_of_set])
    if by == "pool":
        pools = [(pool.id.driver, pool.id.pool) for pool in fleet.pools]
        order = sorted(range(len(pools)), key=pools.__getitem__)
        place = np.empty(len(pools), dtype=np.intp)
        place[order] = np.arange(len(pools))
        nodes = [pool.nodes[0] if pool.nodes and len(pool.nodes) == 1 else "" for pool in fleet.pools]
        names = [(*pools[at], nodes[at]) for at in order]
        return _Parts(names, place[fleet.pool_of], place[ground.pool_of_set])
    values = fleet.words.nodes.values
    width = len(values) + 1
    of_device = ground.driver_of_pool[fleet.pool_of].astype(np.intp) * width + ground.node_of + 1
    of_set = ground.driver_of_pool[ground.pool_of_set].astype(np.intp) * width + ground.node_of_set + 1
    codes = np.unique(np.concatenate([of_device, of_set]))
    named = [(ground.drivers[c // width], "", values[c % width - 1] if c % width else "") for c in codes]
    order = sorted(range(len(named)), key=named.__getitem__)
    place = np.empty(len(named), dtype=np.intp)
    place[order] = np.arange(len(named))
    return _Parts(
        [named[at] for at in order],
        place[np.searchsorted(codes, of_device)],
        place[np.searchsorted(codes, of_set)],
    )


def _profiles(found: Measured, parts: _Parts, *, fragmentation: bool) -> dict[int, list[Fits]]:
    ground = found.ground
    names, of = ground.profiles.names, ground.profiles.of
    key = parts.of_device * max(1, len(names)) + of
    total = len(parts.names) * len(names)
    devices = np.bincount(key[ground.offered], minlength=total)
    taken = np.bincount(key[found.held | found.shared], minlength=total)
    single = np.bincount(key[found.single], minlength=total)
    at = parts.of_set[found.fits[:, 1]] * max(1, len(names)) + found.fits[:, 0]
    fits, bound = (np.zeros(total, dtype=np.int64) for _ in range(2))
    np.add.at(fits, at, found.fits[:, 2])
    np.add.at(bound, at, found.fits[:, 3])
    bound += np.bincount(key[found.doubtful], minlength=total)
    made: dict[int, list[Fits]] = {}
    for place in np.flatnonzero(devices).tolist():
        part, profile = divmod(place, len(names))
        made.setdefault(part, []).append(
            Fits(
                profile=names[profile][1],
                devices=int(devices[place]),
                held=int(taken[place]),
                fits=int(fits[place] + single[place]),
                at_most=int(bound[place] + single[place]),
                size=ground.sizes[profile][0],
                fragmentation=found.fragmentation.get(profile) if fragmentation else None,
            )
        )
    order = {names[at][1]: ground.sizes[at] for at in range(len(names))}
    for of_part in made.values():
        of_part.sort(key=lambda one: (-one.size, -order[one.profile][1], one.profile))
    return made


def _counters(found: Measured, parts: _Parts) -> dict[int, list[Left]]:
    """By family, over sets that count in whatever units."""
    ground = found.ground
    fleet = ground.fleet
    sums: dict[tuple[int, str], list[float]] = {}
    for at, scale in enumerate(ground.scales):
        sets = np.flatnonzero((ground.scale_of == at) & ground.used.any(axis=1))
        used = ground.used[sets]
        both = (summed(scale, np.where(used, amounts[sets], 0)) for amounts in (fleet.totals, found.left))
        for number, amounts in enumerate(both):
            for family, name in enumerate(families(scale)[0]):
                of_part = np.bincount(
                    parts.of_set[sets], weights=amounts[:, family], minlength=len(parts.names)
                )
                for part in np.flatnonzero(of_part).tolist():
                    sums.setdefault((part, name), [0.0, 0.0, 0.0, 1.0])[number] += of_part[part]
    for sets, rest in found.stranded:
        numbers = np.bincount(parts.of_set[sets], minlength=len(parts.names))
        for part in np.flatnonzero(numbers).tolist():
            for name, (nanos, exact) in rest.items():
                if (part, name) in sums:
                    sums[part, name][2] += nanos * int(numbers[part])
                    sums[part, name][3] *= exact
    made: dict[int, list[Left]] = {}
    for (part, name), left in _ordered(sums):
        made.setdefault(part, []).append(
            Left(name, round(left[0]), round(left[1]), round(left[2]), exact=bool(left[3]))
        )
    return made


def _ordered(sums: dict[tuple[int, str], list[float]]) -> Iterator[tuple[tuple[int, str], list[float]]]:
    return iter(sorted(sums.items()))
