"""What pods hold: added, replaced, released."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.holdings import Grant, Holdings
from reconciler.plugins.koordinator.objects import VirtualFunction

VFS = st.lists(st.sampled_from("xy").map(lambda bus: VirtualFunction(minor=0, busID=bus)), max_size=2)
GRANTS = st.builds(
    Grant,
    st.integers(0, 2),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 5)),
    VFS.map(tuple),
)
ALLOCATIONS = st.dictionaries(st.sampled_from(["gpu", "rdma"]), st.lists(GRANTS, max_size=3).map(tuple))
STEPS = st.lists(st.tuples(st.integers(0, 3), st.none() | ALLOCATIONS))


def key(number: int) -> ObjectKey:
    return ObjectKey("default", str(number))


@given(STEPS)
def test_any_history_leaves_only_its_final_holds(
    steps: list[tuple[int, dict[str, tuple[Grant, ...]] | None]],
):
    played = Holdings()
    last: dict[int, dict[str, tuple[Grant, ...]]] = {}
    for number, allocation in steps:
        last.pop(number, None)
        if allocation is None:
            played.release(key(number))
        else:
            played.hold(key(number), allocation, {})
            last[number] = allocation
        if number:  # a state that was asked for in between
            played.state()
    fresh = Holdings()
    for number, allocation in last.items():
        fresh.hold(key(number), allocation, {})
    assert {k: v for k, v in played.used.items() if v} == {k: v for k, v in fresh.used.items() if v}
    assert played.state() == fresh.state()
    for kind in ("gpu", "rdma"):
        assert played.held(kind) == fresh.held(kind)
        for minor in range(3):
            assert [played.vf_taken(kind, minor, bus) for bus in "xy"] == [
                fresh.vf_taken(kind, minor, bus) for bus in "xy"
            ]


def test_holds_of_zero_use_nothing():
    found = Holdings()
    found.hold(key(1), {"gpu": (Grant(0, {"a": 0}),)}, {})
    assert found.used == {"gpu": {}}
    assert found.held("gpu") == {0}
