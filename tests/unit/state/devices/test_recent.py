"""Recent values are cached, and memory is bounded."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.state.devices.encoding.recent import OfObjects, Recent

SIZE = 4


@given(st.lists(st.integers(0, 12)))
def test_the_last_keys_are_cached_and_the_size_is_bounded(keys):
    recent: Recent[int, str] = Recent(SIZE)
    for at, key in enumerate(keys):
        known = recent.get(key)
        assert known in (None, str(key))
        if key in keys[max(at - SIZE, 0) : at]:
            assert known is not None
        if known is None:
            recent.put(key, str(key))
        assert len(recent._young) + len(recent._old) <= 2 * SIZE


def test_equal_objects_are_distinguished():
    kept: OfObjects[list[int], str] = OfObjects(SIZE)
    one, other = [1], [1]
    kept.put(one, "one")
    assert kept.get(one) == "one"
    assert kept.get(other) is None


def test_a_cached_object_is_kept_alive():
    kept: OfObjects[list[int], int] = OfObjects(SIZE)
    for number in range(100):
        thing = [number]
        assert kept.get(thing) is None
        kept.put(thing, number)
        del thing
