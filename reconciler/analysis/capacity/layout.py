"""The layout of a fleet for capacity analysis, without its allocations: profiles, families, counter sets.

Profiles say which devices count as equal. The string attribute `profile` names that of a device. Devices
without it have the same profile if they draw the same amounts of the same counter families; those without
draws are whole devices. A family is all counters whose names differ only by a final number, such as
memory-slice-0 and -1.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256

import numpy as np
from msgspec import Struct

from kernels.bounds import unique_rows
from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects.quantity import NANO, Format, Quantity
from reconciler.api.objects.semantics import TAINTS, Semantics
from reconciler.state.devices.counters import Scale
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.readiness import offered as offered_devices
from reconciler.state.devices.snapshot import Topology

_NUMBERED = re.compile(r"(.*?)[-_.]?[0-9]+", re.ASCII | re.DOTALL)
_BINARY = 1024 * NANO


@lru_cache(maxsize=4096)
def families(scale: Scale) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The sorted names of the families of a set, and the index of the family of each counter.

    A counter that shares its family with no other counter keeps its full name.
    """
    stems = [_stem(name) for name in scale.counters]
    shared = Counter(stems)
    names = [
        f"{stem}-*" if shared[stem] > 1 else name for stem, name in zip(stems, scale.counters, strict=True)
    ]
    distinct = tuple(sorted(set(names)))
    return distinct, tuple(distinct.index(name) for name in names)


def _stem(name: str) -> str:
    found = _NUMBERED.fullmatch(name)
    return found[1] if found and found[1] else name


def family_amounts(scale: Scale, draws: Amounts) -> list[list[int]]:
    """The amount that each draw takes of each family, in billionths.

    draws (T, C)  in the units of the scale
    ->    one list of T amounts per family
    """
    names, of_counter = families(scale)
    found = [[0] * len(draws) for _ in names]
    for at, row in enumerate(draws.tolist()):
        for counter, unit in enumerate(scale.units):
            found[of_counter[counter]][at] += row[counter] * unit
    return found


def family_sums(scale: Scale, amounts: Amounts) -> np.ndarray:
    """The sum of each family, in billionths, as floats: only for display.

    amounts (n, C)
    ->      (n, F)
    """
    names, of_counter = families(scale)
    found = np.zeros((len(amounts), len(names)))
    for counter, unit in enumerate(scale.units):
        found[:, of_counter[counter]] += amounts[:, counter].astype(np.float64) * unit
    return found


def family_draw(scale: Scale, row: Amounts) -> dict[str, int]:
    """The amount that one draw (C,) takes of each family, in billionths; without families of amount 0."""
    names, _ = families(scale)
    amounts = family_amounts(scale, row[None, :])
    return {name: of[0] for name, of in zip(names, amounts, strict=True) if of[0]}


def shown(nanos: int) -> str:
    """A Kubernetes quantity, with a binary suffix if the amount is a multiple of 1024."""
    binary = nanos and nanos % _BINARY == 0
    return str(Quantity(nanos, Format.BINARY if binary else Format.DECIMAL))


ATTRIBUTE = "profile"
WHOLE = "device"
"""The profile of devices without draws and without the attribute"""
OTHER = "_other"
MAX_PROFILES = 32
"""Maximum profiles per driver. The profiles with the most devices are kept; the others become `_other`."""
LONGEST = 63
"""Maximum characters of a name"""
MOST_AMOUNTS = 3
"""Maximum amounts in a name"""
_HASH = 6


class Profiles(Struct, frozen=True, eq=False):
    """The profiles of a fleet."""

    names: tuple[tuple[str, str], ...]
    """(driver, profile), sorted"""
    of: Codes
    """(D,) index in `names`"""


def profiles(fleet: Fleet, scale_of: Codes, offered: Mask) -> Profiles:
    """The profile of each device. Only `offered` (D,) devices count for MAX_PROFILES.

    scale_of (S,)  the scale of each set: its counters and units
    """
    first, codes = unique_rows(_profile_keys(fleet, scale_of))
    named = list(_names(fleet, first.tolist()))
    counts = np.bincount(codes, weights=offered, minlength=len(first))
    devices: dict[tuple[str, str], float] = {}
    for name, count in zip(named, counts.tolist(), strict=True):
        devices[name] = devices.get(name, 0.0) + count
    kept = _most_common(devices)
    short = [name if name in kept else (name[0], OTHER) for name in named]
    names = tuple(sorted(set(short)))
    at = {name: number for number, name in enumerate(names)}
    of = np.array([at[name] for name in short], dtype=np.int32)
    return Profiles(names, of[codes] if len(codes) else np.zeros(0, dtype=np.int32))


