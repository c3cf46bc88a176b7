"""What can be prepared for a fleet, whatever is held in it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernels.packing import unique_rows
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.analysis.capacity.families import drawn, summed
from reconciler.analysis.capacity.profiles import Profiles, profiles
from reconciler.api.objects.semantics import TAINTS, Semantics
from reconciler.state.devices.pools.counters import Scale
from reconciler.state.devices.pools.fleet import Fleet

KEEPS_OUT = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints for which a claim needs a toleration"""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Sets of one profile in which each device of it draws the same."""

    profile: int
    scale: int
    sets: Rows
    demand: dict[str, int]
    """Family -> billionths that one device draws"""


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Of a fleet of D devices and S counter sets. All arrays are read-only."""

    fleet: Fleet
    offered: Mask
    """(D,) of complete pools, in the generation that counts"""
    tainted: Mask
    """(D,) out of bounds for claims without a toleration"""
    profiles: Profiles
    sizes: tuple[tuple[float, float], ...]
    """For each profile, of its largest device: the part of a set that it draws, see `_size`"""
    drivers: tuple[str, ...]
    driver_of_pool: Codes
    node_of: Codes
    """(D,) of the vocabulary; -1 for devices that more than one node may reach"""
    scales: tuple[Scale, ...]
    scale_of: Codes
    """(S,) position in `scales`"""
    used: Mask
    """(S, C) counters that an offered device draws from"""
    pool_of_set: Codes
    node_of_set: Codes
    """(S,) the node of all devices that draw from the set; -1 if there is no such one"""
    together: Codes
    """(S,) the first of the sets that are drawn from together with it, directly or by way of others"""
    kinds: tuple[Kind, ...]
    """Of profiles whose devices draw from one set each, and of each set the same"""
    uneven: frozenset[int]
    """Profiles of which that is not so"""

    @property
    def joined(self) -> Mask:
        """(S,) sets that are drawn from together with others."""
        counts = np.bincount(self.together, minlength=len(self.together))
        found: Mask = counts[self.together] > 1
        return found


def lay_ground(fleet: Fleet, rules: Semantics) -> Ground:
    """Costs a few passes over the devices, and a walk over pools, sets and distinct draws."""
    nothing = np.zeros(0, dtype=np.bool_)
    offered = np.concatenate([nothing, *(pool.offered(rules) for pool in fleet.pools)])
    scales = tuple(dict.fromkeys(columns.scale for columns in fleet.set_columns))
    position = {scale: at for at, scale in enumerate(scales)}
    scale_of = np.array([position[columns.scale] for columns in fleet.set_columns], dtype=np.int32)
    found = profiles(fleet, scale_of, offered)
    drivers = tuple(sorted({pool.id.driver for pool in fleet.pools}))
    place = {driver: at for at, driver in enumerate(drivers)}
    pool_of_set = np.repeat(np.arange(len(fleet.pools)), np.diff(fleet.first_set)).astype(np.int32)
    kinds, uneven = _kinds(fleet, offered, found, scales, scale_of)
    return Ground(
        fleet=fleet,
        offered=offered,
        tainted=_tainted(fleet, rules),
        profiles=found,
        sizes=_sizes(fleet, found, scales, scale_of),
        drivers=drivers,
        driver_of_pool=np.array([place[pool.id.driver] for pool in fleet.pools], dtype=np.int32),
        node_of=fleet.codes["node"],
        scales=scales,
        scale_of=scale_of,
        used=_used(fleet, offered),
        pool_of_set=pool_of_set,
        node_of_set=_node_of_set(fleet),
        together=_together(fleet),
        kinds=kinds,
        uneven=uneven,
    )


def _tainted(fleet: Fleet, rules: Semantics) -> Mask:
    codes = fleet.codes["taints"]
    if not rules.has(TAINTS):
        return np.zeros(len(codes), dtype=np.bool_)
    values = fleet.words.taints.values
    out = np.zeros(len(values) + 1, dtype=np.bool_)
    for code in np.unique(codes[codes >= 0]).tolist():
        out[code] = any(taint.effect in KEEPS_OUT for taint in values[code])
    return out[codes]  # the last place is that of code -1


def _sizes(
    fleet: Fleet, found: Profiles, scales: tuple[Scale, ...], scale_of: Codes
) -> tuple[tuple[float, float], ...]:
    """Of each profile's largest device. One that draws from several sets is as large as in the first."""
    sizes = [(1.0, 0.0)] * len(found.names)  # what draws nothing is a whole device
    rows = np.flatnonzero((fleet.sets >= 0).any(axis=1))
    if not len(rows):
        return tuple(sizes)
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    makes, make_of = unique_rows(np.concatenate([scale_of[:, None].astype(np.int64), fleet.totals], axis=1))
    marks = np.stack([found.of[rows], make_of[fleet.sets[rows, at]], fleet.draws[rows, at]], axis=1)
    first, _ = unique_rows(marks)
    largest: dict[int, tuple[float, float]] = {}
    for profile, make, draw in marks[first].tolist():
        number = int(makes[make])
        size = _size(scales[scale_of[number]], fleet.totals[number], fleet.table[draw])
        largest[profile] = max(size, largest.get(profile, size))
    for profile, size in largest.items():
        sizes[profile] = size
    return tuple(sizes)


