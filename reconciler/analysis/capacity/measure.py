"""What fits and what is stranded, set by set, from columns. Source: docs/capacity.md."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kernels.packing import WorthBounds, unique_rows
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.analysis.capacity.excluding import may_clash
from reconciler.analysis.capacity.families import families, summed, worths
from reconciler.analysis.capacity.layout import Ground
from reconciler.analysis.capacity.states import Question, Solver
from reconciler.state.devices.occupancy.occupancy import Occupancy

Rest = dict[str, tuple[float, bool]]
"""Family -> billionths that are stranded, and whether none more are"""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Of the ground's fleet, as it is held now."""

    ground: Ground
    held: Mask
    """(D,) of those that are offered, as the next three"""
    shared: Mask
    allocatable: Mask
    """(D,) free, fits beside all that is held, and not tainted"""
    tainted: Mask
    """(D,) free, and tainted"""
    single: Rows
    """(n,) devices of which each fits whatever else is taken: whole ones, and those shared already"""
    doubtful: Rows
    """(n,) devices of which each would fit, were it not that others of their profile may exclude them"""
    fits: np.ndarray
    """(m, 4) profile, set, devices that fit there at once, and the bound beyond which none do"""
    left: Amounts
    """(S, C) what is left; not negative"""
    stranded: tuple[tuple[Rows, Rest], ...]
    """Counter sets in the same state, and what of each is stranded"""
    fragmentation: dict[int, float]
    """Profile -> part of the free capacity that it cannot use; none where nothing is free"""


def measure(ground: Ground, occupancy: Occupancy, solver: Solver) -> Measured:
    """Costs a few passes over the devices, and a search for every state of a counter set that is new."""
    solver.begin()
    fleet, offered = ground.fleet, ground.offered
    free = occupancy.free & offered & ~ground.tainted
    drawing = (fleet.sets >= 0).any(axis=1)
    narrow = free & drawing & ~occupancy.sharing
    rows = np.flatnonzero(narrow)
    left = np.maximum(occupancy.left, 0)
    single = np.flatnonzero(free & ~narrow)
    clashing = np.zeros(0, dtype=np.intp)
    if fleet.exclusion is not None:
        both = np.flatnonzero(free)
        clashing = both[may_clash(fleet.exclusion, occupancy, both, ground.profiles.of)]
    found = _cautious(_fits(ground, rows, left, solver), ground, clashing)
    doubtful = _but_one(clashing[~narrow[clashing]], ground)
    return Measured(
        ground=ground,
        held=occupancy.held & offered,
        shared=occupancy.sharing & ~occupancy.held & offered,
        allocatable=free & ~occupancy.sharing,
        tainted=occupancy.free & offered & ground.tainted & ~occupancy.sharing,
        single=np.setdiff1d(single, doubtful),
        doubtful=doubtful,
        fits=found,
        left=left,
        stranded=tuple(_stranded(ground, rows, left, solver)),
        fragmentation=_fragmentation(ground, found, left),
    )


def _fits(ground: Ground, rows: Rows, left: Amounts, solver: Solver) -> np.ndarray:
    found: list[np.ndarray] = [np.zeros((0, 4), dtype=np.int64)]

    def note(profile: Codes, first_sets: Codes, packed: WorthBounds) -> None:
        same = np.full(len(profile), packed.best), np.full(len(profile), packed.bound)
        found.append(np.stack([profile, first_sets, *same], axis=1).astype(np.int64))

    _each_state(ground, rows, ground.profiles.of, left, lambda g, s, q: note(g, s[:, 0], solver.solve(q)))
    return np.concatenate(found)


def _cautious(found: np.ndarray, ground: Ground, clashing: Rows) -> np.ndarray:
    """With one device, where it may exclude the others of its profile."""
    sets = ground.fleet.sets[clashing]
    profiles, k = ground.profiles.of[clashing], sets.shape[1]
    pairs = np.stack([np.repeat(profiles, k), np.append(ground.together, -1)[sets.ravel()]], axis=1)
    doubted = set(map(tuple, pairs[pairs[:, 1] >= 0].tolist()))
    if doubted:
        at = zip(found[:, 0].tolist(), ground.together[found[:, 1]].tolist(), strict=True)
        mask = np.array([pair in doubted for pair in at], dtype=np.bool_)
        found[mask, 2] = np.minimum(found[mask, 2], 1)
    return found


def _but_one(rows: Rows, ground: Ground) -> Rows:
    """All but the first of each profile in each pool, which can be had by itself."""
    marks = np.stack([ground.profiles.of[rows], ground.fleet.pool_of[rows]], axis=1)
    first, _ = unique_rows(marks)
    return np.delete(rows, first)


