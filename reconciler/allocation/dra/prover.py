"""Whether devices for the next requests exist at all, decided for all of them together.

A choice of alternatives is mostly excluded by weights (`kernels.covering`), which exclude others as well. If
there are none, the groups of devices (`proof_tables`) are combined one after the other to the set of all
counts that they can give together (`combining`). Groups in equal states are equal here, so neither
equal GPUs nor the order of choices multiply the work: sets are kept by what led to them.

Constraints join in as they can. A `distinctAttribute` is a counter of 1 for each value. A `matchAttribute`
whose values are groups may be used in one group; of any other, the values are tried in turn. Counter sets
that several groups share, and the most devices of a claim, limit the counts: by what requests draw at least.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from kernels.boxes import Box
from kernels.covering import separating
from kernels.groups import distinct, distinct_pairs
from kernels.types import Amounts, Mask
from reconciler.allocation.dra.combining import Entry, Frame, Limit, Table, places_of
from reconciler.allocation.dra.proof_tables import (
    Alternatives,
    Asked,
    Groups,
    GroupState,
    Reader,
    Rule,
    group_state,
    groups_of,
    kinds_by_value,
    table_of,
)
from reconciler.allocation.dra.request_options import MAX_RESULTS, Slot
from reconciler.allocation.dra.state import NodeProblem, State, layout_of
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot import View

MOST_CELLS = 1 << 20
"""Cells of a box. With more, it is not filled."""
FEW_CELLS = 1 << 14
"""Cells of a box that is filled sooner than weights are sought"""
MOST_VALUES = 512
"""Combinations of the values of `matchAttribute` that are tried. With more, some constraints do not count."""
MOST_KINDS = 60
TABLE_WORK = 1 << 18
"""Cells that a new table of a group counts for at least."""
REASON_WORK = 1 << 8
"""Cells that a number on the board of the simplex algorithm counts for"""
MOST_NUMBERS = 1 << 20
"""Numbers on that board. With more, no weights are sought."""
AT_ONCE = 8
"""Steps in a box that count as one look at its cells"""
MOST_WORK = 1 << 32
"""Cells that are combined for one search of `STEPS`. With more, no more is proved: about a second."""
MOST_KEPT = 1 << 28
"""Bits that are kept for one search, one for each cell. With more, all is found anew."""
MOST_ROWS = 1 << 10
"""Counts that are compared at once"""


@Cache
def _drawn_of(view: View) -> tuple[int, Amounts]:
    """Lowest bits of amounts that do not count, so that sums of all devices and sets do not overflow; and
    (n, L) what each device draws from all its sets, then from each set of several groups: of each counter,
    and in total.
    """
    layout, fleet = layout_of(view), view.fleet
    sets, nothing = layout.sets, np.zeros((1, fleet.table.shape[1]), dtype=np.int64)  # -1 names the last row
    table = np.concatenate([fleet.table, nothing])
    top = max(int(table.max(initial=0)), int(fleet.totals[layout.used].max(initial=0)))
    cut = max(top.bit_length() + sets.size.bit_length() + table.shape[1].bit_length() - 62, 0)
    drawn = (table >> cut)[np.where(sets >= 0, layout.draws, -1)]
    by_set = [
        np.where((sets == number)[..., None], drawn, 0).sum(axis=1)
        for number in groups_of(view).shared.tolist()
    ]
    amounts = [drawn.sum(axis=1), *by_set]
    return cut, np.concatenate([both for one in amounts for both in (one, one.sum(axis=1)[:, None])], axis=1)


class Prover:
    """Proofs for one search on one node."""

    def __init__(self, problem: NodeProblem, most_work: int = MOST_WORK) -> None:
        self.problem = problem
        self.most_work = most_work
        self.groups: Groups = groups_of(problem.view)
        self._cut, self._drawn = _drawn_of(problem.view)
        self.bounds: dict[tuple[bytes, bytes], dict[int, Amounts]] = {}
        """By weights and by what is given once: of the states of groups, see `_Trial`"""
        self._states: dict[tuple[object, ...], GroupState] = {}
        self._tables: dict[tuple[object, ...], Table] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._frames: dict[tuple[int, tuple[int, ...]], Frame] = {}
        self.reached: dict[tuple[object, ...], bool] = {}
        """By the states of the groups, rules, and counts: whether they can give one of the counts"""
        self._kept = 0
        """Cells in all frames, and bits of what was reached"""
        self.work = 0
        """Cells that were combined"""

    def is_impossible(
        self, slots: Sequence[Slot], by_slot: Sequence[Alternatives], state: State
    ) -> bool | None:
        """Whether no devices meet the requests; the first of them belongs to the claim at hand.

        Never true if they can be met. None if that takes too long, or if requests in mode All, for
        administrators or for shared devices were left out. Exclusion does not count.
        """
        if self.work > self.most_work:
            return None
        asked = Reader(self.problem, slots[0].claim, state).read(slots, by_slot)
        if asked is None:
            return True
        if not 0 < len(asked.masks) <= MOST_KINDS or not len(asked.wanted):
            return None
        drawn, totals = self.draws(asked, state)
        fine = (asked.wanted @ drawn <= totals).all(axis=1)
        for claim in {claim for claim in asked.claims if claim >= 0}:
            of_claim = asked.wanted[:, [one == claim for one in asked.claims]].sum(axis=1)
            fine &= of_claim <= MAX_RESULTS - (state.results if claim == slots[0].claim else 0)
        wanted = asked.wanted[fine]
        if not len(wanted):
            return True
        trial = _Trial(self, asked, state, drawn)
        if not any(trial.reaches(bits, wanted) for bits in trial.ways()):
            return True
        return False if asked.complete and not trial.unsure else None

    def draws(self, asked: Asked, state: State) -> tuple[Amounts, Amounts]:
        """(K, L) what one device of each kind draws at least of some totals, and (L,) the totals."""
        left = -(-np.maximum(state.left, 0) >> self._cut)
        limits = [
            both for most in (left.sum(axis=0), *left[self.groups.shared]) for both in (most, [most.sum()])
        ]
        least = np.array([np.minimum.reduce(self._drawn[mask]) for mask in asked.masks])
        return least, np.concatenate(limits)

    def group_state(self, group: int, bits: Amounts, rules: Sequence[Rule], left: Amounts) -> GroupState:
        """What is left of a group, when its devices serve the kinds in `bits` (n,)."""
        groups = self.groups
        devices = groups.order[groups.begins[group] : groups.begins[group + 1]]
        mine = bits[devices]
        remaining = left[groups.sets[group]].reshape(-1)
        inner = [rule.codes[devices] if rule.inner else None for rule in rules]
        key = (
            groups.shapes[group],
            remaining.tobytes(),
            mine.tobytes(),
            tuple([None if codes is None else codes.tobytes() for codes in inner]),
        )
        if key not in self._states:
            values = [[-1] * len(devices) if codes is None else codes.tolist() for codes in inner]
            per_device = list(zip(*values, strict=True)) if values else [()] * len(devices)
            self._states[key] = group_state(
                len(self._states), remaining.tolist(), groups.draws[group], mine.tolist(), per_device
            )
        return self._states[key]

    def table(self, state: GroupState, rules: Sequence[Rule], caps: Sequence[int]) -> Table:
        """What a group can give."""
        mine = tuple([min(caps[kind], most) for kind, most in state.most])
        kinds = sum([1 << kind for kind, _ in state.most])
        key = state.number, tuple([(rule.match, rule.bits & kinds) for rule in rules]), mine
        if key not in self._tables:
            counts, uses, limits, cells = table_of(state, rules, mine)
            self.work += TABLE_WORK + cells * len(state.packed) // AT_ONCE
            content = counts.tobytes(), counts.shape, uses.tobytes(), limits
            number = self._numbers.setdefault(content, len(self._numbers))
            self._tables[key] = Table(number, counts, uses, limits, rough=not cells)
        return self._tables[key]

    def frame(self, kinds: int, caps: tuple[int, ...]) -> Frame:
        """The box of these caps, and what is known of it. Those behind the kinds are of limits."""
        key = kinds, caps
        if key not in self._frames:
            made = Frame(Box(caps), [])
            self.keep(made.box.size * sum(caps))  # a box keeps some sets, too
            self._frames[key] = made
        return self._frames[key]

    def keep(self, bits: int) -> None:
        """Count what is kept. If it is too much, all is forgotten."""
        self._kept += bits
        if self._kept > MOST_KEPT:
            self._frames.clear()
            self.reached.clear()
            self.bounds.clear()
            self._kept = 0

    def after(
        self, frame: Frame, node: int, renewed: tuple[int, ...], table: Table, places: tuple[int, ...]
    ) -> int | None:
        """See `Frame.after`; None if that is too much work for this search."""
        known, steps, size = len(frame.known), len(frame.steps), frame.box.size
        if self.work + size * len(table.counts) > self.most_work:
            return None
        found = frame.after(node, renewed, table, places)
        looks, vectors = len(frame.known) - known, len(table.counts)
        kept = looks + (len(frame.steps) - steps) * vectors
        self.work += size * (kept + looks * vectors // AT_ONCE)
        self.keep(size * kept)
        return found


class _Trial:
    """The counts that the groups can give in one state."""

    def __init__(self, prover: Prover, asked: Asked, state: State, drawn: Amounts) -> None:
        self._prover, self._left = prover, state.left
        self._bits = (asked.masks.astype(np.int64) << np.arange(len(asked.masks))[:, None]).sum(axis=0)
        self._rules: list[Rule] = []
        self._tried: list[list[Amounts]] = []
        """Of each constraint whose values are tried: for each value, (n,) the kinds that devices may serve"""
        self._differing: list[tuple[list[int], int]] = []
        """Of each distinctAttribute: its kinds, and how many values their devices have"""
        self._group_codes: list[Amounts] = []
        """Of each rule: (G,) the value of each group, if it has one"""
        of = prover.groups.of
        for key in sorted(asked.before):
            constraint = prover.problem.constraints[key[0]][key[1]]
            members = [number for number, keys in enumerate(asked.rules) if key in keys]
            kinds = sum([1 << number for number in members])
            rows = np.flatnonzero(asked.masks[members].any(axis=0))
            pairs = distinct_pairs(of[rows], constraint.codes[rows])
            if not constraint.match:
                self._differing.append((members, len(distinct(pairs[1]))))
            inner = len(distinct(pairs[0])) < len(pairs[0])
            shared = len(distinct(pairs[1])) < len(pairs[1])
            if constraint.match and (inner or shared or constraint.derived or not constraint.plain):
                self._tried.append(kinds_by_value(constraint, asked, members, asked.before[key]))
                continue
            code = np.full(len(prover.groups.begins) - 1, -1, dtype=np.int64)
            code[pairs[0]] = pairs[1]
            self._rules.append(Rule(constraint.match, kinds, constraint.codes, inner, shared))
            self._group_codes.append(code)

        self._weights, together, once = self._sums(len(asked.masks), drawn)
        self._together: Mask = together
        """(W,) sums that one group has to give"""
        self._once: Mask = once
        """(W,) sums of which a group gives 1 at most"""
        self._bounds = prover.bounds.setdefault((self._weights.tobytes(), once.tobytes()), {})
        self.unsure = False
        """Whether some counts took too long"""

    def _sums(self, kinds: int, drawn: Amounts) -> tuple[Amounts, Mask, Mask]:
        """(K, W) sums of counts that are compared first: each kind, those of each rule, all."""
        of_rules = [np.array([[rule.bits >> kind & 1] for kind in range(kinds)]) for rule in self._rules]
        single, every = np.eye(kinds, dtype=np.int64), np.ones((kinds, 1), dtype=np.int64)
        weights = np.concatenate([single, *of_rules, every, drawn], axis=1)
        inside = np.zeros((2, weights.shape[1]), dtype=np.bool_)
        for rule, mine in zip(self._rules, of_rules, strict=True):
            if rule.match or not rule.inner:
                inside[int(not rule.match)] |= ((weights > 0) <= (mine > 0)).all(axis=0)
        inside[1] &= weights.max(axis=0) == 1
        return weights, inside[0], inside[1]

    def ways(self) -> Iterator[Amounts]:
        """(n,) the kinds that each device may serve, for each choice of values."""
        tried, count = [], 1
        for values in sorted(self._tried, key=len):
            count *= len(values)
            if count <= MOST_VALUES:
                tried.append(values)
        for chosen in product(*tried):
            yield np.bitwise_and.reduce([self._bits, *chosen])

    def reaches(self, bits: Amounts, wanted: Amounts) -> bool:
        """Whether the groups can give one of the counts that are asked for, or if that takes too long.

        bits   (n,)    the kinds that each device may serve
        wanted (v, K)
        """
        groups, rules = self._prover.groups, self._rules
        some = np.logical_or.reduceat(bits[groups.order] != 0, groups.begins[:-1])
        numbers = np.flatnonzero(some).tolist()
        if not numbers:
            return False
        states = [self._prover.group_state(group, bits, rules, self._left) for group in numbers]
        for members, values in self._differing:
            wanted = wanted[wanted[:, members].sum(axis=1) <= values]
        shared = [
            code[numbers].tolist() for code, rule in zip(self._group_codes, rules, strict=True) if rule.shared
        ]
        alike = tuple(sorted(zip([state.number for state in states], *shared, strict=True)))
        key = (
            alike,
            tuple([(rule.match, rule.bits, rule.shared) for rule in rules]),
            wanted.shape,
            wanted.tobytes(),
        )
        known = self._prover.reached
        if key not in known:
            bounds = np.stack([self._bound(state) for state in states])
            most = np.where(self._together, bounds.max(axis=0), bounds.sum(axis=0))
            self._prover.work += wanted.size * len(most)
            found = self._gives(numbers, states, self._within(wanted, most))
            if self.unsure:
                return found
            self._prover.keep(8 * wanted.nbytes)
            known[key] = found
        return known[key]

    def _within(self, wanted: Amounts, most: Amounts) -> Amounts:
        """The counts of `wanted` that have no sum above `most` (W,), those with most room first.

        In parts: all sums at once take much memory.
        """
        found, filled = [], []
        for at in range(0, len(wanted), MOST_ROWS):
            sums = wanted[at : at + MOST_ROWS] @ self._weights
            fine = (sums <= most).all(axis=1)
            found.append(wanted[at : at + MOST_ROWS][fine])
            filled.append((sums[fine] / np.maximum(most, 1)).max(axis=1))
        return np.concatenate(found)[np.concatenate(filled).argsort(kind="stable")] if found else wanted

    def _bound(self, state: GroupState) -> Amounts:
        if state.number not in self._bounds:
            most = state.bound(self._weights)
            self._prover.keep(8 * most.nbytes)
            self._bounds[state.number] = np.where(self._once, np.minimum(most, 1), most)
        return self._bounds[state.number]

    def _gives(self, numbers: list[int], states: list[GroupState], wanted: Amounts) -> bool:
        """Whether groups in these states can give one of the counts, or if that takes too long.

        Mostly groups can give the first. If not, weights say why, and mostly exclude many others. In a large
        box weights are sought first.
        """
        while len(wanted):
            if self._prover.work > self._prover.most_work:
                self.unsure = True
                return True
            caps = wanted[0].tolist()
            entries = self._entries(numbers, states, caps)
            small = prod([cap + 1 for cap in caps]) <= FEW_CELLS
            if small and self._combine(entries, wanted[0]):
                return True
            reason = None if small and len(wanted) == 1 else self._reason(entries, wanted[0])
            if reason is not None:
                weights, most = reason
                wanted = wanted[np.minimum(wanted, wanted[0]) @ weights <= most]
            elif not small and self._combine(entries, wanted[0]):
                return True
            else:
                wanted = wanted[1:]
        return False

    def _entries(self, numbers: list[int], states: list[GroupState], caps: Sequence[int]) -> list[Entry]:
        known = {state.number: state for state in states}  # mostly few
        tables = {number: self._prover.table(state, self._rules, caps) for number, state in known.items()}
        entries = []
        for group, state in zip(numbers, states, strict=True):
            table = tables[state.number]
            self.unsure |= table.rough
            codes = [int(code[group]) for code in self._group_codes]
            nearby = tuple([code for code, rule in zip(codes, self._rules, strict=True) if rule.shared])
            limits = tuple([self._limit(*limit, codes) for limit in table.limits])
            entries.append(Entry(nearby, table.number, limits, table))
        return sorted(entries, key=lambda entry: entry[:2])

    def _reason(self, entries: list[Entry], wanted: Amounts) -> tuple[Amounts, int] | None:
        """Weights (K,) by which all that groups can give is worth at most a number, and `wanted` is worth
        more; None if there are none, or the board is too large.
        """
        asked = np.flatnonzero(wanted)
        shared = sorted({limit for entry in entries for limit in entry.limits if limit is not None})
        classes, tables = Counter([entry[1:3] for entry in entries]), []
        by_number = {entry.number: entry.table for entry in entries}
        column = {limit: len(asked) + at for at, limit in enumerate(shared)}
        kinds = len(asked) + len(shared)
        vectors = sum([len(by_number[number].counts) for number, _ in classes])
        size = (kinds + len(classes)) * (vectors + kinds)
        if size > MOST_NUMBERS:
            return None
        self._prover.work += REASON_WORK * size
        for number, limits in classes:
            table = by_number[number]
            given = np.zeros((len(table.counts), kinds), dtype=np.int64)
            among = asked[: np.searchsorted(asked, table.counts.shape[1])]
            given[:, : len(among)] = table.counts[:, among]
            for at, limit in enumerate(limits):
                if limit is not None:
                    given[:, column[limit]] -= table.uses[:, at]
            tables.append(given)
        once = np.full(len(shared), -1, dtype=np.int64)
        found = separating(np.concatenate([wanted[asked], once]), tables, list(classes.values()))
        if found is None:
            return None
        weights = np.zeros(len(wanted), dtype=np.int64)
        weights[asked] = found[0][: len(asked)]
        return weights, found[1] + int(found[0][len(asked) :].sum())

    def _combine(self, entries: list[Entry], wanted: Amounts) -> bool:
        """Whether groups can give the counts together, or if that takes too long."""
        caps = tuple(wanted.tolist())
        places, renewed, used = places_of(entries, len(caps))
        if prod([cap + 1 for cap in caps]) << used > MOST_CELLS:
            self.unsure = True
            return True
        frame = self._prover.frame(len(caps), (*caps, *[1] * used))
        target = frame.box.of(wanted[None])
        node = frame.start(len(caps))
        for entry, mine, new in zip(entries, places, renewed, strict=True):
            if frame.sets[node] & target:
                return True
            following = self._prover.after(frame, node, new, entry.table, mine)
            if following is None:
                self.unsure = True
                return True
            node = following
        return bool(frame.sets[node] & target)

    def _limit(self, number: int, value: int, codes: list[int]) -> Limit | None:
        """What stands for a limit that several groups share; None for one that lies in its group."""
        rule = self._rules[number]
        if rule.match:
            return number, -1
        return (number, codes[number] if value < 0 else value) if rule.shared else None
