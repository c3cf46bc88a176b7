"""The devices of one node during a search: the fixed problem, and the state after each step.

A step returns a new state, so the search leaves a branch without undoing anything.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.exclusion import compatible_with, shares_a_name
from kernels.fit import draw_one, fits
from kernels.groups import Inverse, distinct, invert
from kernels.types import Amounts, Bits, Codes, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.constraints import Constraint, compile_constraint, derived_by
from reconciler.allocation.dra.constraints import State as ConstraintState
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.api.objects.claims import DeviceConstraint
from reconciler.cel.program import FAILS
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot import Snapshot, View


class ExclusionColumns(Struct, frozen=True):
    """Which of the n devices of a view exclude others, in its s scopes."""

    scopes: Codes
    """(n, K) position among the s scopes, -1 for none"""
    names: Bits
    asks: Bits
    meets: Bits
    bound: Mask
    """(n,) a chosen device may exclude it"""
    used: np.ndarray
    """(s,) the fleet's numbers of the scopes"""


class ExclusionState(Struct, frozen=True):
    """Which devices the held and chosen devices exclude. Immutable."""

    columns: ExclusionColumns
    open: Mask
    """(n,) none of them excludes the device"""
    common: Bits
    """(s, W) names that all of them share, by scope"""

    def after(self, at: int) -> "ExclusionState":
        """The state after the device at position `at` is chosen."""
        columns = self.columns
        if not columns.bound[at]:
            return self
        common = self.common.copy()
        for k, scope in enumerate(columns.scopes[at].tolist()):
            if scope >= 0:
                common[scope] &= columns.names[at, k]
        fine = shares_a_name(common, columns.scopes, columns.names)
        fine &= compatible_with(at, columns.scopes, columns.asks, columns.meets)
        return replace(self, open=self.open & fine, common=common)


def exclusion_columns(view: View) -> ExclusionColumns | None:
    """The columns of a view; None if none of its devices can be excluded."""
    return _columns(view) if view.fleet.exclusion is not None else None


@Cache
def _columns(view: View) -> ExclusionColumns | None:
    exclusion = view.fleet.exclusion
    assert exclusion is not None
    bound = view.of(exclusion.bound)
    if not bound.any():
        return None
    scopes = view.of(exclusion.scopes)
    used = distinct(scopes[scopes >= 0])
    return ExclusionColumns(
        scopes=np.where(scopes >= 0, np.searchsorted(used, scopes), -1).astype(np.int32),
        names=view.of(exclusion.names),
        asks=view.of(exclusion.asks),
        meets=view.of(exclusion.meets),
        bound=bound,
        used=used.astype(np.intp),
    )


def begin_exclusion(
    columns: ExclusionColumns | None, view: View, snapshot: Snapshot
) -> ExclusionState | None:
    """The state before any device is chosen. None if no device can be excluded."""
    occupancy = snapshot.occupancy
    if columns is None or occupancy.open is None or occupancy.common is None:
        return None
    return ExclusionState(columns, view.of(occupancy.open), occupancy.common[columns.used])


def equality_columns(columns: ExclusionColumns) -> np.ndarray:
    """(columns, n) int32. Devices with equal columns exclude, and are excluded by, the same devices."""
    words = [
        np.ascontiguousarray(bits).reshape(len(bits), -1).view(np.int32)
        for bits in (columns.names, columns.asks, columns.meets)
    ]
    return np.concatenate([columns.scopes, *words], axis=1).T


class NodeProblem(Struct, frozen=True):
    """The n devices of a view, and the s counter sets that they draw from."""

    view: View
    snapshot: Snapshot
    shared: Mask
    """(n,) several claims can hold it at once (CAP-14)"""
    sets: Codes
    """(n, K) position among the s sets, -1 for none"""
    draws: Codes
    """(n, K) row of the fleet's table"""
    left: Amounts
    """(s, C) remaining counters before the search"""
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
    """(s,) the numbers of the sets in the fleet"""


def set_up(parsed: ParsedClaims, view: View, snapshot: Snapshot) -> NodeProblem:
    """The problem of a decision on one node."""
    layout = layout_of(view)
    return NodeProblem(
        view=view,
        snapshot=snapshot,
        shared=layout.shared,
        sets=layout.sets,
        draws=layout.draws,
        left=snapshot.occupancy.left[layout.used],
        by_set=layout.by_set,
        constraints=tuple(
            tuple(
                constraint_on(source, view, derived_by(parsed, at, source))
                for source in claim.spec.devices.constraints
            )
            for at, claim in enumerate(parsed.claims)
        ),
        exclusion=exclusion_columns(view),
    )


_NO_SETS = invert(np.zeros(0, dtype=np.int32), 0)


@Cache
def layout_of(view: View) -> NodeLayout:
    """The counter sets of the devices of a view."""
    fleet = view.fleet
    sets = view.of(fleet.sets)
    shared = view.of(fleet.shared) & view.rules.sharing
    if not sets.shape[1]:
        return NodeLayout(shared, sets, view.of(fleet.draws), _NO_SETS, _NO_SETS.rows)
    used = distinct(sets[sets >= 0])
    local = np.where(sets >= 0, np.searchsorted(used, sets), -1).astype(np.int32)
    return NodeLayout(
        shared=shared,
        sets=local,
        draws=view.of(fleet.draws),
        by_set=invert(local, len(used)),
        used=used.astype(np.intp),
    )


