"""Recent values are cached, and memory is bounded."""

import weakref
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.errors import Inconsistent
from reconciler.state.caches import OfObjects, Recent
from reconciler.state.devices.snapshot import still_valid
from reconciler.state.store import Store
from reconciler.state.trial import Forked, load, store_of
from tests.tools.allocation_strategies import EVERYTHING, worlds
from tests.tools.allocation_world import STEPS, World, picks
from tests.tools.builders import (
    DRIVER,
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    devices,
    held,
    hold,
    node,
    request,
    resource_slice,
    store,
    taint,
    taint_rule,
    typed,
)
from tests.tools.examples import examples

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
    assert kept.of(one, lambda: "one") == "one"
    assert kept.of(one, lambda: "again") == "one"
    assert kept.of(other, lambda: "other") == "other"


def test_a_cached_object_is_kept_alive():
    kept: OfObjects[list[int], int] = OfObjects(SIZE)
    for number in range(100):
        thing = [number]
        assert kept.of(thing, partial(int, number)) == number
        del thing


# -- Snapshots: forks of them, and decisions that stay valid on later ones.


CHOSEN = DeviceID(DRIVER, "p", "a")


def drawing(name: str, counters: str) -> Object:
    return device(name, draws={counters: {"m": "1"}})


def partitioned(name: str, *devices: Object, pool: str = "p", on: str = "n") -> Object:
    return resource_slice(name, list(devices), pool=pool, nodeName=on, slices=2)


SLICE = partitioned("s", drawing("a", "g"), drawing("beside", "g"), drawing("apart", "h"))
COUNTERS = counter_slice("counters", {"g": {"m": "4"}, "h": {"m": "4"}}, pool="p", slices=2, nodeName="n")
OTHER = resource_slice("t", [device("x")], pool="q", nodeName="n")


def fresh_store() -> Store:
    return store(node("n"), device_class(), SLICE, COUNTERS, OTHER)


def after(*changes: Object, whole: bool = False) -> bool:
    """Whether the choice of one device is still valid after some changes."""
    state = fresh_store()
    before = state.snapshot()
    load(state, map(typed, changes))
    return still_valid("n", [CHOSEN], before, state.snapshot(), whole=whole)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([], id="nothing"),
        pytest.param([held("c", hold("apart"))], id="a device of another counter set was taken"),
        pytest.param([held("c", hold("x", pool="q"))], id="a device of another pool was taken"),
        pytest.param([resource_slice("t", [device("y")], pool="q", nodeName="n")], id="another pool changed"),
        pytest.param(
            [resource_slice("0", [device("y")], pool="0", nodeName="n")], id="a pool came before it"
        ),
        pytest.param([node("m")], id="there is another node"),
    ],
)
def test_a_choice_stays_valid_while_its_inputs_are_unchanged(changes: list[Object]):
    assert after(*changes)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(held("c", hold("a")), id="the device was taken"),
        pytest.param(held("c", hold("beside")), id="its counter set was drawn from"),
        pytest.param(partitioned("s", drawing("a", "g")), id="its slice is another"),
        pytest.param(node("n", zone="z"), id="the node is labelled otherwise"),
        pytest.param(device_class("other"), id="there is another class"),
        pytest.param(taint_rule("r", {"device": "a"}, taint("k")), id="a rule taints it"),
    ],
)
def test_a_choice_is_invalid_when_an_input_changes(change: Object):
    assert not after(change)


def test_a_request_for_all_devices_needs_unchanged_slices():
    other = resource_slice("t", [device("y")], pool="q", nodeName="n")
    assert not after(other, whole=True)
    assert after(held("c", hold("x", pool="q")), whole=True)


def test_a_device_that_was_taken_and_freed_again_is_valid():
    state = fresh_store()
    before = state.snapshot()
    state.apply(Changed("ResourceClaim", typed(held("c", hold("a")))))
    assert not still_valid("n", [CHOSEN], before, state.snapshot())
    freed = {**held("c"), "status": {}}
    state.apply(Changed("ResourceClaim", typed(freed)))
    assert still_valid("n", [CHOSEN], before, state.snapshot())


