"""Sums a measurement by driver, by pool, by node, by model or by a label of nodes."""

from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kernels.groups import distinct
from kernels.types import Rows
from reconciler.analysis.capacity.layout import FleetLayout, families, family_sums, fleet_layout
from reconciler.analysis.capacity.measure import Measurement, Solver, measure
from reconciler.analysis.capacity.use import groups_of, of_sets, physical_use
from reconciler.state.devices.snapshot import Snapshot

By = str
"""driver, pool, node, model or label=KEY"""


class ProfileUsage(Struct, frozen=True):
    """One profile in one line."""

    profile: str
    devices: int
    """Published devices"""
    held: int
    """Held exclusively or in shares"""
    fits: int
    """How many more devices can be allocated together"""
    at_most: int
    """Upper bound; larger than `fits` only if the search gave up or devices may exclude each other"""
    size: float
    """The part of a counter set that one device draws; 1 for whole devices"""
    fragmentation: float | None
    """By driver only: the part of the free capacity that the profile cannot use. None if undefined"""


class CounterUsage(Struct, frozen=True):
    """One counter or counter family in one line, in billionths."""

    counter: str
    total: int
    left: int
    stranded: int
    """The part of `left` that no available device can use"""
    exact: bool
    """If false, more may be stranded"""


class Line(Struct, frozen=True):
    """One driver, or one of its pools, or its devices on one node, or of one model or label."""

    driver: str
    pool: str
    node: str
    """Empty for devices without a single node"""
    devices: int
    held: int
    shared: int
    allocatable: int
    """Devices that can be allocated, each alone"""
    tainted: int
    """Free, but only for claims with a toleration"""
    blocked: int
    """Free, but their counters are used up or held devices exclude them"""
    profiles: tuple[ProfileUsage, ...]
    """The largest profile first"""
    counters: tuple[CounterUsage, ...]
    physical: int
    """Physical devices: counter sets, and devices without counters"""
    full: int
    """Physical devices of which nothing that is published still fits"""
    use: float
    """The mean share of a physical device that claims hold"""
    group: str = ""
    """The model or the value of the label; empty for devices without"""

    @property
    def largest(self) -> str:
        """The largest profile of which one more device fits; empty if none fits."""
        return next((usage.profile for usage in self.profiles if usage.fits), "")


class _Parts(NamedTuple):
    """The parts of a fleet, one per line, in the order of their names."""

    names: list[tuple[str, str, str, str]]
    """Driver, pool, node, group"""
    of_device: Rows
    of_set: Rows


class Gauge:
    """Measures one snapshot after another, and keeps what stays valid between them."""

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._layout: FleetLayout | None = None

    def lines(self, snapshot: Snapshot, by: By) -> list[Line]:
        """Return the usage of the devices."""
        if self._layout is None or self._layout.topology is not snapshot.topology:
            self._layout = fleet_layout(snapshot.topology)
        return lines(measure(self._layout, snapshot.occupancy, self._solver), by)


def lines(measurement: Measurement, by: By) -> list[Line]:
    """One line per part, sorted by name."""
    parts = _divide(measurement, by)
    offered = measurement.layout.offered
    masks = (offered, measurement.held, measurement.shared, measurement.allocatable, measurement.tainted)
    counts = [np.bincount(parts.of_device[mask], minlength=len(parts.names)).tolist() for mask in masks]
    profiles = _profiles(measurement, parts, fragmentation=by == "driver")
    counters = _counters(measurement, parts)
    physical, full, use = _use(measurement, parts)
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
            physical=int(physical[at]),
            full=int(full[at]),
            use=float(use[at] / max(physical[at], 1)),
            group=name[3],
        )
        for at, (name, devices, held, shared, allocatable, tainted) in enumerate(
            zip(parts.names, *counts, strict=True)
        )
        if devices
    ]


def _use(measurement: Measurement, parts: _Parts) -> tuple[NDArray[np.float64], ...]:
    """By part: physical devices, how many of them are full, and the sum of their use."""
    layout, count = measurement.layout, len(parts.names)
    fitting = measurement.allocatable | measurement.tainted | measurement.shared
    taken = measurement.held | measurement.shared
    found = physical_use(layout.fleet, layout.offered, taken, fitting, measurement.left)
    of_part = found.of(parts.of_set, parts.of_device)
    weights = (None, found.full, found.use)
    return tuple([np.bincount(of_part, weights=one, minlength=count).astype(np.float64) for one in weights])


