"""What is tried is undone exactly: devices, counters, room, ports and affinity of pods."""

from threading import Barrier, Thread
from typing import Any
from weakref import ref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.changes import Change, Changed
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.state.caches import Cache, Caches, share
from reconciler.state.nodes.room import demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from reconciler.state.trial import Forked, Trial, load, store_of
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
    store,
    typed,
)
from tests.tools.examples import examples
from tests.tools.scenario import asking, machine, sized
from tests.tools.store_picture import picture as store_picture

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def supply(name: str, count: int = 3, counter: int = 30) -> list[Object]:
    """A node's pool: parts that draw 10 each from one counter."""
    parts = [device(f"part-{n}", draws={"card": {"memory": 10}}) for n in range(count)]
    place: Object = {"pool": name, "slices": 2, "nodeName": name}
    return [
        counter_slice(f"{name}-counters", {"card": {"memory": counter}}, **place),
        resource_slice(f"{name}-parts", parts, **place),
    ]


def part(name: str, on: str, number: int) -> Object:
    return held(name, hold(f"part-{number}", pool=on))


def world() -> tuple[Store, Nodes]:
    """Two nodes; one part of each is held, and a pod runs on the first."""
    machines = [sized(machine(name), cpu="4") for name in ("a", "b")]
    known = store(device_class(), *machines, *supply("a"), *supply("b"), part("x", "a", 0), part("y", "b", 1))
    nodes = Nodes()
    for one in machines:
        nodes.note(Changed("Node", Node.model_validate(one)))
    resident = pod("resident", nodeName="a", affinity=APART)
    nodes.host(resident.key, resident, "a", demand(resident))
    return known, nodes


def pod(name: str, **spec: Any) -> Pod:
    made = asking(name, cpu="1", **spec)
    made["metadata"]["labels"] = {"app": "x"}
    return Pod.model_validate(made)


def picture(known: Store, nodes: Nodes) -> list[Any]:
    """Everything that decisions read."""
    occupancy = known.snapshot().occupancy
    columns = [getattr(occupancy, name).tolist() for name in ("held", "sharing", "left", "fits", "free")]
    newcomer = pod("newcomer", affinity=APART)
    placement, snapshot = Placement(nodes, supposed=True), known.snapshot()
    choice = placement.for_pod(newcomer, (), snapshot).nodes
    return [
        *columns,
        sorted(plan.uid for plan in known.assumptions),
        nodes.room.free(frozenset(), but=()).tolist(),
        choice and choice.mask.tolist(),
        nodes.residents.nominated(newcomer),
        placement.left_out(newcomer, (), snapshot),
    ]


def act(trial: Trial, number: int, name: str, at: str) -> None:
    """One of the things that a trial can do."""
    match name:
        case "place":
            wanted = typed(claim(f"new-{number}", request()))
            outcome = allocate([wanted], trial.snapshot, nodes=[at])  # type: ignore[list-item]
            if isinstance(outcome, Granted):
                trial.place(outcome.plans, pod(f"new-{number}", affinity=APART), outcome.node)
        case "release":
            trial.release("uid-x" if at == "a" else "uid-y")
        case "remove":
            trial.remove(ObjectKey("default", "resident"))
        case "move":
            trial.host(pod("resident"), at)


ACTS = st.lists(
    st.tuples(st.sampled_from(["place", "release", "remove", "move"]), st.sampled_from("ab")), max_size=6
)


@examples(60)
@given(ACTS, ACTS, st.booleans())
def test_undoing_leaves_nothing_behind(before: Any, after: Any, forked: bool):
    known, nodes = world()
    if forked:
        known, nodes = Forked.fork_of(known).store(), nodes.fork()
    begun = picture(known, nodes)
    with Trial(known, nodes, supposed=True) as trial:
        for number, (name, at) in enumerate(before):
            act(trial, number, name, at)
        middle, mark = picture(known, nodes), trial.mark()
        for number, (name, at) in enumerate(after):
            act(trial, 10 + number, name, at)
        trial.back_to(mark)
        assert picture(known, nodes) == middle
    assert picture(known, nodes) == begun