def filled(*raw: Object, rules: Semantics | None = None) -> Store:
    return store_of(map(typed, raw), rules or Semantics())


@examples(40)
@given(worlds(features=EVERYTHING))
def test_a_fork_decides_like_its_origin(world: World):
    store = filled(
        *world.nodes, *world.classes, *world.slices, *world.taint_rules, *world.held, rules=world.rules
    )
    fork = Forked.fork_of(store).store()
    ours, theirs = store.snapshot(), fork.snapshot()
    for column in ("held", "sharing", "left", "fits", "free"):
        assert np.array_equal(getattr(ours.occupancy, column), getattr(theirs.occupancy, column)), column
    assert ours.occupancy.consumed == theirs.occupancy.consumed
    answers = [allocate(world.wanted(), seen, steps=STEPS) for seen in (ours, theirs)]
    assert type(answers[0]) is type(answers[1])
    if isinstance(answers[0], Granted) and isinstance(answers[1], Granted):
        assert picks(answers[0].plans) == picks(answers[1].plans)


@examples(40)
@given(worlds(features=EVERYTHING))
def test_changes_of_a_fork_and_of_its_origin_do_not_mix(world: World):
    """Every second claim is removed from one side, the others from the other."""
    supply = (*world.nodes, *world.classes, *world.slices, *world.taint_rules)
    store = filled(*supply, *world.held, rules=world.rules)
    fork = Forked.fork_of(store).store()
    kept: list[list[Object]] = [[], []]
    for number, raw in enumerate(world.held):
        side = number % 2
        (store, fork)[side].apply(Removed("ResourceClaim", typed(raw).key))
        kept[1 - side].append(raw)
    for changed, left in zip((store, fork), kept, strict=True):
        seen, anew = changed.snapshot(), filled(*supply, *left, rules=world.rules).snapshot()
        for column in ("held", "sharing", "left", "fits", "free"):
            assert np.array_equal(getattr(seen.occupancy, column), getattr(anew.occupancy, column)), column
        assert seen.occupancy.consumed == anew.occupancy.consumed


def test_a_fork_and_its_origin_change_independently():
    slices = resource_slice("s", devices("A", "B", "C"), nodeName="n")
    store = filled(node("n"), device_class(), slices, held("h", hold("A")), claim("c", request()))
    asked = store.claims[ObjectKey("default", "c")]
    answer = allocate([asked], store.snapshot())
    assert isinstance(answer, Granted)
    store.assume(answer.plans[0])
    fork = Forked.fork_of(store).store()
    assert fork.snapshot().occupancy.held.tolist() == [True, True, False]
    fork.apply(Removed("ResourceClaim", ObjectKey("default", "c")))
    fork.apply(Removed("Node", ObjectKey("", "n")))
    store.apply(Removed("ResourceClaim", ObjectKey("default", "h")))
    assert fork.snapshot().occupancy.held.tolist() == [True, False, False]
    assert store.snapshot().occupancy.held.tolist() == [False, True, False]
    assert (list(store.snapshot().topology.nodes), list(fork.snapshot().topology.nodes)) == (["n"], [])


def test_devices_of_a_fork_cannot_change():
    fork = Forked.fork_of(filled(node("n"))).store()
    with pytest.raises(Inconsistent):
        fork.apply(Changed("ResourceSlice", typed(resource_slice("s", devices("A"), nodeName="n"))))


def test_a_fork_is_freed_as_soon_as_nobody_has_it():
    """It has copies of all that is held: as circular garbage it would stay for minutes."""
    fork = Forked.fork_of(
        filled(node("n"), resource_slice("s", devices("A"), nodeName="n"), held("h", hold("A")))
    ).store()
    fork.apply(Removed("ResourceClaim", ObjectKey("default", "h")))
    gone = [weakref.ref(part) for part in (fork, fork.supply, fork.snapshot().topology)]
    del fork
    assert [part() for part in gone] == [None, None, None]
