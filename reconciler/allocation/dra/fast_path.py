"""The fast path of a search: the last request, where taking a device does not change what else fits.

Without counters, shares, errors and `distinctAttribute`, the masks give the devices that first fit would
choose. The answer is that of the search, without its steps.
"""

from collections.abc import Sequence

from kernels.types import Codes, Mask, Rows
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.request_options import MAX_RESULTS, ParsedClaims
from reconciler.allocation.dra.state import Choice, NodeProblem, State, constraint_on, viable
from reconciler.state.caches import Cache, share
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import View


def immediate(
    parsed: ParsedClaims, by_slot: Sequence[Sequence[Candidates]], view: View
) -> tuple[Choice, ...] | None:
    """What the search would choose for a single plain request; None if that needs a search, or nothing fits.

    Plain: no errors, and taking a device does not change what else fits. Of alternatives the first that can
    be met wins.
    """
    if len(by_slot) != 1:
        return None
    for candidates in by_slot[0]:
        found = _of_option(parsed, candidates, view)
        if found is None or found:
            return found
    return None


def _of_option(parsed: ParsedClaims, candidates: Candidates, view: View) -> tuple[Choice, ...] | None:
    """The same for one alternative; empty if it certainly cannot be met."""
    option, available = candidates.option, candidates.available
    count = candidates.count
    if candidates.listed is not None or candidates.static.fails or not 0 < count <= MAX_RESULTS:
        return None
    if count == 1 and not option.constraints:
        if not len(available):
            return ()
        if candidates.order is None:
            at = int(available.argmax())
        else:
            at = int(candidates.order[available[candidates.order].argmax()])
        return (Choice(0, candidates, at),) if available[at] else ()
    if available.tobytes().count(1) < count:  # half the time of a reduction
        return ()
    if len(option.constraints) > 1 or entangled(view) is not None:
        return None
    if option.constraints:
        source = parsed.claims[option.claim].spec.devices.constraints[option.constraints[0]]
        constraint = constraint_on(source, view)
        if not (constraint.match and constraint.plain):
            return None
        rows = candidates.in_order(available & constraint.allowed(None))
        rows = _first_with_enough(rows, constraint.codes[rows], count)
    else:
        rows = candidates.in_order(available)[:count]
    return tuple([Choice(0, candidates, at) for at in rows.tolist()])


def finish(problem: NodeProblem, candidates: Candidates, state: State) -> Rows | None:
    """(count,) the devices the search would choose for the last request; empty if there are too few.

    None if that needs a search.
    """
    option = candidates.option
    constraints = [problem.constraints[option.claim][number] for number in option.constraints]
    if len(constraints) > 1 or not all(c.match and c.plain for c in constraints):
        return None
    if candidates.static.fails and candidates.fatal.any():
        return None
    bound = entangled(problem.view)
    if bound is not None and (candidates.available & bound).any():
        return None
    possible = viable(problem, state, candidates)
    rows = candidates.in_order(possible)
    if not constraints or state.constraints[option.constraints[0]] is not None:
        # Earlier requests have fixed the value, so `rows` are narrowed already.
        return rows[: candidates.count] if len(rows) >= candidates.count else rows[:0]
    return _first_with_enough(rows, constraints[0].codes[rows], candidates.count)


def _first_with_enough(rows: Rows, values: Codes, count: int) -> Rows:
    """The first `count` of `rows` (m,) that share a value. The value that comes first wins."""
    listed = values.tolist()
    for value in dict.fromkeys(listed):
        if listed.count(value) >= count:
            return rows[values == value][:count]
    return rows[:0]


def entangled(view: View) -> Mask | None:
    """(n,) devices that draw from counters, are shared or exclude others: taking one changes what else fits.

    None if there are none.
    """
    return _ENTANGLED.of(view) if entangled_anywhere(view.fleet) else None


def entangled_anywhere(fleet: Fleet) -> bool:
    """Whether a fleet has such devices."""
    return _ENTANGLED_OF_FLEET.of(fleet) is not None


def _entangled(view: View) -> Mask | None:
    """The same, computed."""
    fleet_wide = _ENTANGLED_OF_FLEET.of(view.fleet)
    if fleet_wide is None:
        return None
    found = view.of(fleet_wide)
    return found if found.any() else None


def _entangled_of_fleet(fleet: Fleet) -> Mask | None:
    """(D,) the same for the whole fleet."""
    found: Mask = fleet.shared | (fleet.sets >= 0).any(axis=1)
    if fleet.exclusion is not None:
        found = found | fleet.exclusion.bound
    return found if found.any() else None


_ENTANGLED = Cache(_entangled)
_ENTANGLED_OF_FLEET = Cache(_entangled_of_fleet, on_fork=share)