_CONSTRAINTS: Cache[View, dict[tuple[object, ...], Constraint]] = Cache(lambda _: {})


def constraint_on(source: DeviceConstraint, view: View, derived: tuple[str, ...] = ()) -> Constraint:
    """A constraint over the devices of a view, of requests with these expressions for its attribute."""
    of_view, key = _CONSTRAINTS.of(view), (source.match_attribute, source.distinct_attribute, *derived)
    if key not in of_view:
        of_view[key] = compile_constraint(source, view.fleet, view.rows, view.rules, derived)
    return of_view[key]


def _judge_again(problem: NodeProblem, left: Amounts, fit: Mask, drawn: Sequence[int]) -> Mask:
    """(n,) whose draws still fit, after the sets in `drawn` lost some of their counters."""
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
    """The devices that draw from a set, and their draws; a draw of 0 is the least integer, so it always fits.

    The draws are None if some of the devices draw from another set as well.
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


class State(Struct, frozen=True):
    """The choices of a search so far. Immutable."""

    left: Amounts
    """(s, C) remaining counters"""
    fit: Mask
    """(n,) its draws still fit, or an earlier share has drawn them"""
    taken: Mask
    """(n,) taken by a claim of this decision, not shared"""
    mine: Mask
    """(n,) taken by the current claim, not shared"""
    shares: Mapping[int, Mapping[str, int]]
    """position of a chosen shared device -> capacity consumed in total"""
    constraints: tuple[ConstraintState, ...]
    """Of the current claim"""
    results: int
    """Devices chosen for the current claim"""
    chosen: tuple[Choice, ...]
    exclusion: ExclusionState | None
    """None if no device excludes another"""


def begin(problem: NodeProblem, constraints: Sequence[Constraint]) -> State:
    """The state at the first request of the first claim: nothing is chosen."""
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
    """(n,) devices taken by this decision that the option cannot take again (ADM-2, ADM-3)."""
    return state.mine if candidates.option.admin else state.taken


def viable(problem: NodeProblem, state: State, candidates: Candidates) -> Mask:
    """(n,) devices that can be chosen next for a request option."""
    mask = _open(problem, state, candidates)
    own, option = problem.constraints[candidates.option.claim], candidates.option
    for number in option.constraints:
        mask &= own[number].allowed(state.constraints[number], option)
    return mask


def _open(problem: NodeProblem, state: State, candidates: Candidates) -> Mask:
    """(n,) devices that all allows but constraints."""
    mask = candidates.available & state.fit & ~in_use(state, candidates)
    if (asks := candidates.static.asks) is not None:
        sharing = problem.snapshot.occupancy.sharing[problem.rows]
        sharing[list(state.shares)] = True
        mask &= asks.fit(state.left, problem.sets, sharing)
    if (modes := candidates.static.modes) is not None:
        for _, other, at in state.chosen if state.shares else ():
            locked = other.static.modes.mode(at) if other.static.modes is not None else None
            if at in state.shares and locked != modes.mode(at):
                mask[at] = False
    for at, consumed in state.shares.items():
        taken = candidates.takes(at)
        if taken is not None:
            mask[at] &= taken.fits(consumed)
    return mask


def before_constraints(problem: NodeProblem, state: State, candidates: Candidates) -> Mask:
    """(n,) devices of which the constraints are tested. In mode All, what shares consumed is tested later."""
    if candidates.listed is None:
        return _open(problem, state, candidates)
    mask = candidates.static.suitable & state.fit & ~in_use(state, candidates)
    held = problem.snapshot.occupancy.held[problem.rows]
    return mask if candidates.option.admin else mask & ~held


def underived(problem: NodeProblem, state: State, candidates: Candidates) -> dict[str, Mask]:
    """Derived attribute -> (n,) devices on which it fails, if all before it allows them (CON-13)."""
    option, found = candidates.option, dict[str, Mask]()
    if candidates.static.underived is None:
        return found
    mask = before_constraints(problem, state, candidates) & candidates.static.underived
    for number in option.constraints:
        constraint = problem.constraints[option.claim][number]
        if constraint.attribute in option.derived:
            found.setdefault(constraint.attribute, mask & (constraint.of(option) == FAILS))
        mask = mask & constraint.allowed(state.constraints[number], option)
    return found


def choose(problem: NodeProblem, state: State, slot: int, candidates: Candidates, at: int) -> State:
    """The state after a device is chosen. The device must be viable."""
    own = problem.constraints[candidates.option.claim]
    constraints = list(state.constraints)
    for number in candidates.option.constraints:
        constraints[number] = own[number].after(constraints[number], at, candidates.option)
    left, fit, shares = state.left, state.fit, state.shares
    charged = at in shares or bool(problem.snapshot.occupancy.sharing[problem.rows[at]])
    sets, table, draws = problem.sets[at], problem.table, problem.draws[at]
    drawn = [] if charged else [number for number in sets.tolist() if number >= 0]
    if (asks := candidates.static.asks) is not None and asks.asking[at]:
        drawn = [number for number in sets.tolist() if number >= 0]
        table, draws = asks.table, (asks.further if charged else asks.whole)[at]
    if drawn:
        left = draw_one(left, table, sets, draws)
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
