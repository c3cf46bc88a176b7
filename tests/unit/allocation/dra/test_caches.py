"""Caches of a snapshot belong to it: forks and threads do not share them, and they are freed with it."""

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from weakref import ref

from hypothesis import given

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.availability import Available, available
from reconciler.allocation.dra.request_options import RequestOption, read_claims
from reconciler.allocation.dra.selector_masks import evaluate_all_selectors, evaluate_selectors
from reconciler.allocation.dra.static_match import match_in_fleet
from reconciler.analysis.explain.explain import explain
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Unsatisfied
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from reconciler.state.trial import Forked
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
    match,
    node,
    request,
    resource_slice,
    selectors,
    store,
    typed,
)
from tests.tools.examples import examples

NODES = ("n1", "n2")


def pools() -> list[Object]:
    """Two nodes with two devices each."""
    slices = [resource_slice(f"s-{n}", devices(f"{n}-A", f"{n}-B"), pool=n, nodeName=n) for n in NODES]
    return [*map(node, NODES), device_class(), *slices]


def asking(name: str, *requests: Object, constraints: list[Object] | None = None) -> ResourceClaim:
    found = typed(claim(name, *(requests or (request(),)), constraints=constraints or []))
    assert isinstance(found, ResourceClaim)
    return found


def option_of(one: ResourceClaim, world: Snapshot) -> RequestOption:
    return read_claims([one], world.classes, world.rules).slots[0].options[0]


def counts(world: Snapshot) -> Available:
    """The counts for a plain request."""
    return available(option_of(asking("c"), world), world)


def answer(claims: list[ResourceClaim], world: Snapshot) -> object:
    found = allocate(claims, world, steps=STEPS)
    return picks(found.plans) if isinstance(found, Granted) else (found.reason, found.nodes)


def test_a_fork_of_the_same_holds_has_counts_and_views_of_its_own():
    """Each thread updates its counts on its own."""
    world = store(*pools()).snapshot()
    counted, view = counts(world), world.topology.view("n1")
    fork = world.fork()
    assert counts(fork) is not counted
    assert fork.topology.view("n1") is not view
    assert (view.fleet is world.fleet, fork.topology.view("n1").fleet is fork.fleet) == (True, True)
    assert (counts(world) is counted, world.topology.view("n1") is view) == (True, True)


def test_a_fork_starts_with_what_is_known_of_the_devices_and_keeps_to_itself_what_it_adds():
    picture = store(*pools())
    world = picture.snapshot()
    known = option_of(asking("c"), world)
    seen, static = evaluate_selectors(known, world.fleet), match_in_fleet(known, world)
    one, other = (Forked.fork_of(picture).store().snapshot() for _ in range(2))
    assert evaluate_selectors(known, one.fleet) is evaluate_selectors(known, other.fleet) is seen
    assert match_in_fleet(known, one) is match_in_fleet(known, other) is static

    asked = asking("c", request("r", selectors=selectors("device.driver == 'd'")))
    for derive in (lambda option, seen: evaluate_selectors(option, seen.fleet), match_in_fleet):
        new = [derive(option_of(asked, seen), seen) for seen in (one, other, world)]
        assert len({id(value) for value in new}) == 3


@examples(60)
@given(worlds(features=EVERYTHING))
def test_forks_used_by_turns_answer_as_pictures_made_afresh(world: World):
    supply = (*world.nodes, *world.classes, *world.slices, *world.taint_rules)
    full, empty = store(*supply, *world.held, rules=world.rules), store(*supply, rules=world.rules)
    answer(world.wanted(), full.snapshot())
    one, other = Forked.fork_of(full).store(), Forked.fork_of(full).store()
    for taken in world.held:
        other.apply(Removed(taken["kind"], typed(taken).key))
    for _ in range(2):
        for fork, fresh in ((one, full), (other, empty)):
            expected = answer(world.wanted(), store_again(fresh, world).snapshot())
            assert answer(world.wanted(), fork.snapshot()) == expected


def store_again(picture: Store, world: World) -> Store:
    """The same objects in a new store without decisions."""
    supply = (*world.nodes, *world.classes, *world.slices, *world.taint_rules)
    return store(*supply, *(world.held if picture.claims else ()), rules=world.rules)


@contextmanager
def hurried() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_threads_on_forks_answer_as_if_they_were_alone():
    """As the loop does while a long search runs: both derive from the same devices at the same time."""
    picture = store(*pools())
    claims = [
        [asking("c", request("r", count, selectors=selectors(f"device.driver == 'd' || {number} == 0")))]
        for number in range(1, 30)
        for count in (1, 2, 3)
    ]
    expected = [answer(one, store(*pools()).snapshot()) for one in claims]

    def decide(world: Snapshot) -> list[object]:
        return [answer(one, world) for one in claims]

    world = picture.snapshot()
    with hurried(), ThreadPoolExecutor(3) as threads:
        others = [threads.submit(decide, world.fork()) for _ in range(2)]
        warmed = threads.submit(lambda: [evaluate_all_selectors(one, world, lambda: True) for one in claims])
        assert decide(world) == expected
        assert [other.result(timeout=60) for other in others] == [expected, expected]
        assert all(warmed.result(timeout=60))


def test_an_old_fleet_and_what_was_derived_from_it_are_freed():
    """Without the garbage collector: a controller freezes its objects, so it never visits them again."""
    gpus = [device(name, {"d/numa": 1}, draws={"g": {"memory": 1}}) for name in ("A", "B")]
    counters = counter_slice("t", {"g": {"memory": 2}}, slices=2, nodeName="n")
    picture = store(node("n"), device_class(), counters, resource_slice("s", gpus, slices=2, nodeName="n"))
    pair = asking("c", request("r", 2), constraints=[match("d/numa")])
    gc.collect()
    gc.disable()
    try:
        assert isinstance(allocate([pair], picture.snapshot()), Granted)
        picture.apply(Changed("ResourceClaim", typed(held("h", hold("A")))))
        world = picture.snapshot()
        assert isinstance(allocate([pair], world), Unsatisfied)
        assert not explain([pair], world).allocatable
        fork = world.fork()
        assert isinstance(allocate([asking("one")], fork), Granted)
        old = [ref(owner) for seen in (world, fork) for owner in (seen.fleet, seen.topology)]
        mask = ref(match_in_fleet(option_of(pair, world), world).matching)
        del world, fork
        assert [one() is None for one in old] == [False, False, True, True]
        assert mask() is not None
        picture.apply(Removed("ResourceSlice", typed(counters).key))
        picture.snapshot()
        assert [one() for one in old] == [None] * 4
        assert mask() is None
    finally:
        gc.enable()
