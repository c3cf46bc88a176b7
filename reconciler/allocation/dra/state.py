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
from reconciler.allocation.dra.exclusion import Sides, Standing, sides_of, stand
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.api.objects.requests import DeviceConstraint
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot.snapshot import Snapshot, View


@dataclass(frozen=True, slots=True)
class Board:
    """The n devices of a view and the s counter sets that they draw from."""

    view: View
    world: Snapshot
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
    sides: Sides | None
    """None if no device excludes another"""

    @property
    def rows(self) -> Rows:
        return self.view.rows

    @property
    def table(self) -> Amounts:
        return self.world.fleet.table


class Ground(NamedTuple):
    """What of a board depends on the view alone."""

    shared: Mask
    sets: Codes
    draws: Codes
    by_set: Inverse
    used: Rows
    """(s,) the fleet's numbers of the sets"""


def set_up(parsed: ParsedClaims, view: View, world: Snapshot) -> Board:
    """The board for a decision on one node."""
    ground = _GROUND.of(view)
    return Board(
        view=view,
        world=world,
        shared=ground.shared,
        sets=ground.sets,
        draws=ground.draws,
        left=world.occupancy.left[ground.used],
        by_set=ground.by_set,
        constraints=tuple(
            tuple(constraint_on(source, view) for source in claim.spec.devices.constraints)
            for claim in parsed.claims
        ),
        sides=sides_of(view),
    )


_NO_SETS = invert(np.zeros(0, dtype=np.int32), 0)


def _ground(view: View) -> Ground:
    fleet = view.fleet
    sets = view.of(fleet.sets)
    shared = view.of(fleet.shared) & view.rules.sharing
    if not sets.shape[1]:
        return Ground(shared, sets, view.of(fleet.draws), _NO_SETS, _NO_SETS.rows)
    used = np.unique(sets[sets >= 0])
    local = np.where(sets >= 0, np.searchsorted(used, sets), -1).astype(np.int32)
    return Ground(
        shared=shared,
        sets=local,
        draws=view.of(fleet.draws),
        by_set=invert(local, len(used)),
        used=used.astype(np.intp),
    )


_GROUND = Cache(_ground)
_CONSTRAINTS: Cache[View, dict[tuple[str | None, str | None], Constraint]] = Cache(lambda _: {})


def constraint_on(source: DeviceConstraint, view: View) -> Constraint:
    """A constraint over the devices of a view."""
    of_view, key = _CONSTRAINTS.of(view), (source.match_attribute, source.distinct_attribute)
    if key not in of_view:
        of_view[key] = compile_constraint(source, view.fleet, view.rows, view.rules)
    return of_view[key]


def _judge_again(board: Board, left: Amounts, fit: Mask, drawn: Sequence[int]) -> Mask:
    """(n,) which draws still fit, once some sets have less left than when `fit` was judged."""
    fit = fit.copy()
    for number in drawn:
        again, floor = _drawing(board, number)
        if floor is not None:
            fit[again] = (floor <= left[number]).all(axis=1)
        else:
            fit[again] = fits(left, board.table, board.sets[again], board.draws[again])
        fit[again] |= board.world.occupancy.sharing[board.rows[again]]
    return fit


_DRAWING: Cache[View, dict[int, tuple[Rows, Amounts | None]]] = Cache(lambda _: {})


def _drawing(board: Board, number: int) -> tuple[Rows, Amounts | None]:
    """The devices that draw from a set, and what they draw, nothing being less than any amount left.

    None for the amounts if some of them draw from another set as well.
    """
    of_view = _DRAWING.of(board.view)
    if number not in of_view:
        again = board.by_set.of(number)
        floor = None
        if ((board.sets[again] >= 0).sum(axis=1) == 1).all():
            k = (board.sets[again] >= 0).argmax(axis=1)
            floor = board.table[board.draws[again, k]]
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
    standing: Standing | None
    """None if no device excludes another"""


def begin(board: Board, constraints: Sequence[Constraint]) -> State:
    """Nothing chosen yet, at the first request of the first claim."""
    count = len(board.rows)
    nobody = np.zeros(count, dtype=np.bool_)
    occupancy = board.world.occupancy
    return State(
        left=board.left,
        fit=board.view.of(occupancy.fits) | board.view.of(occupancy.sharing),
        taken=nobody,
        mine=nobody,
        shares={},
        constraints=(None,) * len(constraints),
        results=0,
        chosen=(),
        standing=stand(board.sides, board.view, board.world),
    )


def enter_claim(state: State, constraints: Sequence[Constraint]) -> State:
    """The state at the first request of a later claim: constraints and limits are per claim (CON-2)."""
    return replace(state, mine=np.zeros_like(state.mine), constraints=(None,) * len(constraints), results=0)


def in_use(state: State, candidates: Candidates) -> Mask:
    """(n,) devices this decision has taken, as far as that stands against the option (ADM-2, ADM-3)."""
    return state.mine if candidates.option.admin else state.taken


def viable(board: Board, state: State, candidates: Candidates) -> Mask:
    """(n,) devices that could be chosen next for a request option."""
    mask = candidates.available & state.fit & ~in_use(state, candidates)
    for at, consumed in state.shares.items():
        taken = candidates.takes(at)
        if taken is not None:
            mask[at] &= taken.fits(consumed)
    own = board.constraints[candidates.option.claim]
    for number in candidates.option.constraints:
        mask &= own[number].allowed(state.constraints[number])
    return mask


def choose(board: Board, state: State, slot: int, candidates: Candidates, at: int) -> State:
    """The state once a device has been chosen. It must be viable."""
    own = board.constraints[candidates.option.claim]
    constraints = list(state.constraints)
    for number in candidates.option.constraints:
        constraints[number] = own[number].after(constraints[number], at)
    left, fit, shares = state.left, state.fit, state.shares
    charged = at in shares or bool(board.world.occupancy.sharing[board.rows[at]])
    sets = board.sets[at]
    drawn = [] if charged else [number for number in sets.tolist() if number >= 0]
    if drawn:
        left = draw_one(left, board.table, sets, board.draws[at])
        fit = _judge_again(board, left, fit, drawn)
        fit[list(shares)] = True
    standing = state.standing
    if not charged and standing is not None:
        standing = standing.after(at)
        fit = (fit & standing.open) | board.view.of(board.world.occupancy.sharing)
        fit[list(shares)] = True
    taken, mine = state.taken, state.mine
    if board.shared[at]:
        amounts = candidates.takes(at)
        before = shares.get(at) or board.world.occupancy.consumed.get(int(board.rows[at]), {})
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
        standing=standing,
    )
