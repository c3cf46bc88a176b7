"""One node's devices during a search: what never changes, and what each step makes of the rest.

A step returns a new state; nothing is ever taken back, so a branch that is left leaves nothing behind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kernels.fit import draw_one, fits
from kernels.index import Inverse, invert
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.constraints import Constraint, compile_constraint
from reconciler.allocation.dra.constraints import State as ConstraintState
from reconciler.allocation.dra.exclusion import (
    ExclusionColumns,
    ExclusionState,
    begin_exclusion,
    exclusion_columns,
)
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.api.objects.requests import DeviceConstraint
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot.snapshot import Snapshot, View


@dataclass(frozen=True, slots=True)
class NodeProblem:
    """The n devices of a view and the s counter sets that they draw from."""

    view: View
    snapshot: Snapshot
    shared: Mask
    """(n,) can be held by several claims at once (CAP-14)"""
    sets: Codes
    """(n, K) position among the s sets, -1 for none"""
    draws: Codes
    """(n, K) row of the fleet's table"""
    left: Amounts
    """(s, C) before the search"""
    by_set: Inverse
    """set -> devices"""
    constraints: tuple[tuple[Constraint, ...], ...]
    """Of each claim, in order"""
    exclusion: ExclusionColumns | None
    """None if no device excludes another"""

    @property
    def rows(self) -> Rows:
        return self.view.rows

    @property
    def table(self) -> Amounts:
        return self.snapshot.fleet.table


class NodeLayout(NamedTuple):
    """The part of a problem that depends on the view alone."""

    shared: Mask
    sets: Codes
    draws: Codes
    by_set: Inverse
    used: Rows
    """(s,) the fleet's numbers of the sets"""


def set_up(parsed: ParsedClaims, view: View, snapshot: Snapshot) -> NodeProblem:
    """The problem of a decision on one node."""
    layout = _LAYOUT.of(view)
    return NodeProblem(
        view=view,
        snapshot=snapshot,
        shared=layout.shared,
        sets=layout.sets,
        draws=layout.draws,
        left=snapshot.occupancy.left[layout.used],
        by_set=layout.by_set,
        constraints=tuple(
            tuple(constraint_on(source, view) for source in claim.spec.devices.constraints)
            for claim in parsed.claims
        ),
        exclusion=exclusion_columns(view),
    )


_NO_SETS = invert(np.zeros(0, dtype=np.int32), 0)


def _layout(view: View) -> NodeLayout:
    fleet = view.fleet
    sets = view.of(fleet.sets)
    shared = view.of(fleet.shared) & view.rules.sharing
    if not sets.shape[1]:
        return NodeLayout(shared, sets, view.of(fleet.draws), _NO_SETS, _NO_SETS.rows)
    used = np.unique(sets[sets >= 0])
    local = np.where(sets >= 0, np.searchsorted(used, sets), -1).astype(np.int32)
    return NodeLayout(
        shared=shared,
        sets=local,
        draws=view.of(fleet.draws),
        by_set=invert(local, len(used)),
        used=used.astype(np.intp),
    )


_LAYOUT = Cache(_layout)
_CONSTRAINTS: Cache[View, dict[tuple[str | None, str | None], Constraint]] = Cache(lambda _: {})


def constraint_on(source: DeviceConstraint, view: View) -> Constraint:
    """A constraint over the devices of a view."""
    of_view, key = _CONSTRAINTS.of(view), (source.match_attribute, source.distinct_attribute)
    if key not in of_view:
        of_view[key] = compile_constraint(source, view.fleet, view.rows, view.rules)
    return of_view[key]


def _judge_again(problem: NodeProblem, left: Amounts, fit: Mask, drawn: Sequence[int]) -> Mask:
    """(n,) which draws still fit, once some sets have less left than when `fit` was judged."""
    fit = fit.copy()
    for number in drawn:
        again, floor = _drawing(problem, number)
        if floor is not None:
            fit[again] = (floor <= left[number]).all(axis=1)
        else:
            fit[again] = fits(left, problem.table, problem.sets[again], problem.draws[again])
        fit[again] |= problem.snapshot.occupancy.sharing[problem.rows[again]]
    return fit


_DRAWING: Cache[View, dict[int, tuple[Rows, Amounts | None]]] = Cache(lambda _: {})


def _drawing(problem: NodeProblem, number: int) -> tuple[Rows, Amounts | None]:
    """The devices that draw from a set, and what they draw, nothing being less than any amount left.

    None for the amounts if some of them draw from another set as well.
    """
    of_view = _DRAWING.of(problem.view)
    if number not in of_view:
        again = problem.by_set.of(number)
        floor = None
        if ((problem.sets[again] >= 0).sum(axis=1) == 1).all():
            k = (problem.sets[again] >= 0).argmax(axis=1)
            floor = problem.table[problem.draws[again, k]]
            floor = np.where(floor == 0, np.iinfo(np.int64).min, floor)
        of_view[number] = again, floor
    return of_view[number]