def _divide(measurement: Measurement, by: By) -> _Parts:
    layout = measurement.layout
    fleet = layout.fleet
    if by == "driver":
        names = [(driver, "", "", "") for driver in layout.drivers]
        of_pool = layout.driver_of_pool.astype(np.intp)
        return _Parts(names, of_pool[fleet.pool_of], of_pool[layout.pool_of_set])
    if by == "pool":
        pools = [(pool.id.driver, pool.id.pool) for pool in fleet.pools]
        order = sorted(range(len(pools)), key=pools.__getitem__)
        place = np.empty(len(pools), dtype=np.intp)
        place[order] = np.arange(len(pools))
        nodes = [pool.nodes[0] if pool.nodes and len(pool.nodes) == 1 else "" for pool in fleet.pools]
        names = [(*pools[at], nodes[at], "") for at in order]
        return _Parts(names, place[fleet.pool_of], place[layout.pool_of_set])
    groups = groups_of(by, layout.topology)
    width = max(len(groups.names), 1)
    of_set = layout.driver_of_pool[layout.pool_of_set].astype(np.intp) * width + of_sets(groups.of, fleet)
    of_device = layout.driver_of_pool[fleet.pool_of].astype(np.intp) * width + groups.of
    codes = distinct(np.concatenate([of_device, of_set]))
    names = []
    for code in codes.tolist():
        driver, group = layout.drivers[code // width], groups.names[code % width]
        names.append((driver, "", group, "") if by == "node" else (driver, "", "", group))
    order = sorted(range(len(names)), key=lambda at: (names[at][3], names[at]))
    place = np.empty(len(names), dtype=np.intp)
    place[order] = np.arange(len(names))
    return _Parts(
        [names[at] for at in order],
        place[np.searchsorted(codes, of_device)],
        place[np.searchsorted(codes, of_set)],
    )


def _profiles(
    measurement: Measurement, parts: _Parts, *, fragmentation: bool
) -> dict[int, list[ProfileUsage]]:
    layout = measurement.layout
    names, of = layout.profiles.names, layout.profiles.of
    key = parts.of_device * max(1, len(names)) + of
    total = len(parts.names) * len(names)
    devices = np.bincount(key[layout.offered], minlength=total)
    taken = np.bincount(key[measurement.held | measurement.shared], minlength=total)
    single = np.bincount(key[measurement.single], minlength=total)
    at = parts.of_set[measurement.fits[:, 1]] * max(1, len(names)) + measurement.fits[:, 0]
    fits, bound = (np.zeros(total, dtype=np.int64) for _ in range(2))
    np.add.at(fits, at, measurement.fits[:, 2])
    np.add.at(bound, at, measurement.fits[:, 3])
    bound += np.bincount(key[measurement.uncertain], minlength=total)
    made: dict[int, list[ProfileUsage]] = {}
    for place in np.flatnonzero(devices).tolist():
        part, profile = divmod(place, len(names))
        made.setdefault(part, []).append(
            ProfileUsage(
                profile=names[profile][1],
                devices=int(devices[place]),
                held=int(taken[place]),
                fits=int(fits[place] + single[place]),
                at_most=int(bound[place] + single[place]),
                size=layout.sizes[profile][0],
                fragmentation=measurement.fragmentation.get(profile) if fragmentation else None,
            )
        )
    order = {names[at][1]: layout.sizes[at] for at in range(len(names))}
    for of_part in made.values():
        of_part.sort(key=lambda usage: (-usage.size, -order[usage.profile][1], usage.profile))
    return made


def _counters(measurement: Measurement, parts: _Parts) -> dict[int, list[CounterUsage]]:
    """Sums by family, over sets with any units."""
    layout = measurement.layout
    fleet = layout.fleet
    sums: dict[tuple[int, str], list[float]] = {}
    for at, scale in enumerate(layout.scales):
        sets = np.flatnonzero((layout.scale_of == at) & layout.used.any(axis=1))
        used = layout.used[sets]
        both = (
            family_sums(scale, np.where(used, amounts[sets], 0))
            for amounts in (fleet.totals, measurement.left)
        )
        for number, amounts in enumerate(both):
            for family, name in enumerate(families(scale)[0]):
                of_part = np.bincount(
                    parts.of_set[sets], weights=amounts[:, family], minlength=len(parts.names)
                )
                for part in np.flatnonzero(of_part).tolist():
                    sums.setdefault((part, name), [0.0, 0.0, 0.0, 1.0])[number] += of_part[part]
    for sets, rest in measurement.stranded:
        numbers = np.bincount(parts.of_set[sets], minlength=len(parts.names))
        for part in np.flatnonzero(numbers).tolist():
            for name, (nanos, exact) in rest.items():
                if (part, name) in sums:
                    sums[part, name][2] += nanos * int(numbers[part])
                    sums[part, name][3] *= exact
    made: dict[int, list[CounterUsage]] = {}
    for (part, name), left in sorted(sums.items()):
        made.setdefault(part, []).append(
            CounterUsage(name, round(left[0]), round(left[1]), round(left[2]), exact=bool(left[3]))
        )
    return made