def _size(scale: Scale, totals: Amounts, draw: Amounts) -> tuple[float, float]:
    """The part of a set that a draw takes: the median of its families, since it may need all of something
    rare; then the sum of all parts.
    """
    total, wanted = (summed(scale, amounts[None, :])[0] for amounts in (totals, draw))
    parts = wanted[total > 0] / total[total > 0]
    if not parts.any():
        return 1.0, 0.0
    return float(np.median(parts)) or float(parts.mean()), float(parts.sum())


def _used(fleet: Fleet, offered: Mask) -> Mask:
    used = np.zeros(fleet.totals.shape, dtype=np.bool_)
    for k in range(fleet.sets.shape[1]):
        rows = np.flatnonzero((fleet.sets[:, k] >= 0) & offered)
        pairs = np.stack([fleet.sets[rows, k], fleet.draws[rows, k]], axis=1)
        first, _ = unique_rows(pairs)
        sets, draws = pairs[first].T
        np.logical_or.at(used, sets, fleet.table[draws] > 0)
    return used


def _node_of_set(fleet: Fleet) -> Codes:
    nodes = np.full(len(fleet.totals), -1, dtype=np.int32)
    lowest = np.full(len(fleet.totals), np.iinfo(np.int32).max, dtype=np.int32)
    for k in range(fleet.sets.shape[1]):
        rows = np.flatnonzero(fleet.sets[:, k] >= 0)
        np.maximum.at(nodes, fleet.sets[rows, k], fleet.codes["node"][rows])
        np.minimum.at(lowest, fleet.sets[rows, k], fleet.codes["node"][rows])
    return np.where(nodes == lowest, nodes, -1).astype(np.int32)


def _together(fleet: Fleet) -> Codes:
    """Sets from which one device draws belong together, and so do those that belong to the same."""
    parent = list(range(len(fleet.totals)))

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    if fleet.sets.shape[1] > 1:
        several = fleet.sets[(fleet.sets >= 0).sum(axis=1) > 1]
        first, _ = unique_rows(several)
        for sets in several[first].tolist():
            roots = sorted({root(one) for one in sets if one >= 0})
            for other in roots[1:]:
                parent[other] = roots[0]
    return np.array([root(one) for one in range(len(parent))], dtype=np.int32)


def _kinds(
    fleet: Fleet, offered: Mask, found: Profiles, scales: tuple[Scale, ...], scale_of: Codes
) -> tuple[tuple[Kind, ...], frozenset[int]]:
    """Where devices of one profile draw the same, and the profiles that have sets in which they do not."""
    counts = (fleet.sets >= 0).sum(axis=1)
    uneven = set(np.unique(found.of[offered & (counts > 1)]).tolist())
    rows = np.flatnonzero(offered & (counts == 1))
    if not len(rows):
        return (), frozenset(uneven)
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    sets, draws = fleet.sets[rows, at], fleet.draws[rows, at]
    makes = np.stack([scale_of[sets], draws], axis=1)
    first, codes = unique_rows(makes)
    demands = [drawn(scales[scale], fleet.table[draw]) for scale, draw in makes[first].tolist()]
    distinct = {_key(scale, one): one for (scale, _), one in zip(makes[first].tolist(), demands, strict=True)}
    number = {key: at for at, key in enumerate(distinct)}
    demand_of = np.array(
        [number[_key(scale, one)] for (scale, _), one in zip(makes[first].tolist(), demands, strict=True)]
    )[codes]
    triples = np.stack([found.of[rows], sets, demand_of], axis=1).astype(np.int64)
    first, _ = unique_rows(triples)
    triples = triples[first]
    triples = triples[np.lexsort(triples.T[::-1])]
    twice = (triples[1:, :2] == triples[:-1, :2]).all(axis=1)
    uneven |= set(triples[1:, 0][twice].tolist())
    return tuple(_gathered(triples, list(distinct.values()), scale_of, uneven)), frozenset(uneven)


def _key(scale: int, demand: dict[str, int]) -> tuple[int, tuple[tuple[str, int], ...]]:
    return scale, tuple(demand.items())


def _gathered(
    triples: np.ndarray, demands: list[dict[str, int]], scale_of: Codes, uneven: set[int]
) -> Iterator[Kind]:
    """Triples (n, 3)  profile, set, demand"""
    order = np.lexsort((triples[:, 1], triples[:, 2], triples[:, 0]))
    triples = triples[order]
    ends = np.flatnonzero(np.append((triples[1:, ::2] != triples[:-1, ::2]).any(axis=1), True)) + 1
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        profile, one, demand = triples[start].tolist()
        if profile not in uneven and demands[demand]:
            yield Kind(profile, int(scale_of[one]), triples[start:end, 1].astype(np.intp), demands[demand])