class Choice(NamedTuple):
    """One device chosen for one request."""

    slot: int
    candidates: Candidates
    at: int
    """Position in the view"""


@dataclass(frozen=True, slots=True)
class State:
    """How far a search has come. Immutable."""

    left: Amounts
    """(s, C) counters, less what was chosen"""
    fit: Mask
    """(n,) draws still fit, or have been drawn by an earlier share"""
    taken: Mask
    """(n,) given to some claim of this decision, exclusively"""
    mine: Mask
    """(n,) given to the claim at hand, exclusively"""
    shares: Mapping[int, Mapping[str, int]]
    """position of a shared device chosen here -> capacity consumed, with what was before"""
    constraints: tuple[ConstraintState, ...]
    """Of the claim at hand"""
    results: int
    """Devices chosen for the claim at hand"""
    chosen: tuple[Choice, ...]
    exclusion: ExclusionState | None
    """None if no device excludes another"""


def begin(problem: NodeProblem, constraints: Sequence[Constraint]) -> State:
    """Nothing chosen yet, at the first request of the first claim."""
    count = len(problem.rows)
    nobody = np.zeros(count, dtype=np.bool_)
    occupancy = problem.snapshot.occupancy
    return State(
        left=problem.left,
        fit=problem.view.of(occupancy.fits) | problem.view.of(occupancy.sharing),
        taken=nobody,
        mine=nobody,
        shares={},
        constraints=(None,) * len(constraints),
        results=0,
        chosen=(),
        exclusion=begin_exclusion(problem.exclusion, problem.view, problem.snapshot),
    )


def enter_claim(state: State, constraints: Sequence[Constraint]) -> State:
    """The state at the first request of a later claim: constraints and limits are per claim (CON-2)."""
    return replace(state, mine=np.zeros_like(state.mine), constraints=(None,) * len(constraints), results=0)


def in_use(state: State, candidates: Candidates) -> Mask:
    """(n,) devices this decision has taken, as far as that stands against the option (ADM-2, ADM-3)."""
    return state.mine if candidates.option.admin else state.taken


def viable(problem: NodeProblem, state: State, candidates: Candidates) -> Mask:
    """(n,) devices that could be chosen next for a request option."""
    mask = candidates.available & state.fit & ~in_use(state, candidates)
    for at, consumed in state.shares.items():
        taken = candidates.takes(at)
        if taken is not None:
            mask[at] &= taken.fits(consumed)
    own = problem.constraints[candidates.option.claim]
    for number in candidates.option.constraints:
        mask &= own[number].allowed(state.constraints[number])
    return mask


def choose(problem: NodeProblem, state: State, slot: int, candidates: Candidates, at: int) -> State:
    """The state once a device has been chosen. It must be viable."""
    own = problem.constraints[candidates.option.claim]
    constraints = list(state.constraints)
    for number in candidates.option.constraints:
        constraints[number] = own[number].after(constraints[number], at)
    left, fit, shares = state.left, state.fit, state.shares
    charged = at in shares or bool(problem.snapshot.occupancy.sharing[problem.rows[at]])
    sets = problem.sets[at]
    drawn = [] if charged else [number for number in sets.tolist() if number >= 0]
    if drawn:
        left = draw_one(left, problem.table, sets, problem.draws[at])
        fit = _judge_again(problem, left, fit, drawn)
        fit[list(shares)] = True
    exclusion = state.exclusion
    if not charged and exclusion is not None:
        exclusion = exclusion.after(at)
        fit = (fit & exclusion.open) | problem.view.of(problem.snapshot.occupancy.sharing)
        fit[list(shares)] = True
    taken, mine = state.taken, state.mine
    if problem.shared[at]:
        amounts = candidates.takes(at)
        before = shares.get(at) or problem.snapshot.occupancy.consumed.get(int(problem.rows[at]), {})
        shares = {**shares, at: amounts.added_to(before) if amounts is not None else before}
        if not fit[at]:
            fit = fit.copy()
            fit[at] = True
    else:
        taken, mine = taken.copy(), mine.copy()
        taken[at] = mine[at] = True
    return State(
        left=left,
        fit=fit,
        taken=taken,
        mine=mine,
        shares=shares,
        constraints=tuple(constraints),
        results=state.results + 1,
        chosen=(*state.chosen, Choice(slot, candidates, at)),
        exclusion=exclusion,
    )
