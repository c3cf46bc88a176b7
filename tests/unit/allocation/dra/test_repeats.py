"""A claim that repeats gets what a decision of its own would give, whatever happened since the last one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra import repeats
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.copies import places
from reconciler.allocation.dra.repeats import repeated, repeated_together
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.state.devices.snapshot import NodeSubset, Snapshot
from reconciler.state.store import Store
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    match,
    node,
    request,
    resource_slice,
    selectors,
    store,
    typed,
)
from tests.tools.examples import examples

NODES = ("n1", "n2", "n3")
KIND = 'device.attributes["d"].kind == "{}"'


def machine(name: str, gpus: int) -> list[Object]:
    """GPUs, a card with partitions, and a NIC."""
    whole = [device(f"gpu-{n}", {"kind": "gpu", "numa": n % 2}) for n in range(gpus)]
    parts = [device(f"part-{n}", {"kind": "part"}, draws={"card": {"units": 1 + n % 2}}) for n in range(5)]
    where: Any = {"pool": f"parts-{name}", "nodeName": name}
    return [
        resource_slice(f"gpus-{name}", whole, pool=f"gpus-{name}", nodeName=name),
        resource_slice(f"parts-{name}", parts, slices=2, **where),
        counter_slice(f"card-{name}", {"card": {"units": 4}}, slices=2, **where),
        resource_slice(f"nic-{name}", [device("nic", {"kind": "nic"})], pool=f"x-{name}", nodeName=name),
    ]


def of_kind(name: str, kind: str, count: int = 1) -> Object:
    return request(name, count, selectors=selectors(KIND.format(kind)))


SPECS = [
    claim("c", of_kind("r", "gpu")),
    claim("c", of_kind("r", "gpu", 2), constraints=[match("d/numa", "r")]),
    claim("c", of_kind("r", "part")),
    claim("c", of_kind("r", "part"), of_kind("s", "nic")),
    claim("c", of_kind("r", "part", 2)),
]


class Asking:
    """A store, and claims that are decided in it."""

    def __init__(self, gpus: int = 3) -> None:
        slices = [made for name in NODES for made in machine(name, gpus)]
        self.store: Store = store(*map(node, NODES), device_class(), *slices)
        self.held: list[Plan] = []
        self.repeats = 0
        self._asked = 0

    def ask(self, spec: Object, nodes: tuple[str, ...] | None = None) -> Granted | None:
        """Decide one more claim, and compare with a decision that knows nothing of those before it."""
        seen = self.store.snapshot()
        among, one = subset(seen, nodes), self._claim(spec)
        alone = allocate([one], seen.fork(), nodes=nodes)
        found = repeated(one, seen, nodes=among)
        if found is not None:
            self.repeats += 1
            assert isinstance(alone, Granted)
            assert found.plans == alone.plans
        else:
            answer = allocate([one], seen, nodes=among)
            found = answer if isinstance(answer, Granted) else None
        return found

    def ask_together(
        self, spec: Object, count: int, nodes: tuple[str, ...] | None, room: tuple[int, ...] | None, used: int
    ) -> None:
        """Decide more claims in one pass, and compare each with a decision of its own after those before it.

        `room` is how many of them each node takes; the first `used` answers are used.
        """
        claims, seen = [self._claim(spec) for _ in range(count)], self.store.snapshot()
        limit = None if room is None else np.array(room)
        found = repeated_together(claims, seen, nodes=subset(seen, nodes), room=limit)
        left = dict(zip(NODES, room or [count] * len(NODES), strict=True))
        for one, granted in zip(claims, found[:used], strict=False):
            among = [name for name in nodes or NODES if left[name]]
            alone = allocate([one], self.store.snapshot().fork(), nodes=among)
            assert isinstance(alone, Granted)
            assert granted.plans == alone.plans
            left[granted.node] -= 1
            self.take(granted)

    def take(self, found: Granted | None) -> None:
        """Count the devices of an answer as held."""
        if found is not None:
            self.store.assume(found.plans[0])
            self.held.append(found.plans[0])

    def release(self, at: int) -> None:
        if self.held:
            self.store.forget(self.held.pop(at % len(self.held)))

    def _claim(self, spec: Object) -> ResourceClaim:
        self._asked += 1
        name = f"c{self._asked}"
        found = typed({**spec, "metadata": {**spec["metadata"], "name": name, "uid": name}})
        assert isinstance(found, ResourceClaim)
        return found


def subset(seen: Snapshot, nodes: tuple[str, ...] | None) -> NodeSubset | None:
    """Nodes by name; None for all."""
    order = seen.topology.order
    among = np.array([name in (nodes or ()) for name in order], dtype=np.bool_)
    return None if nodes is None else NodeSubset(order, among)


PASSES = st.tuples(
    st.integers(1, 7),
    st.sampled_from((None, None, NODES[1:], NODES[::2])),
    st.one_of(st.none(), st.tuples(*[st.integers(0, 3)] * len(NODES))),
    st.integers(0, 7),
)
EVENTS = st.one_of(
    st.tuples(st.just("together"), st.integers(0, len(SPECS) - 1), PASSES),
    st.tuples(
        st.just("ask"), st.integers(0, len(SPECS) - 1), st.sampled_from((None, None, NODES[1:], NODES[::2]))
    ),
    st.tuples(st.just("ask"), st.just(0), st.none()),
    st.tuples(st.just("ask and drop"), st.integers(0, 2), st.none()),
    st.tuples(st.just("release"), st.integers(0, 9), st.none()),
    st.tuples(st.just("slices"), st.integers(1, 5), st.none()),
    st.tuples(st.just("class"), st.integers(0, 1), st.none()),
)


@given(st.lists(EVENTS, min_size=10, max_size=40))
@examples(40)
def test_every_answer_is_that_of_a_decision_of_its_own(events: list[tuple[str, int, Any]]):
    asking = Asking()
    for what, number, among in events:
        match what:
            case "together":
                asking.ask_together(SPECS[number], *among)
            case "ask":
                asking.take(asking.ask(SPECS[number], among))
            case "ask and drop":
                asking.ask(SPECS[number])
            case "release":
                asking.release(number)
            case "slices":
                asking.store.apply(Changed("ResourceSlice", typed(machine("n1", number)[0])))
            case "class":
                expressions = [KIND.format("gpu")] if number else []
                asking.store.apply(Changed("DeviceClass", typed(device_class("any", *expressions))))


@pytest.mark.parametrize(("spec", "fit"), [*zip(SPECS[:4], (12, 6, 9, 3), strict=True)])
def test_copies_after_the_first_one_are_found_ahead(spec: Object, fit: int):
    asking = Asking(gpus=4)
    found = []
    while (granted := asking.ask(spec)) is not None:
        asking.take(granted)
        found.append(granted)
    assert len(found) == fit
    assert asking.repeats == fit - 1


@pytest.mark.parametrize("spec", SPECS[:4])
def test_the_claim_after_a_pass_is_answered_from_what_the_pass_found(spec: Object):
    asking = Asking(gpus=4)
    asking.ask_together(spec, 2, None, None, 2)
    asking.take(asking.ask(spec))
    assert asking.repeats == 1


def counting_passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many copies are asked for at once, each time that places are found ahead."""
    ahead: list[int] = []

    def counting(template: Any, snapshot: Any, most: int, **rest: Any) -> Any:
        ahead.append(most)
        return places(template, snapshot, most, **rest)

    monkeypatch.setattr(repeats, "places", counting)
    return ahead


