"""Measures what fits and what is stranded, by counter set, from columns. Equal problems are solved once.

Source: docs/capacity.md.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

import numpy as np
from msgspec import Struct

from kernels.bounds import WorthBounds, max_worth, unique_rows
from kernels.groups import distinct
from kernels.types import Amounts, Bits, Codes, Mask, Rows
from reconciler.analysis.capacity.layout import (
    FleetLayout,
    families,
    family_amounts,
    family_sums,
    side_by_side,
)
from reconciler.state.caches import Recent
from reconciler.state.devices.exclusion import Exclusion
from reconciler.state.devices.occupancy import Occupancy

CACHE_SIZE = 1 << 11
"""Maximum cached solutions"""
BUDGET = 2_000
"""Maximum search steps per problem"""
EFFORT = 20_000
"""Maximum search steps per measurement. After that, solutions are bounds"""


class PackingProblem(Struct, frozen=True):
    """The draws of n devices from C counters, what is left in the counters, and the worth of each device."""

    draws: Amounts
    """(n, C)"""
    left: Amounts
    """(C,)"""
    worth: Sequence[int] | None = None
    """None means 1 for each device"""


class Solver:
    """Solves problems and caches the solutions. Not thread-safe."""

    def __init__(self, *, budget: int = BUDGET, effort: int = EFFORT) -> None:
        """`budget` limits one problem, `effort` all problems between two calls of `begin`."""
        self._budget = budget
        self._effort = effort
        self._spent = 0
        self._known: Recent[bytes, WorthBounds] = Recent(CACHE_SIZE)

    def begin(self) -> None:
        """Start a measurement: reset the used effort."""
        self._spent = 0

    def solve(self, problem: PackingProblem) -> WorthBounds:
        """The most that fits together. A later call may continue a search that was not finished."""
        # Counters without draws do not matter.
        counters = np.flatnonzero(problem.draws.any(axis=0))
        draws, left = problem.draws[:, counters], problem.left[counters]
        # Amounts above the sum of all draws do not matter.
        left = np.minimum(left, draws.sum(axis=0))
        worth = [1] * len(draws) if problem.worth is None else list(problem.worth)
        sizes = repr((draws.shape, worth)).encode()
        # A digest, because the problem itself takes kilobytes.
        key = sha256(b"".join([sizes, draws.tobytes(), left.tobytes()])).digest()
        known = self._known.get(key)
        if known is not None and known.best == known.bound:
            return known
        greedy = len(draws) + 1
        budget = max(greedy, min(self._budget, self._effort - self._spent))
        if known is not None and known.steps >= budget:
            return known
        found = max_worth(draws, [1] * len(draws), worth, left, budget)
        self._spent += found.steps
        return self._known.put(key, found)


def may_exclude(exclusion: Exclusion, occupancy: Occupancy, rows: Rows, profile: Codes) -> Mask:
    """Devices that may exclude, or be excluded by, another device of the same profile and scope.

    A device that is not marked can be allocated together with all other available devices of its profile. A
    marked device may still be compatible with some of them.

    rows (n,)     available devices
    profile (D,)
    ->   (n,)
    """
    clash = np.zeros(len(rows), dtype=np.bool_)
    assert occupancy.common is not None
    # One entry per device and scope: devices may have the same scope in different columns.
    member, k = np.nonzero((exclusion.scopes[rows] >= 0) & exclusion.bound[rows, None])
    order = np.lexsort((exclusion.scopes[rows[member], k], profile[rows[member]]))
    if not len(order):
        return clash
    member, k = member[order], k[order]
    device = rows[member]
    own, kinds = exclusion.scopes[device, k], profile[device]
    starts = np.flatnonzero(np.append(True, (own[1:] != own[:-1]) | (kinds[1:] != kinds[:-1])))
    sizes = np.diff(np.append(starts, len(order)))
    names = _all(exclusion.names[device, k], starts) & occupancy.common[own[starts]]
    asked = np.bitwise_or.reduceat(exclusion.asks[device, k], starts, axis=0)
    met = _all(exclusion.meets[device, k], starts)
    bad = ~(names != 0).any(axis=1) | ((asked & ~met) != 0).any(axis=1)
    clash[member[np.repeat(bad & (sizes > 1), sizes)]] = True
    return clash


def _all(bits: Bits, starts: Rows) -> Bits:
    found: Bits = np.bitwise_and.reduceat(bits, starts, axis=0)
    return found


Stranded = dict[str, tuple[float, bool]]
"""Family -> stranded amount in billionths, and whether it is exact"""


class Measurement(Struct, frozen=True, eq=False):
    """The state of a fleet with its current allocations."""

    layout: FleetLayout
    held: Mask
    """(D,) only offered devices, also in the next three"""
    shared: Mask
    allocatable: Mask
    """(D,) free, fits into its counters, not excluded and not tainted"""
    tainted: Mask
    """(D,) free and tainted"""
    single: Rows
    """(n,) devices that fit independently of others: whole devices and devices that are shared already"""
    uncertain: Rows
    """(n,) devices that fit independently, but other devices of their profile may exclude them"""
    fits: np.ndarray
    """(m, 4) profile, set, number of devices that fit together, and its upper bound"""
    left: Amounts
    """(S, C) amounts left; not negative"""
    stranded: tuple[tuple[Rows, Stranded], ...]
    """Counter sets in the same state, and what is stranded in each of them"""
    fragmentation: dict[int, float]
    """Profile -> part of the free capacity that it cannot use; missing if nothing is free"""


def measure(layout: FleetLayout, occupancy: Occupancy, solver: Solver) -> Measurement:
    """Measure. Costs a few passes over the devices, and a search for each new state of a counter set."""
    solver.begin()
    fleet, offered = layout.fleet, layout.offered
    free = occupancy.free & offered & ~layout.tainted
    drawing = (fleet.sets >= 0).any(axis=1)
    narrow = free & drawing & ~occupancy.sharing
    rows = np.flatnonzero(narrow)
    left = np.maximum(occupancy.left, 0)
    clashing = np.zeros(0, dtype=np.intp)
    if fleet.exclusion is not None:
        both = np.flatnonzero(free)
        clashing = both[may_exclude(fleet.exclusion, occupancy, both, layout.profiles.of)]
    found = _limit_clashing(_fits(layout, rows, left, solver), layout, clashing)
    uncertain = _all_but_first(clashing[~narrow[clashing]], layout)
    single = free & ~narrow
    single[uncertain] = False
    return Measurement(
        layout=layout,
        held=occupancy.held & offered,
        shared=occupancy.sharing & ~occupancy.held & offered,
        allocatable=free & ~occupancy.sharing,
        tainted=occupancy.free & offered & layout.tainted & ~occupancy.sharing,
        single=np.flatnonzero(single),
        uncertain=uncertain,
        fits=found,
        left=left,
        stranded=tuple(_stranded(layout, rows, left, solver)),
        fragmentation=_fragmentation(layout, found, left),
    )


def _fits(layout: FleetLayout, rows: Rows, left: Amounts, solver: Solver) -> np.ndarray:
    found: list[np.ndarray] = [np.zeros((0, 4), dtype=np.int64)]

    def note(profile: Codes, first_sets: Codes, packed: WorthBounds) -> None:
        same = np.full(len(profile), packed.best), np.full(len(profile), packed.bound)
        found.append(np.stack([profile, first_sets, *same], axis=1).astype(np.int64))

    _for_each_state(layout, rows, layout.profiles.of, left, lambda g, s, q: note(g, s[:, 0], solver.solve(q)))
    return np.concatenate(found)


def _limit_clashing(found: np.ndarray, layout: FleetLayout, clashing: Rows) -> np.ndarray:
    """Limit `fits` to one device where devices of the profile may exclude each other."""
    sets = layout.fleet.sets[clashing]
    profiles, k = layout.profiles.of[clashing], sets.shape[1]
    pairs = np.stack([np.repeat(profiles, k), np.append(layout.linked, -1)[sets.ravel()]], axis=1)
    clashing_pairs = set(map(tuple, pairs[pairs[:, 1] >= 0].tolist()))
    if clashing_pairs:
        at = zip(found[:, 0].tolist(), layout.linked[found[:, 1]].tolist(), strict=True)
        mask = np.array([pair in clashing_pairs for pair in at], dtype=np.bool_)
        found[mask, 2] = np.minimum(found[mask, 2], 1)
    return found


def _all_but_first(rows: Rows, layout: FleetLayout) -> Rows:
    """All rows but the first of each profile and pool: one of them can be allocated."""
    marks = np.stack([layout.profiles.of[rows], layout.fleet.pool_of[rows]], axis=1)
    first, _ = unique_rows(marks)
    return np.delete(rows, first)


def _for_each_state(
    layout: FleetLayout,
    rows: Rows,
    group: Codes,
    left: Amounts,
    use: Callable[[Codes, Codes, PackingProblem], None],
) -> None:
    """Build one packing problem for all counter sets with the same state, for each group of devices.

    rows (n,)   devices
    group (D,)  each problem has devices of one group only
    left (S, C)
    use         gets (m,) groups, (m, sets) sets in the order of the problem's counters, and the problem
    """
    fleet = layout.fleet
    if not len(rows):
        return
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    sets, draws = fleet.sets[rows, at], fleet.draws[rows, at]
    is_linked = layout.is_linked[sets]
    alone = np.flatnonzero(~is_linked)
    order = alone[np.lexsort((draws[alone], sets[alone], group[rows[alone]]))]
    groups, sets_, draws_ = group[rows[order]], sets[order], draws[order]
    starts = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (sets_[1:] != sets_[:-1])))
    starts = starts if len(order) else starts[:0]
    sizes = np.diff(np.append(starts, len(order)))
    for size in distinct(sizes).tolist():  # equal sizes form one matrix
        begin = starts[sizes == size]
        drawn = draws_[begin[:, None] + np.arange(size)]
        own = sets_[begin]
        state = np.concatenate([drawn, layout.scale_of[own][:, None], left[own]], axis=1)
        first, codes = unique_rows(state.astype(np.int64))
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        for index, same in zip(first.tolist(), members, strict=True):
            problem = PackingProblem(fleet.table[drawn[index]], left[own[index]])
            use(groups[begin[same]], own[same][:, None], problem)
    for one_group, one_root in _pairs(group[rows[is_linked]], layout.linked[sets[is_linked]]):
        mine = rows[is_linked][
            (group[rows[is_linked]] == one_group) & (layout.linked[sets[is_linked]] == one_root)
        ]
        members_ = np.flatnonzero(layout.linked == one_root).astype(np.int32)
        wide = side_by_side(fleet, mine, members_)
        use(
            np.array([one_group], dtype=np.int32),
            members_[None, :],
            PackingProblem(wide, left[members_].ravel()),
        )


def _pairs(groups: Codes, roots: Codes) -> list[tuple[int, int]]:
    return sorted(set(zip(groups.tolist(), roots.tolist(), strict=True)))


def _stranded(
    layout: FleetLayout, rows: Rows, left: Amounts, solver: Solver
) -> Iterator[tuple[Rows, Stranded]]:
    """What remains of each family after the choice of devices that takes the most of it."""
    fleet = layout.fleet
    width = fleet.totals.shape[1]
    left = np.where(layout.used, left, 0)
    found: list[tuple[Rows, Stranded]] = []
    untouched: Mask = np.any(layout.used, axis=1)
    vague = np.zeros(len(left), dtype=np.bool_)  # sets in which exclusion may strand more
    if fleet.exclusion is not None:
        sets_ = fleet.sets[rows[fleet.exclusion.bound[rows]]]
        vague[sets_[sets_ >= 0]] = True

    def rest(_: Codes, sets: Codes, problem: PackingProblem) -> None:
        untouched[sets] = False
        for at in range(sets.shape[1]):
            part = slice(at * width, (at + 1) * width)
            scale = layout.scales[layout.scale_of[sets[0, at]]]
            there = family_sums(scale, problem.left[None, part])[0]
            of_family: Stranded = {}
            for family, name in enumerate(families(scale)[0]):
                taken = family_amounts(scale, problem.draws[:, part])[family]
                packed = solver.solve(PackingProblem(problem.draws, problem.left, taken))
                of_family[name] = max(0.0, there[family] - packed.bound), packed.best == packed.bound
            numbers = sets[:, at].astype(np.intp)
            found.append((numbers[~vague[numbers]], of_family))
            unsure = {name: (nanos, False) for name, (nanos, _) in of_family.items()}
            found.append((numbers[vague[numbers]], unsure))

    _for_each_state(layout, rows, np.zeros(fleet.size, dtype=np.int32), left, rest)
    yield from found
    for scale_at, scale in enumerate(layout.scales):  # no device fits
        sets = np.flatnonzero(untouched & (layout.scale_of == scale_at))
        amounts = family_sums(scale, left[sets])
        for at, name in enumerate(families(scale)[0]):
            for number in np.flatnonzero(amounts[:, at]).tolist():
                yield sets[number : number + 1], {name: (float(amounts[number, at]), True)}


def _fragmentation(layout: FleetLayout, fits: np.ndarray, left: Amounts) -> dict[int, float]:
    """1 - (devices that fit) / (devices that would fit if all free amounts were in one set)."""
    pooled: dict[int, float] = {}
    for uniform in layout.uniform:
        scale = layout.scales[uniform.scale]
        names = families(scale)[0]
        there = dict(zip(names, family_sums(scale, left[uniform.sets]).sum(axis=0).tolist(), strict=True))
        copies = min(there[family] / nanos for family, nanos in uniform.demand.items())
        pooled[uniform.profile] = pooled.get(uniform.profile, 0.0) + copies
    devices = np.bincount(fits[:, 0], weights=fits[:, 2], minlength=len(layout.profiles.names))
    return {
        profile: min(1.0, max(0.0, 1.0 - float(devices[profile]) / copies))
        for profile, copies in pooled.items()
        if copies > 0 and profile not in layout.uneven
    }
