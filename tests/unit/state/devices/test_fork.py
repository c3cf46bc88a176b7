"""A fork starts equal to its origin; afterwards both change independently."""

import numpy as np
import pytest
from hypothesis import given

from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.errors import Inconsistent
from reconciler.state.store import Store
from reconciler.state.trial import Forked, store_of
from tests.tools.allocation_strategies import EVERYTHING, worlds
from tests.tools.allocation_world import STEPS, World, picks
from tests.tools.builders import (
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
    typed,
)
from tests.tools.examples import examples


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


def test_a_fork_has_the_retained_draws():
    def gpu(drawn: int) -> list[Object]:
        content = [device("A", draws={"g": {"memory": drawn}})]
        return [
            resource_slice("s", content, slices=2, nodeName="n"),
            counter_slice("t", {"g": {"memory": 10}}, slices=2, nodeName="n"),
        ]

    store = filled(node("n"), device_class(), *gpu(5), held("h", hold("A")), *gpu(1))
    fork = Forked.fork_of(store).store()
    left = store.snapshot().occupancy.left
    assert np.array_equal(fork.snapshot().occupancy.left, left)
    fork.apply(Removed("ResourceClaim", ObjectKey("default", "h")))
    assert not np.array_equal(fork.snapshot().occupancy.left, left)
    assert np.array_equal(store.snapshot().occupancy.left, left)


def test_devices_of_a_fork_cannot_change():
    fork = Forked.fork_of(filled(node("n"))).store()
    with pytest.raises(Inconsistent):
        fork.apply(Changed("ResourceSlice", typed(resource_slice("s", devices("A"), nodeName="n"))))