@examples(40)
@given(ACTS)
def test_a_fork_of_the_nodes_and_its_origin_do_not_mix(acts: Any):
    known, nodes = world()
    apart, theirs = Forked.fork_of(known).store(), nodes.fork()
    begun = picture(known, nodes)
    assert picture(apart, theirs) == begun
    with Trial(known, nodes, supposed=True) as trial:
        for number, (name, at) in enumerate(acts):
            act(trial, number, name, at)
        assert picture(apart, theirs) == begun
        after = picture(known, nodes)
        with Trial(apart, theirs, supposed=True) as other:
            for number, (name, at) in enumerate(acts):
                act(other, number, name, at)
            assert picture(apart, theirs) == after
            assert picture(known, nodes) == after


def test_what_is_kept_stays():
    known, nodes = world()
    with Trial(known, nodes, supposed=True) as trial:
        act(trial, 0, "place", "b")
        trial.keep()
        act(trial, 1, "place", "b")
    assert [plan.claim.name for plan in known.assumptions] == ["new-0"]
    assert nodes.room.charged(ObjectKey("default", "new-0")) is not None
    assert nodes.room.charged(ObjectKey("default", "new-1")) is None


def test_a_released_device_that_drew_more_before_is_charged_again():
    """The slices say 10 now; the claim was allocated when the device drew 25."""
    known, nodes = world()
    dear = [device("part-0", draws={"card": {"memory": 25}})]
    cheap = [device(f"part-{n}", draws={"card": {"memory": 10}}) for n in range(3)]
    for parts in (dear, cheap):
        changed = resource_slice("a-parts", parts, pool="a", slices=2, nodeName="a")
        known.apply(Changed("ResourceSlice", typed(changed)))
        known.snapshot()
    left = known.snapshot().occupancy.left.copy()
    with Trial(known, nodes, supposed=True) as trial:
        trial.release("uid-x")
        assert not np.array_equal(trial.snapshot.occupancy.left, left)
    assert np.array_equal(known.snapshot().occupancy.left, left)


def test_a_nominated_pod_keeps_its_place_after_the_trial():
    known, nodes = world()
    raw = asking("chosen", cpu="4", schedulingGates=[])
    raw["status"] = {"nominatedNodeName": "b"}
    chosen = Pod.model_validate(raw)
    nodes.residents.nominate(chosen.key, chosen)
    begun = picture(known, nodes)
    with Trial(known, nodes, supposed=True) as trial:
        trial.remove(chosen.key)
        assert picture(known, nodes) != begun
    assert picture(known, nodes) == begun


@pytest.mark.parametrize("wanted", [1, 3, 4])
def test_one_row_has_room_if_the_mask_says_so(wanted: int):
    _, nodes = world()
    takes = {"cpu": wanted * 1000, "pods": 1, "example.com/nic": wanted - 3 if wanted > 3 else 0}
    takes = {name: amount for name, amount in takes.items() if amount}
    for waived in (frozenset[str](), frozenset(["example.com/nic"])):
        mask = nodes.room.fits(takes, waived, but=())
        assert [nodes.room.holds(row, takes, waived) for row in range(2)] == mask.tolist()


WORLD: list[Object] = [
    node("n"),
    device_class(),
    resource_slice("s", devices("A", "B"), nodeName="n"),
    held("c", hold("A")),
]


def test_loading_equals_applying_each_object():
    store = Store(Semantics())
    for raw in WORLD:
        store.apply(Changed(raw["kind"], typed(raw)))
    found = store_picture(store_of(map(typed, WORLD), Semantics()).snapshot())
    assert found == store_picture(store.snapshot())