def test_nothing_is_found_ahead_among_claims_of_other_specs(monkeypatch: pytest.MonkeyPatch):
    ahead = counting_passes(monkeypatch)
    asking = Asking(gpus=8)
    for number in range(12):
        found = asking.ask(SPECS[(0, 2)[number % 2]])
        assert found is not None
        asking.take(found)
    assert ahead == []


def test_after_passes_that_served_few_claims_ever_more_are_decided_alone(monkeypatch: pytest.MonkeyPatch):
    ahead = counting_passes(monkeypatch)
    asking = Asking(gpus=60)
    pair = claim("c", of_kind("r", "gpu", 2))
    for _ in range(12):
        for spec in (SPECS[0], SPECS[0], SPECS[0], pair):  # the pair takes what was found ahead
            asking.take(asking.ask(spec))
    assert len(ahead) <= 8


def test_claims_between_passes_do_not_find_ever_more_places_ahead(monkeypatch: pytest.MonkeyPatch):
    ahead = counting_passes(monkeypatch)
    asking = Asking(gpus=8)
    for _ in range(5):
        asking.ask_together(SPECS[0], 1, None, None, 1)
        for _ in range(2):
            asking.take(asking.ask(SPECS[0]))
    assert max(ahead) == 2 * repeats.FIRST


@pytest.mark.parametrize(("what", "next_device"), [("used", "n2 gpu-0"), ("unused", "n1 gpu-1")])
def test_what_a_pass_found_more_counts_only_if_all_its_answers_were_used(what: str, next_device: str):
    asking = Asking(gpus=4)
    asking.ask_together(SPECS[0], 4, None, None, 4 if what == "used" else 1)
    assert device_of(asking.ask(SPECS[0])) == next_device


def test_an_answer_of_a_pass_that_is_not_used_is_given_next():
    asking = Asking(gpus=4)
    found = repeated_together([asking._claim(SPECS[0]) for _ in range(4)], asking.store.snapshot())
    for granted in (found[0], found[2], found[3]):
        asking.take(granted)
    assert device_of(asking.ask(SPECS[0])) == "n1 gpu-1"


def test_a_node_that_had_no_room_in_a_pass_counts_again_when_it_has():
    asking = Asking(gpus=4)
    asking.ask(SPECS[0])  # runs the selectors
    asking.ask_together(SPECS[0], 3, NODES, (1, 9, 9), 3)
    assert device_of(asking.ask(SPECS[0], NODES)) == "n1 gpu-1"