def _each_state(
    ground: Ground,
    rows: Rows,
    group: Codes,
    left: Amounts,
    ask: Callable[[Codes, Codes, Question], None],
) -> None:
    """Ask one question for all counter sets in which devices of a group meet the same.

    rows (n,)   devices
    group (D,)  only devices of one group are asked about together
    left (S, C)
    ask         given (m,) groups, (m, sets) sets in the order of the question's counters, and the question
    """
    fleet = ground.fleet
    if not len(rows):
        return
    at = (fleet.sets[rows] >= 0).argmax(axis=1)
    sets, draws = fleet.sets[rows, at], fleet.draws[rows, at]
    joined = ground.joined[sets]
    alone = np.flatnonzero(~joined)
    order = alone[np.lexsort((draws[alone], sets[alone], group[rows[alone]]))]
    groups, sets_, draws_ = group[rows[order]], sets[order], draws[order]
    starts = np.flatnonzero(np.append(True, (groups[1:] != groups[:-1]) | (sets_[1:] != sets_[:-1])))
    starts = starts if len(order) else starts[:0]
    sizes = np.diff(np.append(starts, len(order)))
    for size in np.unique(sizes).tolist():  # those with as many devices stand in one matrix
        begin = starts[sizes == size]
        drawn = draws_[begin[:, None] + np.arange(size)]
        own = sets_[begin]
        state = np.concatenate([drawn, ground.scale_of[own][:, None], left[own]], axis=1)
        first, codes = unique_rows(state.astype(np.int64))
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        for one, same in zip(first.tolist(), members, strict=True):
            question = Question(fleet.table[drawn[one]], left[own[one]])
            ask(groups[begin[same]], own[same][:, None], question)
    for one_group, one_root in _pairs(group[rows[joined]], ground.together[sets[joined]]):
        mine = rows[joined][(group[rows[joined]] == one_group) & (ground.together[sets[joined]] == one_root)]
        members_ = np.flatnonzero(ground.together == one_root).astype(np.int32)
        wide = _spread(ground, mine, members_)
        ask(np.array([one_group], dtype=np.int32), members_[None, :], Question(wide, left[members_].ravel()))


def _pairs(groups: Codes, roots: Codes) -> list[tuple[int, int]]:
    return sorted(set(zip(groups.tolist(), roots.tolist(), strict=True)))


def _spread(ground: Ground, rows: Rows, sets: Codes) -> Amounts:
    """(n, sets x C) what devices draw from some sets, side by side."""
    fleet = ground.fleet
    width = fleet.totals.shape[1]
    wide = np.zeros((len(rows), len(sets), width), dtype=np.int64)
    for k in range(fleet.sets.shape[1]):
        uses = np.flatnonzero(fleet.sets[rows, k] >= 0)
        place = np.searchsorted(sets, fleet.sets[rows[uses], k])
        wide[uses, place] += fleet.table[fleet.draws[rows[uses], k]]
    return wide.reshape(len(rows), -1)


def _stranded(ground: Ground, rows: Rows, left: Amounts, solver: Solver) -> Iterator[tuple[Rows, Rest]]:
    """What is left beyond the most that any choice of devices takes of a family."""
    fleet = ground.fleet
    width = fleet.totals.shape[1]
    left = np.where(ground.used, left, 0)
    found: list[tuple[Rows, Rest]] = []
    untouched: Mask = np.any(ground.used, axis=1)
    vague = np.zeros(len(left), dtype=np.bool_)  # sets in which more may be stranded, since devices exclude
    if fleet.exclusion is not None:
        sets_ = fleet.sets[rows[fleet.exclusion.bound[rows]]]
        vague[sets_[sets_ >= 0]] = True

    def rest(_: Codes, sets: Codes, asked: Question) -> None:
        untouched[sets] = False
        for at in range(sets.shape[1]):
            part = slice(at * width, (at + 1) * width)
            scale = ground.scales[ground.scale_of[sets[0, at]]]
            there = summed(scale, asked.left[None, part])[0]
            of_family: Rest = {}
            for family, name in enumerate(families(scale)[0]):
                taken = worths(scale, asked.draws[:, part])[family]
                packed = solver.solve(Question(asked.draws, asked.left, taken))
                of_family[name] = max(0.0, there[family] - packed.bound), packed.best == packed.bound
            numbers = sets[:, at].astype(np.intp)
            found.append((numbers[~vague[numbers]], of_family))
            unsure = {name: (nanos, False) for name, (nanos, _) in of_family.items()}
            found.append((numbers[vague[numbers]], unsure))

    _each_state(ground, rows, np.zeros(fleet.size, dtype=np.int32), left, rest)
    yield from found
    for scale_at, scale in enumerate(ground.scales):  # nothing fits there at all
        sets = np.flatnonzero(untouched & (ground.scale_of == scale_at))
        amounts = summed(scale, left[sets])
        for at, name in enumerate(families(scale)[0]):
            for number in np.flatnonzero(amounts[:, at]).tolist():
                yield sets[number : number + 1], {name: (float(amounts[number, at]), True)}


def _fragmentation(ground: Ground, fits: np.ndarray, left: Amounts) -> dict[int, float]:
    """One minus the devices that fit, by those that the same amounts would do for if they lay together."""
    pooled: dict[int, float] = {}
    for kind in ground.kinds:
        scale = ground.scales[kind.scale]
        names = families(scale)[0]
        there = dict(zip(names, summed(scale, left[kind.sets]).sum(axis=0).tolist(), strict=True))
        copies = min(there[family] / nanos for family, nanos in kind.demand.items())
        pooled[kind.profile] = pooled.get(kind.profile, 0.0) + copies
    devices = np.bincount(fits[:, 0], weights=fits[:, 2], minlength=len(ground.profiles.names))
    return {
        profile: min(1.0, max(0.0, 1.0 - float(devices[profile]) / copies))
        for profile, copies in pooled.items()
        if copies > 0 and profile not in ground.uneven
    }
