"""What was worked out lately is found again; memory stays bounded."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.state.devices.encoding.recent import OfObjects, Recent

SIZE = 4


@given(st.lists(st.integers(0, 12)))
def test_the_keys_used_last_are_known_and_never_many_more(keys):
    recent: Recent[int, str] = Recent(SIZE)
    for at, key in enumerate(keys):
        known = recent.get(key)
        assert known in (None, str(key))
        if key in keys[max(at - SIZE, 0) : at]:
            assert known is not None
        if known is None:
            recent.put(key, str(key))
        assert len(recent._young) + len(recent._old) <= 2 * SIZE


def test_equal_objects_are_told_apart():
    kept: OfObjects[list[int], str] = OfObjects(SIZE)
    one, other = [1], [1]
    kept.put(one, "one")
    assert kept.get(one) == "one"
    assert kept.get(other) is None


def test_an_object_is_kept_so_that_no_other_takes_its_place():
    kept: OfObjects[list[int], int] = OfObjects(SIZE)
    for number in range(100):
        thing = [number]
        assert kept.get(thing) is None
        kept.put(thing, number)
        del thing