def test_the_place_that_a_pass_keeps_is_given_where_every_node_has_room():
    asking = Asking(gpus=4)
    asking.ask(SPECS[0])  # runs the selectors
    asking.ask_together(SPECS[0], 3, None, (9, 9, 9), 3)
    before = asking.repeats
    assert device_of(asking.ask(SPECS[0])) == "n1 gpu-3"
    assert asking.repeats == before + 1


def test_a_released_device_is_given_before_those_that_were_found_ahead():
    asking = Asking()
    for _ in range(4):
        asking.take(asking.ask(SPECS[0]))
    asking.release(0)
    found = asking.ask(SPECS[0])
    assert found is not None
    assert found.plans[0].allocation.devices.results[0].device == "gpu-0"


def test_an_answer_that_nobody_used_is_given_again():
    asking = Asking()
    asking.take(asking.ask(SPECS[0]))
    dropped = asking.ask(SPECS[0])
    again = asking.ask(SPECS[0])
    assert dropped is not None
    assert again is not None
    assert again.plans[0].allocation == dropped.plans[0].allocation


def warmed_up(gpus: int) -> Asking:
    """Four GPUs of `n1` are held, and places for the next three claims are found."""
    asking = Asking(gpus)
    for _ in range(4):
        asking.take(asking.ask(SPECS[0]))
    assert asking.repeats == 3
    return asking


def device_of(found: Granted | None) -> str:
    assert found is not None
    return f"{found.node} {found.plans[0].allocation.devices.results[0].device}"


def test_a_node_without_room_is_skipped_and_used_again_by_those_who_may():
    asking = warmed_up(gpus=5)
    elsewhere = asking.ask(SPECS[0], NODES[1:])
    asking.take(elsewhere)
    back = asking.ask(SPECS[0])
    assert [device_of(elsewhere), device_of(back)] == ["n2 gpu-0", "n1 gpu-4"]


def test_a_device_that_another_claim_took_is_not_given_again():
    """Claims for pairs take what was found ahead for claims of one GPU."""
    asking = warmed_up(gpus=6)
    pair = asking.ask(claim("c", of_kind("r", "gpu", 2)))
    asking.take(pair)
    assert [device_of(pair), device_of(asking.ask(SPECS[0]))] == ["n1 gpu-4", "n2 gpu-0"]


def test_counters_that_others_freed_and_took_since_are_judged_anew():
    """`d2` did not fit after `d1`. Now it does, and comes before `d3`, which was found ahead."""
    draws = {"d0": 6, "d1": 2, "d2": 3, "d3": 2}
    made = [device(name, {"kind": "part"}, draws={"card": {"units": units}}) for name, units in draws.items()]
    made.append(device("x", {"kind": "x"}, draws={"card": {"units": 5}}))
    where: Any = {"pool": "one", "nodeName": "n0", "slices": 2}
    asking = Asking()
    for raw in (
        node("n0"),
        resource_slice("one", made, **where),
        counter_slice("card", {"card": {"units": 10}}, **where),
    ):
        asking.store.apply(Changed(raw["kind"], typed(raw)))
    for _ in range(2):
        asking.take(asking.ask(SPECS[2]))
    asking.release(0)
    asking.take(asking.ask(claim("c", of_kind("r", "x"))))
    assert device_of(asking.ask(SPECS[2])) == "n0 d2"


def test_nodes_that_were_chosen_before_nodes_changed_count_by_their_names():
    asking = Asking()
    order = asking.store.snapshot().topology.order
    chosen = NodeSubset(order, np.array([name == "n2" for name in order], dtype=np.bool_))
    asking.store.apply(Changed("Node", typed(node("n0"))))
    for _ in range(2):
        asking.take(asking.ask(SPECS[0]))
    found = repeated(asking._claim(SPECS[0]), asking.store.snapshot(), nodes=chosen)
    assert found is None or found.node == "n2"


def test_a_changed_class_counts_for_the_next_claim():
    asking = Asking(gpus=6)
    spec = claim("c", request())
    for _ in range(4):
        asking.take(asking.ask(spec))
    asking.store.apply(Changed("DeviceClass", typed(device_class("any", KIND.format("nic")))))
    assert device_of(asking.ask(spec)) == "n1 nic"


def test_a_fork_finds_places_of_its_own():
    asking = Asking()
    for _ in range(3):
        asking.take(asking.ask(SPECS[0]))
    seen: Snapshot = asking.store.snapshot()
    one = asking._claim(SPECS[0])
    assert repeated(one, seen.fork()) is None
    assert repeated(one, seen) is not None


def test_claims_that_left_the_store_do_not_confuse_the_next_one():
    asking = Asking()
    for _ in range(3):
        asking.take(asking.ask(SPECS[0]))
    asking.store.apply(Removed("ResourceClaim", ObjectKey("default", "c1")))
    assert asking.ask(SPECS[0]) is not None
