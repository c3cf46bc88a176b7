"""How many things to take from each of several places, when what stands beside them counts, too."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    """Things that can be taken here, and what taking any of them opens up."""

    things: int
    beside: tuple[int, ...]
    """How much of each further kind stands here."""


class _State(NamedTuple):
    """What is still to be found from one place on."""

    at: int
    left: int
    missing: tuple[int, ...]


def spread(places: Sequence[Place], need: int, wanted: tuple[int, ...]) -> list[int] | None:
    """How many things to take from each place, or None if it cannot be done.

    Together `need` things, from places where something of each further kind stands, and where together
    at least `wanted` of each stands. Earlier places give as much as they can; if that leads nowhere, the
    next way is tried. No state is tried twice, so it ends after places x need x wanted steps.
    """
    if sum(place.things for place in places) < need:
        return None
    start = _State(0, need, wanted)
    tried = {start}
    # A stack of its own: a machine may have more places than Python has frames.
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
    """How many things the next place could give, the most first."""
    if state.at == len(places):
        return iter(())
    place = places[state.at]
    return iter(range(min(place.things, state.left) if all(place.beside) else 0, -1, -1))


def _after(place: Place, state: _State, count: int) -> _State:
    missing = state.missing
    if count:
        missing = tuple(max(m - b, 0) for m, b in zip(missing, place.beside, strict=True))
    return _State(state.at + 1, state.left - count, missing)
