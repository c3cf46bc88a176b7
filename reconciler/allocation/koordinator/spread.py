"""Distributes a number of devices over places, where each place also has companion devices of other types."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """Devices at one place, and the companions that become usable if any of the devices is taken."""

    things: int
    beside: tuple[int, ...]
    """Number of companions here, by further type."""


class _State(NamedTuple):
    """The remaining need from place number `at` on."""

    at: int
    left: int
    missing: tuple[int, ...]


def spread(places: Sequence[Place], need: int, wanted: tuple[int, ...]) -> list[int] | None:
    """The number of devices to take from each place, or None if there is no solution.

    The numbers add up to `need`. Each used place has a companion of every further type, and all used places
    together have at least `wanted` companions of each type. Earlier places are filled first, with
    backtracking. No state is tried twice, so it ends after places x need x wanted steps.
    """
    if sum(place.things for place in places) < need:
        return None
    start = _State(0, need, wanted)
    tried = {start}
    # An explicit stack: a machine may have more places than the recursion limit.
    stack = [(start, _counts(places, start))]
    taken: list[int] = []
    while stack:
        state, counts = stack[-1]
        if state.at == len(places):
            if state.left == 0 and not any(state.missing):
                return taken
            count = None
        else:
            count = next(counts, None)
        if count is None:
            stack.pop()
            if taken:
                taken.pop()
            continue
        after = _after(places[state.at], state, count)
        if after not in tried:
            tried.add(after)
            taken.append(count)
            stack.append((after, _counts(places, after)))
    return None


def _counts(places: Sequence[Place], state: _State) -> Iterator[int]:
    """Possible numbers of devices from the next place, the largest first."""
    if state.at == len(places):
        return iter(())
    place = places[state.at]
    return iter(range(min(place.things, state.left) if all(place.beside) else 0, -1, -1))


def _after(place: Place, state: _State, count: int) -> _State:
    missing = state.missing
    if count:
        missing = tuple(max(m - b, 0) for m, b in zip(missing, place.beside, strict=True))
    return _State(state.at + 1, state.left - count, missing)
