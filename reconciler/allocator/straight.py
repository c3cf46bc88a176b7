"""The plain ending of a search: the last request, when nothing it takes changes what else it could take.

Without counters, shares, errors and `distinctAttribute`, the devices that first fit would end with
can be read off the masks. The same answer as the search, without its steps.
"""

from collections.abc import Sequence

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.allocator.candidates import Candidates
from reconciler.allocator.state import Board, Choice, State, viable


def immediate(offers: Sequence[Sequence[Candidates]]) -> Choice | None:
    """The first device there is, where one device for one request is all that is wanted. None: search."""
    if len(offers) != 1 or len(offers[0]) != 1:
        return None
    (candidates,) = offers[0]
    if candidates.count != 1 or candidates.listed is not None or candidates.offer.fails:
        return None
    if candidates.ask.constraints or not len(candidates.available):
        return None
    at = int(candidates.available.argmax())
    return Choice(0, candidates, at) if candidates.available[at] else None


def finish(board: Board, candidates: Candidates, state: State) -> Rows | None:
    """(count,) the devices the search would choose for the last request; empty if there are not enough.

    None if it takes a search to tell.
    """
    ask = candidates.ask
    constraints = [board.constraints[ask.claim][number] for number in ask.constraints]
    if len(constraints) > 1 or not all(c.match and c.plain for c in constraints):
        return None
    entangled = _entangled(board)
    if (candidates.offer.fails and candidates.fatal.any()) or (candidates.available & entangled).any():
        return None
    possible = viable(board, state, candidates)
    rows = np.flatnonzero(possible)
    if not constraints or state.constraints[ask.constraints[0]] is not None:
        # A value that earlier requests agreed on has narrowed the devices already.
        return rows[: candidates.count] if len(rows) >= candidates.count else rows[:0]
    return _first_with_enough(rows, constraints[0].codes[rows], candidates.count)


def _first_with_enough(rows: Rows, values: Codes, count: int) -> Rows:
    """The first `count` of `rows` (m,) that share a value, the value that comes first winning."""
    for at in range(len(rows) - count + 1):
        same = rows[at:][values[at:] == values[at]]
        if len(same) >= count:
            return same[:count]
    return rows[:0]


def _entangled(board: Board) -> Mask:
    """(n,) devices that draw, are shared or exclude others: taking one may change what else fits."""
    known: Mask | None = board.view.memo.get(_entangled)
    if known is None:
        drawing = (board.sets >= 0).any(axis=1) if board.sets.shape[1] else False
        excluding = board.sides.bound if board.sides is not None else False
        known = board.view.memo[_entangled] = board.shared | drawing | excluding
    return known
