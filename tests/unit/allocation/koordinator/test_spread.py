"""Spreading over places: against trying everything, and against machines made to be slow."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from reconciler.plugins.koordinator.decision import Place, spread


def exhaustive(places: list[Place], need: int, wanted: tuple[int, ...]) -> list[int] | None:
    """The first of all ways, when earlier places give as much as they can."""
    for counts in product(*(range(place.things, -1, -1) for place in places)):
        used = [place for place, count in zip(places, counts, strict=True) if count]
        if sum(counts) != need or not all(all(place.beside) for place in used):
            continue
        if all(sum(place.beside[k] for place in used) >= least for k, least in enumerate(wanted)):
            return list(counts)
    return None


@given(st.data())
def test_it_finds_the_first_way_there_is(data: st.DataObject):
    kinds = data.draw(st.integers(0, 2))
    small = st.lists(st.integers(0, 3), min_size=kinds, max_size=kinds).map(tuple)
    places = data.draw(st.lists(st.builds(Place, st.integers(0, 3), small), max_size=5))
    need = data.draw(st.integers(1, 6))
    wanted = tuple(data.draw(small))
    assert spread(places, need, wanted) == exhaustive(places, need, wanted)


def test_many_places_that_lead_nowhere_are_no_trap():
    places = [Place(1, (1,))] * 2000
    assert spread(places, 5, (6,)) is None
    assert spread([*places, Place(1, (2,))], 5, (6,)) == [*([1] * 4), *([0] * 1996), 1]