def test_objects_are_loaded_in_order_and_a_later_one_replaces_its_namesake():
    class Recorder:
        def __init__(self) -> None:
            self.changes: list[Change] = []

        def apply(self, change: Change) -> None:
            self.changes.append(change)

    recorder = Recorder()
    first, second = typed(node("n", zone="a")), typed(node("n", zone="b"))
    load(recorder, iter((first, second)))
    assert recorder.changes == [Changed("Node", first), Changed("Node", second)]
    nodes = store_of((first, second), Semantics()).snapshot().topology.nodes
    assert dict(nodes["n"].labels)["zone"] == "b"


# -- Derived values live as long as their owner, and forks have their own.


class Owner:
    """An owner of derived values."""

    def __init__(self, caches: Caches | None = None) -> None:
        self.caches = caches or Caches()

    def fork(self) -> "Owner":
        return Owner(self.caches.fork())


class Value:
    """A value that supports weak references."""


def test_a_value_is_derived_once_for_each_owner():
    derived: list[Owner] = []

    def derive(owner: Owner) -> None:
        """None is a value too."""
        derived.append(owner)

    cache = Cache(derive)
    one, other = Owner(), Owner()
    for owner in (one, other, one, other):
        assert cache.of(owner) is None
    assert derived == [one, other]


def test_caches_of_the_same_owner_are_separate():
    words: Cache[Owner, str] = Cache(lambda _: "word")
    numbers: Cache[Owner, int] = Cache(lambda _: 1)
    owner = Owner()
    assert (words.of(owner), numbers.of(owner), words.of(owner)) == ("word", 1, "word")


def test_each_cache_says_what_a_fork_starts_with():
    fixed: Cache[Owner, Value] = Cache(lambda _: Value(), on_fork=share)
    known: Cache[Owner, dict[str, int]] = Cache(lambda _: {}, on_fork=dict.copy)
    followed: Cache[Owner, dict[str, int]] = Cache(lambda _: {})
    owner = Owner()
    value = fixed.of(owner)
    known.of(owner)["a"] = followed.of(owner)["a"] = 1
    fork = owner.fork()
    assert fixed.of(fork) is value
    assert (known.of(fork), followed.of(fork)) == ({"a": 1}, {})


def test_two_forks_and_their_origin_do_not_see_what_the_others_add():
    known: Cache[Owner, dict[str, int]] = Cache(lambda _: {}, on_fork=dict.copy)
    late: Cache[Owner, Value] = Cache(lambda _: Value(), on_fork=share)
    owner = Owner()
    known.of(owner)["before"] = 0
    one, other = owner.fork(), owner.fork()
    known.of(one)["one"], known.of(other)["other"], known.of(owner)["owner"] = 1, 2, 3
    assert known.of(one) == {"before": 0, "one": 1}
    assert known.of(other) == {"before": 0, "other": 2}
    assert known.of(owner) == {"before": 0, "owner": 3}
    assert len({late.of(one), late.of(other), late.of(owner)}) == 3


def test_values_are_freed_with_their_owner():
    """Without the garbage collector: a controller freezes its objects, and the collector skips them."""
    cache: Cache[Owner, Value] = Cache(lambda _: Value())
    owner = Owner()
    value = ref(cache.of(owner))
    assert value() is not None
    del owner
    assert value() is None


def test_threads_that_derive_a_value_at_once_get_the_same():
    both = Barrier(2, timeout=60)

    def derive(_: Owner) -> Value:
        both.wait()  # neither has stored its value
        return Value()

    cache, owner, found = Cache(derive), Owner(), list[Value]()
    threads = [Thread(target=lambda: found.append(cache.of(owner))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0] is found[1] is cache.of(owner)


def test_caches_can_be_forked_while_another_thread_adds_to_them():
    owner = Owner()

    def add(value: int) -> int:
        """As another thread would do at the worst moment."""
        another.append(Cache(lambda _: 0))
        another[-1].of(owner)
        return value

    another: list[Cache[Owner, int]] = []
    cache: Cache[Owner, int] = Cache(lambda _: 1, on_fork=add)
    cache.of(owner)
    assert cache.of(owner.fork()) == 1