def _profile_keys(fleet: Fleet, scale_of: Codes) -> Codes:
    """(D, m) all values that determine the profile of a device."""
    declared = [fleet.cel.attributes[key].codes for key in _profile_attributes(fleet)]
    scales = np.where(fleet.sets >= 0, np.append(scale_of, -1)[fleet.sets], -1)
    columns = [fleet.codes["driver"], *declared, *scales.T, *np.where(scales >= 0, fleet.draws, -1).T]
    return np.stack(columns, axis=1).astype(np.int64)


def _profile_attributes(fleet: Fleet) -> list[tuple[str, str]]:
    return sorted(key for key in fleet.cel.attributes if key[1] == ATTRIBUTE)


def _names(fleet: Fleet, rows: list[int]) -> Iterator[tuple[str, str]]:
    keys = _profile_attributes(fleet)
    for row in rows:
        driver = fleet.vocabulary.drivers.values[fleet.codes["driver"][row]]
        # The driver's own attribute comes before those of other domains.
        for key in sorted(keys, key=lambda key: key[0] != driver):
            column = fleet.cel.attributes[key]
            value = column.values[column.codes[row]] if column.codes[row] >= 0 else None
            if isinstance(value, str) and value:
                yield driver, _cut(value)
                break
        else:
            yield driver, _cut(_text(_total_draw(fleet, row)))


def _total_draw(fleet: Fleet, row: int) -> Mapping[str, int]:
    total: dict[str, int] = {}
    for number, draw in zip(fleet.sets[row].tolist(), fleet.draws[row].tolist(), strict=True):
        if number >= 0:
            for family, nanos in family_draw(fleet.set_columns[number].scale, fleet.table[draw]).items():
                total[family] = total.get(family, 0) + nanos
    return total


def _text(amounts: Mapping[str, int]) -> str:
    """The amounts, memory first. With many amounts: the first one and a hash of all."""
    ordered = sorted(amounts.items(), key=lambda amount: (amount[0] != "memory", amount[0]))
    texts = [f"{family}={shown(nanos)}" for family, nanos in ordered]
    if len(texts) > MOST_AMOUNTS:
        return f"{texts[0]}~{_short_hash(','.join(texts))}"
    return ",".join(texts) or WHOLE


def _short_hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_HASH]


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - _HASH - 1]}~{_short_hash(text)}"


def _most_common(devices: Mapping[tuple[str, str], float]) -> set[tuple[str, str]]:
    of_driver: dict[str, list[tuple[float, str]]] = {}
    for (driver, name), count in devices.items():
        of_driver.setdefault(driver, []).append((-count, name))
    return {(driver, name) for driver, found in of_driver.items() for _, name in sorted(found)[:MAX_PROFILES]}


BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""Taint effects that need a toleration"""


class UniformSets(Struct, frozen=True, eq=False):
    """Counter sets in which all devices of one profile draw the same amounts."""

    profile: int
    scale: int
    sets: Rows
    demand: dict[str, int]
    """Family -> amount that one device draws, in billionths"""


class FleetLayout(Struct, frozen=True, eq=False):
    """A fleet of D devices and S counter sets. All arrays are read-only."""

    topology: Topology
    offered: Mask
    """(D,) devices that a node could use if they are free"""
    tainted: Mask
    """(D,) devices that need a toleration"""
    profiles: Profiles
    sizes: tuple[tuple[float, float], ...]
    """The size of the largest device of each profile, see `_size`"""
    drivers: tuple[str, ...]
    driver_of_pool: Codes
    node_of: Codes
    """(D,) code of the node; -1 for devices without a single node"""
    scales: tuple[Scale, ...]
    scale_of: Codes
    """(S,) index in `scales`"""
    used: Mask
    """(S, C) counters from which an offered device draws"""
    pool_of_set: Codes
    linked: Codes
    """(S,) the first set of the group; sets are in a group if a device draws from both, also transitively"""
    uniform: tuple[UniformSets, ...]
    """For profiles whose devices draw from one set each and draw the same amounts in each set"""
    uneven: frozenset[int]
    """All other profiles"""

    @property
    def fleet(self) -> Fleet:
        return self.topology.fleet

    @property
    def is_linked(self) -> Mask:
        """(S,) sets in a group with other sets."""
        counts = np.bincount(self.linked, minlength=len(self.linked))
        found: Mask = counts[self.linked] > 1
        return found


def fleet_layout(topology: Topology) -> FleetLayout:
    """Prepare a fleet. Costs a few passes over the devices and a loop over pools, sets and distinct draws."""
    fleet, offered = topology.fleet, offered_devices(topology)
    scales = tuple(dict.fromkeys(columns.scale for columns in fleet.set_columns))
    position = {scale: at for at, scale in enumerate(scales)}
    scale_of = np.array([position[columns.scale] for columns in fleet.set_columns], dtype=np.int32)
    of_devices = profiles(fleet, scale_of, offered)
    drivers = tuple(sorted({pool.id.driver for pool in fleet.pools}))
    place = {driver: at for at, driver in enumerate(drivers)}
    pool_of_set = np.repeat(np.arange(len(fleet.pools)), np.diff(fleet.first_set)).astype(np.int32)
    uniform, uneven = _uniform_sets(fleet, offered, of_devices, scales, scale_of)
    return FleetLayout(
        topology=topology,
        offered=offered,
        tainted=tainted_devices(fleet, topology.rules),
        profiles=of_devices,
        sizes=_sizes(fleet, of_devices, scales, scale_of),
        drivers=drivers,
        driver_of_pool=np.array([place[pool.id.driver] for pool in fleet.pools], dtype=np.int32),
        node_of=fleet.codes["node"],
        scales=scales,
        scale_of=scale_of,
        used=_used(fleet, offered),
        pool_of_set=pool_of_set,
        linked=_linked(fleet),
        uniform=uniform,
        uneven=uneven,
    )


def first_sets(fleet: Fleet) -> Codes:
    """(D,) the first counter set of each device; -1 for none."""
    if not fleet.sets.shape[1]:
        return np.full(fleet.size, -1, dtype=np.int32)
    at = (fleet.sets >= 0).argmax(axis=1)
    return fleet.sets[np.arange(fleet.size), at]


def side_by_side(fleet: Fleet, rows: Rows, sets: Rows | Codes) -> Amounts:
    """(n, sets x C) the draws of devices from some sets, side by side."""
    wide = np.zeros((len(rows), len(sets), fleet.totals.shape[1]), dtype=np.int64)
    for k in range(fleet.sets.shape[1]):
        uses = np.flatnonzero(fleet.sets[rows, k] >= 0)
        place = np.searchsorted(sets, fleet.sets[rows[uses], k])
        wide[uses, place] += fleet.table[fleet.draws[rows[uses], k]]
    return wide.reshape(len(rows), -1)


def tainted_devices(fleet: Fleet, rules: Semantics, rows: Rows | None = None) -> Mask:
    """(D,) devices that need a toleration; (n,) of these rows only."""
    codes = fleet.codes["taints"] if rows is None else fleet.codes["taints"][rows]
    if not rules.has(TAINTS):
        return np.zeros(len(codes), dtype=np.bool_)
    values = fleet.vocabulary.taints.values
    out = np.zeros(len(values) + 1, dtype=np.bool_)
    for code in distinct(codes[codes >= 0]).tolist():
        out[code] = any(taint.effect in BLOCKING_EFFECTS for taint in values[code])
    return out[codes]  # the last entry is for code -1


def _sizes(
    fleet: Fleet, found: Profiles, scales: tuple[Scale, ...], scale_of: Codes
) -> tuple[tuple[float, float], ...]:
    """The size of each profile's largest device. If it draws from several sets, only the first one counts."""
    sizes = [(1.0, 0.0)] * len(found.names)  # a device without draws is a whole device
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
    """The part of a set that a draw takes: the median over the families, and the sum over the families.

    The median, because a small partition may need the only unit of a rare family.
    """
    total, wanted = (family_sums(scale, amounts[None, :])[0] for amounts in (totals, draw))
    parts = wanted[total > 0] / total[total > 0]
    if not parts.any():
        return 1.0, 0.0
    ordered = np.sort(parts)
    median = (ordered[(len(parts) - 1) // 2] + ordered[len(parts) // 2]) / 2  # `np.median` imports `numpy.ma`
    return float(median) or float(parts.mean()), float(parts.sum())


def _used(fleet: Fleet, offered: Mask) -> Mask:
    used = np.zeros(fleet.totals.shape, dtype=np.bool_)
    for k in range(fleet.sets.shape[1]):
        rows = np.flatnonzero((fleet.sets[:, k] >= 0) & offered)
        pairs = np.stack([fleet.sets[rows, k], fleet.draws[rows, k]], axis=1)
        first, _ = unique_rows(pairs)
        sets, draws = pairs[first].T
        np.logical_or.at(used, sets, fleet.table[draws] > 0)
    return used


def _linked(fleet: Fleet) -> Codes:
    """Sets from which one device draws are in one group, also transitively."""
    parent = list(range(len(fleet.totals)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    if fleet.sets.shape[1] > 1:
        several = fleet.sets[(fleet.sets >= 0).sum(axis=1) > 1]
        first, _ = unique_rows(several)
        for sets in several[first].tolist():
            roots = sorted({root(number) for number in sets if number >= 0})
            for other in roots[1:]:
                parent[other] = roots[0]
    return np.array([root(number) for number in range(len(parent))], dtype=np.int32)


def _uniform_sets(
    fleet: Fleet, offered: Mask, found: Profiles, scales: tuple[Scale, ...], scale_of: Codes
) -> tuple[tuple[UniformSets, ...], frozenset[int]]:
    """The sets in which devices of one profile draw the same, and the profiles with other sets."""
    counts = (fleet.sets >= 0).sum(axis=1)
    uneven = set(distinct(found.of[offered & (counts > 1)]).tolist())
    rows = np.flatnonzero(offered & (counts == 1))
    if not len(rows):
        return (), frozenset(uneven)
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    sets, draws = fleet.sets[rows, at], fleet.draws[rows, at]
    makes = np.stack([scale_of[sets], draws], axis=1)
    first, codes = unique_rows(makes)
    demands = [family_draw(scales[scale], fleet.table[draw]) for scale, draw in makes[first].tolist()]
    by_key = {_key(scale, one): one for (scale, _), one in zip(makes[first].tolist(), demands, strict=True)}
    number = {key: at for at, key in enumerate(by_key)}
    demand_of = np.array(
        [number[_key(scale, one)] for (scale, _), one in zip(makes[first].tolist(), demands, strict=True)]
    )[codes]
    triples = np.stack([found.of[rows], sets, demand_of], axis=1).astype(np.int64)
    first, _ = unique_rows(triples)
    triples = triples[first]
    triples = triples[np.lexsort(triples.T[::-1])]
    twice = (triples[1:, :2] == triples[:-1, :2]).all(axis=1)
    uneven |= set(triples[1:, 0][twice].tolist())
    return tuple(_gathered(triples, list(by_key.values()), scale_of, uneven)), frozenset(uneven)


def _key(scale: int, demand: dict[str, int]) -> tuple[int, tuple[tuple[str, int], ...]]:
    return scale, tuple(demand.items())


def _gathered(
    triples: np.ndarray, demands: list[dict[str, int]], scale_of: Codes, uneven: set[int]
) -> Iterator[UniformSets]:
    """Triples (n, 3)  profile, set, demand"""
    order = np.lexsort((triples[:, 1], triples[:, 2], triples[:, 0]))
    triples = triples[order]
    ends = np.flatnonzero(np.append((triples[1:, ::2] != triples[:-1, ::2]).any(axis=1), True)) + 1
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        profile, one, demand = triples[start].tolist()
        if profile not in uneven and demands[demand]:
            yield UniformSets(
                profile, int(scale_of[one]), triples[start:end, 1].astype(np.intp), demands[demand]
            )
