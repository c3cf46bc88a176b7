"""Proofs that a branch of the search has no solution. Tested against exhaustive search.

Each proof is a relaxation: it ignores some rules, so what it finds impossible is impossible. No proof
considers requests after the first one on which the search could meet an error: such an error is an
answer, and a bound must not replace it by "does not fit".
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kernels.bounds import least_draw, max_matching
from kernels.packing import fitting_mixes, suffices
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.constraints import Constraint
from reconciler.allocation.dra.request_options import MAX_RESULTS, Slot
from reconciler.allocation.dra.state import NodeProblem, State, in_use, viable
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot import Topology

MAX_STATES = 4096
"""States that are looked at for the mixes of one set. With more, its devices count as if all fit together."""
MAX_MIXES = 1024
"""Mixes of several sets that are compared. With more, nothing is proved."""
MAX_KEPT = 4096

_MIXES: Cache[Topology, dict[tuple[bytes, ...], Amounts]] = Cache(lambda _: {}, on_fork=dict.copy)


Within = Mapping[int, Mask]
"""Position of a slot -> (n,) the only devices that it may use; slots that are not named may use all"""


def no_mix_fits(remaining: "Remaining", within: Within) -> bool:
    """Whether no mixes of devices on the counter sets meet the requests that draw from one set each.

    Requests with alternatives, in mode All, for administrators, and for devices that are shared or draw from
    no set or several, are left out: so are constraints and exclusion.
    """
    problem, state = remaining.problem, remaining.state
    if not len(problem.left):
        return False
    single = (problem.sets >= 0).sum(axis=1) == 1
    single &= ~(problem.shared | problem.snapshot.occupancy.sharing[problem.rows])
    wanted: dict[bytes, int] = {}
    masks: dict[bytes, Mask] = {}
    for at, alternatives in enumerate(remaining.by_slot):
        if len(alternatives) != 1:
            continue
        candidates, mask = alternatives[0]
        if candidates.listed is not None or candidates.option.admin:
            continue
        if at in within:
            mask = mask & within[at]
        if (mask & ~single).any():
            continue
        kind = mask.tobytes()
        masks[kind] = mask
        wanted[kind] = wanted.get(kind, 0) + candidates.count
    if not wanted:
        return False
    most = np.array(list(wanted.values()), dtype=np.intp)
    kinds = np.stack(list(masks.values()), axis=1)
    rows = np.flatnonzero(kinds.any(axis=1))
    sets = problem.sets[rows].max(axis=1)
    order = np.argsort(sets, kind="stable")
    numbers, begins = np.unique(sets[order], return_index=True)
    drawn = problem.draws[rows, (problem.sets[rows] >= 0).argmax(axis=1)]
    known = _MIXES.of(problem.snapshot.topology)
    tables = []
    for number, mine in zip(numbers.tolist(), np.split(rows[order], begins[1:]), strict=True):
        draws = drawn[np.searchsorted(rows, mine)]
        key = (state.left[number].tobytes(), draws.tobytes(), kinds[mine].tobytes(), most.tobytes())
        if key not in known:
            if len(known) >= MAX_KEPT:
                known.clear()
            known[key] = _mixes(state.left[number], problem.table[draws], kinds[mine], most)
        tables.append(known[key])
    return suffices(tables, most, limit=MAX_MIXES) is False


def _mixes(left: Amounts, draws: Amounts, kinds: Mask, most: Rows) -> Amounts:
    found = fitting_mixes(left, draws, kinds, most, limit=MAX_STATES)
    return np.minimum(kinds.sum(axis=0), most)[None].astype(np.int64) if found is None else found


class Remaining:
    """The next requests and the devices that remain for them. The first belongs to the current claim."""

    def __init__(
        self,
        problem: NodeProblem,
        slots: Sequence[Slot],
        by_slot: Sequence[Sequence[Candidates]],
        state: State,
    ) -> None:
        self.problem = problem
        self.state = state
        self.slots: list[Slot] = []
        self.by_slot: list[list[tuple[Candidates, Mask]]] = []
        """Of each slot: its alternatives, each with the (n,) devices it could take"""
        for slot, alternatives in zip(slots, by_slot, strict=True):
            mine = slot.claim == slots[0].claim
            if any(_may_fail(state, c, mine=mine) for c in alternatives):
                break
            self.slots.append(slot)
            self.by_slot.append([(c, _possible(problem, state, c, mine=mine)) for c in alternatives])


def _may_fail(state: State, candidates: Candidates, *, mine: bool) -> bool:
    """Whether the option could meet an error. A later claim may use devices that this one may not (ADM-2)."""
    if candidates.listed is not None and candidates.option.constraints:
        return True  # a violated constraint is an error (SEL-6)
    if candidates.static.underived is not None:
        return True
    if not mine and candidates.option.admin:
        return bool(candidates.fatal.any())
    return bool((candidates.fatal & ~in_use(state, candidates)).any())


def _possible(problem: NodeProblem, state: State, candidates: Candidates, *, mine: bool) -> Mask:
    """(n,) devices the option could still take. Constraints and marks are known for one claim only."""
    if mine:
        return viable(problem, state, candidates)
    mask = candidates.available & state.fit
    return mask if candidates.option.admin else mask & ~state.taken


def is_impossible(
    problem: NodeProblem, slots: Sequence[Slot], by_slot: Sequence[Sequence[Candidates]], state: State
) -> bool:
    """Whether the next requests cannot be met. Never true if they can be met, or if an error comes first."""
    remaining = Remaining(problem, slots, by_slot, state)
    if not remaining.slots:
        return False
    return (
        _over_limit(remaining)
        or any(not _some_alternative(alternatives) for alternatives in remaining.by_slot)
        or _too_few(remaining, {})
        or _over_drawn(remaining, {})
        or no_mix_fits(remaining, {})
        or any(_no_value_works(remaining, number) for number in _matching_constraints(remaining))
    )


def _over_limit(remaining: Remaining) -> bool:
    """SRCH-6: the current claim would get too many results, whichever alternatives are chosen."""
    claim = remaining.slots[0].claim
    least = [
        min(candidates.count for candidates, _ in alternatives)
        for slot, alternatives in zip(remaining.slots, remaining.by_slot, strict=True)
        if slot.claim == claim
    ]
    return remaining.state.results + sum(least) > MAX_RESULTS


def _some_alternative(alternatives: Sequence[tuple[Candidates, Mask]], devices: Mask | None = None) -> bool:
    return any(_enough(candidates, mask, devices) for candidates, mask in alternatives)


def _enough(candidates: Candidates, mask: Mask, devices: Mask | None) -> bool:
    if candidates.listed is not None:
        wanted = mask[candidates.listed]
        return bool(len(wanted)) and bool(
            wanted.all() if devices is None else (wanted & devices[candidates.listed]).all()
        )
    return int(np.count_nonzero(mask if devices is None else mask & devices)) >= candidates.count


def _too_few(remaining: Remaining, within: Within) -> bool:
    """Whether there are too few devices when each device serves one request only."""
    problem = remaining.problem
    wanted, masks = [], []
    for at, alternatives in enumerate(remaining.by_slot):
        usable = [(c, _listed(c, mask)) for c, mask in alternatives if not c.option.admin]
        if len(usable) < len(alternatives):
            continue
        union = np.logical_or.reduce([mask for _, mask in usable])
        if (union & problem.shared).any():
            continue  # a shared device serves several requests
        if at in within:
            union = union & within[at]
        wanted.append(min(c.count for c, _ in usable))
        masks.append(union)
    if not wanted:
        return False
    kinds, room = _kinds(np.stack(masks))
    total = sum(wanted)
    if int(room[kinds.any(axis=0)].sum()) < total:
        return True
    return max_matching(np.array(wanted, dtype=np.intp), kinds, room) < total


def _kinds(masks: Mask) -> tuple[Mask, np.ndarray]:
    """Groups devices that serve the same requests: (R, n) -> (R, Q) kinds and their sizes (Q,)."""
    if len(masks) > 62:
        return np.unique(masks, axis=1, return_counts=True)
    bits = np.int64(1) << np.arange(len(masks), dtype=np.int64)
    codes, room = np.unique(bits @ masks, return_counts=True)
    return (codes[None] & bits[:, None]) != 0, room


def _listed(candidates: Candidates, mask: Mask) -> Mask:
    if candidates.listed is None:
        return mask
    listed = np.zeros_like(mask)
    listed[candidates.listed] = True
    return mask & listed


def _over_drawn(remaining: Remaining, within: Within) -> bool:
    """Whether some counter has less than the least that the requests must draw from it."""
    problem = remaining.problem
    needed = np.zeros_like(problem.left)
    for at, alternatives in enumerate(remaining.by_slot):
        devices = within.get(at)
        least = [
            _least_drawn(problem, c, _listed(c, mask), devices)
            for c, mask in alternatives
            if _enough(c, mask, devices)
        ]
        if least:
            needed += np.minimum.reduce(least)
    return bool(((needed > remaining.state.left) & (needed > 0)).any())


def _least_drawn(
    problem: NodeProblem, candidates: Candidates, mask: Mask, devices: Mask | None
) -> np.ndarray:
    """(s, C) the least that one request option must draw from each counter."""
    least = np.zeros_like(problem.left)
    rows = np.flatnonzero(mask if devices is None else mask & devices)
    # A shared device may have drawn already. So may a device with held shares that is published as
    # dedicated now. Both count as drawing nothing.
    drawn = problem.shared[rows] | problem.snapshot.occupancy.sharing[problem.rows[rows]]
    sets = np.where(drawn[:, None], -1, problem.sets[rows])
    drawing = np.bincount(sets[sets >= 0], minlength=len(problem.left))
    for number in np.flatnonzero(drawing > len(rows) - candidates.count).tolist():
        at, k = np.nonzero(sets == number)
        draw = problem.table[problem.draws[rows[at], k]]
        least[number] = least_draw(draw, len(rows) - len(at), candidates.count)
    return least


def _matching_constraints(remaining: Remaining) -> Iterator[tuple[Constraint, int]]:
    """The matchAttribute constraints of the current claim, with their numbers."""
    for number, constraint in enumerate(remaining.problem.constraints[remaining.slots[0].claim]):
        if constraint.match and not constraint.alone:
            yield constraint, number


def _with_codes(codes: Sequence[int], slots: Mapping[int, Sequence[Codes]]) -> dict[int, Mask]:
    """Slot -> (n,) the devices that have one of the codes for an alternative of the slot."""
    masks: dict[int, Mask] = {}
    for columns in slots.values():
        for column in columns:
            if id(column) not in masks:
                masks[id(column)] = np.isin(column, codes)
    return {
        at: np.logical_or.reduce([masks[id(column)] for column in columns]) for at, columns in slots.items()
    }


def _no_value_works(remaining: Remaining, constraint: tuple[Constraint, int]) -> bool:
    """Whether no value of a matchAttribute has the devices and counters for all its requests."""
    which, number = constraint
    claim = remaining.slots[0].claim
    slots = {
        at: [which.of(c.option) for c, _ in alternatives]
        for at, (slot, alternatives) in enumerate(zip(remaining.slots, remaining.by_slot, strict=True))
        if slot.claim == claim and all(number in c.option.constraints for c, _ in alternatives)
    }
    if not slots:
        return False
    state = remaining.state.constraints[number]
    values = state if state is not None else frozenset().union(*which.tokens.values())
    for value in values:
        codes = [code for code, tokens in which.tokens.items() if value in tokens]
        within = _with_codes(codes, slots)
        if not all(_some_alternative(remaining.by_slot[at], mask) for at, mask in within.items()):
            continue
        if not any(proof(remaining, within) for proof in (_too_few, _over_drawn, no_mix_fits)):
            return False
    return True
