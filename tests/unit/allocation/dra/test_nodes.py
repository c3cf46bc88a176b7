"""The choice among nodes: order, ranks, nodes that counts exclude, and earlier decisions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels.types import Amounts, Mask, Rows
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.node_attempt import NodeGrant, NodeRefusal
from reconciler.allocation.dra.preferred import nodes_in_order
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.policies.policy import PodPreferences, PodRoom, PolicyQuestion, SetJudge
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan, Reason, Unsatisfied
from reconciler.state.devices.snapshot import View
from reconciler.state.store import Store
from tests.tools.allocation_checker import problems
from tests.tools.allocation_strategies import contests, worlds
from tests.tools.allocation_world import STEPS, World, asks, decide, numbered, on_node, picks
from tests.tools.builders import (
    Object,
    amount,
    claim,
    counter_slice,
    device,
    device_class,
    devices,
    first_of,
    gpu_slice,
    held,
    hold,
    labelled,
    match,
    node,
    node_selector,
    only,
    request,
    resource_slice,
    selectors,
    snapshot,
    store,
    typed,
    wants,
)
from tests.tools.examples import examples

NODES = [node("c"), node("a"), node("b")]


def where(slices: list[Object], *claims: Object, nodes: list[str] | None = None) -> str | Reason:
    outcome = decide(World(slices, claims, nodes=NODES), nodes=nodes)
    return outcome.node if isinstance(outcome, Granted) else outcome.reason


def on(name: str, *names: str) -> Object:
    return resource_slice(name, devices(*names), pool=name, nodeName=name)


def test_the_first_node_by_name_that_fits_is_taken():
    assert where([gpu_slice("c"), gpu_slice("b"), gpu_slice("a", 1)], claim("c", request(count=2))) == "b"


def test_the_choice_can_be_limited_to_some_nodes():
    slices = [gpu_slice(name) for name in "abc"]
    assert where(slices, claim("c", request()), nodes=["c", "b"]) == "b"
    assert where(slices, claim("c", request()), nodes=["elsewhere"]) is Reason.NO_NODES
    assert where(slices, claim("c", request()), nodes=[]) is Reason.NO_NODES


def test_the_node_with_the_better_alternative_wins():
    """SC-1: not the first one that has some alternative."""
    wanted = claim("c", first_of("r", big=wants(selectors=only("B")), small=wants(selectors=only("S"))))
    assert where([on("a", "S"), on("b", "B"), on("c", "B")], wanted) == "b"


def test_alternatives_of_all_claims_are_added_up_and_ties_go_by_name():
    """SC-1: two second choices are worse than a first and a second; equal sums go to the first name."""
    options = {"x": wants(selectors=only("X1", "X2")), "y": wants(selectors=only("Y1", "Y2"))}
    claims = [claim(f"c{number}", first_of("r", **options)) for number in range(2)]
    assert where([on("a", "Y1", "Y2"), on("b", "X1", "Y1"), on("c", "Y1", "X1")], *claims) == "b"


def test_an_error_on_one_node_excludes_that_node_only():
    fails_on_b = selectors('device.attributes["d"].id == "A" || device.attributes["d"].x == 1')
    assert where([on("a", "B"), on("b", "A")], claim("c", request(selectors=fails_on_b))) == "b"


def test_all_claims_are_allocated_on_one_node():
    claims = [claim("c1", request(count=2)), claim("c2", request(count=2))]
    assert where([gpu_slice("a", 3), gpu_slice("b", 3), gpu_slice("c", 4)], *claims) == "c"


def test_no_claims_are_met_on_any_node():
    assert where([gpu_slice("a")]) == "a"


@pytest.mark.parametrize("others", [(), ("b",), ("b", "c")])
def test_nodes_without_devices_of_their_own_are_considered(others: tuple[str, ...]):
    """Devices that belong to no node serve them; constraints and counts must handle their absence."""
    anywhere = resource_slice("s", [device("A", {"m": 1})], pool="z", allNodes=True)
    slices = [anywhere, *(on(name, "X") for name in others)]
    from_anywhere = selectors('has(device.attributes["d"].m)')
    assert where(slices, claim("c", request(selectors=from_anywhere))) == "a"
    assert where(slices, claim("c", request(selectors=from_anywhere), constraints=[match("d/m")])) == "a"
    assert where(slices, claim("c", request(), constraints=[match("d/zip")])) is Reason.NEVER


def test_counters_of_a_device_of_which_shares_are_held_exclude_no_node():
    """CAP-13: they are drawn already, although the device is dedicated now."""
    slices = [
        resource_slice("s", [device("A", {"m": 1}, draws={"g": {"m": 4}})], slices=2, nodeName="a"),
        counter_slice("t", {"g": {"m": 6}}, slices=2, nodeName="a"),
    ]
    world = World(
        slices, asks(request(), constraints=[match("d/m")]), [held("h", hold("A", shareID="x"))], nodes=NODES
    )
    assert isinstance(decide(world), Granted)


def test_a_node_with_exactly_what_tied_requests_draw_is_looked_at():
    slices = [
        resource_slice(
            "s", [device(name, {"m": 1}, draws={"g": {"m": 2}}) for name in "AB"], slices=2, nodeName="a"
        ),
        counter_slice("t", {"g": {"m": 4}}, slices=2, nodeName="a"),
    ]
    assert where(slices, claim("c", request(count=2), constraints=[match("d/m")])) == "a"


FAILS = selectors('device.attributes["d"].x == 1')


@pytest.mark.parametrize(
    ("requests", "slices"),
    [
        pytest.param([request(count=2, selectors=FAILS)], [gpu_slice("a", 1)], id="fewer than wanted"),
        pytest.param(
            [request("r", selectors=FAILS), request("q", selectors=selectors("false"))],
            [gpu_slice("a", 1)],
            id="a later request that cannot be met",
        ),
        pytest.param(
            [request("q", selectors=selectors("false")), request("r", None, selectors=FAILS)],
            [gpu_slice("a", 1)],
            id="all devices, behind a request that cannot be met",
        ),
        pytest.param(
            [request(selectors=FAILS)],
            [
                resource_slice(
                    "s",
                    [device("A", nodeName="b"), device("B", {"x": 2}, nodeName="a")],
                    perDeviceNodeSelection=True,
                )
            ],
            id="on a device of another node",
        ),
    ],
)
def test_a_node_where_a_selector_fails_is_looked_at(requests, slices):
    outcome = decide(World(slices, asks(*requests), nodes=NODES))
    assert isinstance(outcome, Unsatisfied)
    assert "a" in [name for name, _ in outcome.nodes_refused]


# -- against all nodes in order


def _one_by_one(world: World) -> Iterator[tuple[str, NodeGrant | NodeRefusal]]:
    for name in sorted(n["metadata"]["name"] for n in world.nodes):
        yield name, on_node(world, name)


@examples(50)
@given(st.one_of(worlds(), worlds(always=("alternatives", "constraints", "held"))))
def test_nodes_that_are_skipped_unseen_had_no_answer(world: World):
    """The same node and devices as by trying all; and every selector that fails is reported."""
    seen = list(_one_by_one(world))
    found = [(outcome.rank, name, outcome) for name, outcome in seen if isinstance(outcome, NodeGrant)]
    outcome = decide(world)
    if found:
        _, name, best = min(found, key=lambda entry: entry[:2])
        assert isinstance(outcome, Granted)
        assert (outcome.node, picks(outcome.plans)) == (name, picks(best.plans))
        assert problems(world, outcome.plans) == []
    else:
        assert isinstance(outcome, Unsatisfied)
        failing = (Reason.CEL_RUNTIME, Reason.CEL_COMPILE)
        expected = {name for name, o in seen if isinstance(o, NodeRefusal) and o.reason in failing}
        assert expected <= {name for name, _ in outcome.nodes_refused}


# -- against a store without a past


@dataclass
class History:
    """One store with repeated decisions, and its allocations."""

    world: World
    granted: dict[str, tuple[Plan, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.warm = self.cold()

    def cold(self) -> Store:
        world = self.world
        fresh = store(
            *world.nodes, *world.classes, *world.slices, *world.taint_rules, *world.held, rules=world.rules
        )
        for plans in self.granted.values():
            for plan in plans:
                fresh.assume(plan)
        return fresh

    def free(self, name: str) -> None:
        for plan in self.granted.pop(name):
            self.warm.forget(plan)


@pytest.mark.parametrize("place", [{"allNodes": True}, {"nodeName": "a"}], ids=["no node", "one node"])
def test_a_device_that_is_freed_is_found_again(place: Object):
    """It was counted while it was held."""
    picture = store(*NODES, device_class(), resource_slice("s", devices("A"), **place), held("h", hold("A")))
    wanted = World((), asks(request())).wanted()
    assert isinstance(allocate(wanted, picture.snapshot()), Unsatisfied)
    picture.apply(Removed("ResourceClaim", ObjectKey("default", "h")))
    assert isinstance(allocate(wanted, picture.snapshot()), Granted)


@examples(40)
@given(
    st.one_of(worlds(always=("claims",)), contests()),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=6),
)
def test_what_was_decided_before_leaves_nothing_but_what_is_held(world: World, turns):
    """Counts are updated from decision to decision; they must equal new counts."""
    history = History(world)
    for number, (which, free) in enumerate(turns):
        if free and history.granted:
            history.free(next(iter(history.granted)))
        wanted = world.wanted()[which % len(world.claims)]
        name = f"turn-{number}"
        wanted = wanted.model_copy(
            update={"metadata": wanted.metadata.model_copy(update={"name": name, "uid": name})}
        )
        outcome = numbered(allocate, [wanted], history.warm.snapshot(), steps=STEPS)
        afresh = numbered(allocate, [wanted], history.cold().snapshot(), steps=STEPS)
        assert outcome == afresh
        if isinstance(outcome, Granted):
            history.granted[name] = outcome.plans
            for plan in outcome.plans:
                history.warm.assume(plan)


def test_messages_name_the_right_claim_of_one_spec():
    """Their spec is parsed once; the cached shape must not hold the name of the claim."""
    broken = request(selectors=selectors('device.attributes["d"].x == 1'))
    asked = World([on("a", "A")], [claim("c1", broken), claim("c2", broken)], nodes=NODES)
    seen = asked.snapshot()
    first, second = (allocate([wanted], seen) for wanted in asked.wanted())
    assert isinstance(first, Unsatisfied)
    assert isinstance(second, Unsatisfied)
    assert "claim default/c1, request r: selector #0" in first.message
    assert second.message == first.message.replace("c1", "c2")
    assert [text.count("default/c2") for _, text in second.nodes_refused] == [1]


def test_a_class_that_changes_is_read_again():
    """Also by claims of a spec that is cached."""
    picture = store(*NODES, device_class(), on("a", "A"))
    (wanted,) = World((), asks(request())).wanted()
    assert isinstance(allocate([wanted], picture.snapshot()), Granted)
    nothing = device_class("any", "false")
    picture.apply(Changed("DeviceClass", typed(nothing)))
    assert isinstance(allocate([wanted], picture.snapshot()), Unsatisfied)


def test_a_card_that_is_full_of_shares_is_not_looked_at():
    """And is tried again after a share is freed."""

    def card(place: str) -> Object:
        shared = device("A", capacity={"mem": amount("10Gi")}, allowMultipleAllocations=True)
        return resource_slice(place, [shared], pool=place, nodeName=place)

    def share(number: int) -> Object:
        taken = hold("A", pool="a", shareID=f"s{number}", consumedCapacity={"mem": "5Gi"})
        return held(f"h{number}", taken)

    picture = store(*NODES, device_class(), card("a"), card("b"), share(0), share(1))
    (wanted,) = World((), asks(request(capacity={"mem": "4Gi"}))).wanted()
    seen = picture.snapshot()
    outcome = allocate([wanted], seen)
    assert isinstance(outcome, Granted)
    assert (outcome.node, list(seen.topology._views)) == ("b", ["b"])
    picture.apply(Removed("ResourceClaim", ObjectKey("default", "h1")))
    outcome = allocate([wanted], picture.snapshot())
    assert isinstance(outcome, Granted)
    assert outcome.node == "a"


# -- The order of nodes, against sorting all of them by all that counts.


FEW = st.integers(0, 2)


@dataclass
class Keys:
    """A policy with given keys of nodes, and none of devices."""

    of_nodes: Amounts
    name = digest = "keys"
    seed = 0

    def nodes(self, _question: PolicyQuestion, among: Mask) -> Amounts:
        return np.where(among, self.of_nodes, -1)

    def devices(self, _question: PolicyQuestion, _candidates: Candidates, _view: View) -> Rows | None:
        return None

    def sets(self, _question: PolicyQuestion, _view: View) -> SetJudge | None:
        return None


class Points(PodPreferences, frozen=True, eq=False, kw_only=True):
    """Preferences with given points."""

    of_nodes: Amounts

    def points(self, among: Mask) -> Amounts:
        return np.where(among, self.of_nodes, 99)


@examples(80)
@given(
    nodes=st.lists(st.tuples(st.booleans(), FEW, FEW, FEW), min_size=1, max_size=8),
    ranked=st.booleans(),
    chosen=st.booleans(),
    preferred=st.sampled_from([None, True, False]),
)
def test_nodes_are_tried_by_rank_policy_and_preferences(
    nodes: list[tuple[bool, int, int, int]], ranked: bool, chosen: bool, preferred: bool | None
):
    among, ranks, keys, points = (np.array(column) for column in zip(*nodes, strict=True))
    wishes = None if preferred is None else Points(of_nodes=points, first=preferred, with_first_fit=True)
    pod = PodRoom(0, np.zeros(len(nodes), dtype=np.int64), wishes)
    question = PolicyQuestion(ParsedClaims((), ()), snapshot(), pod)
    found = nodes_in_order(question, Keys(keys) if chosen else None, among, ranks if ranked else None)

    def sorted_by(at: int) -> tuple[int, ...]:
        rank, key = int(ranks[at]) * ranked, int(keys[at]) * chosen
        against = 0 if preferred is None else -int(points[at])
        return (rank, against, key, at) if preferred else (rank, key, against, at)

    expected = sorted(np.flatnonzero(among).tolist(), key=sorted_by)
    assert list(found) == [(int(ranks[at]) * ranked, at) for at in expected]


# -- Counts of nodes that node selectors place stay those of a count from scratch.


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=4, max_size=16))
@examples(25)
def test_counts_behind_node_selectors_follow_every_change(events: list[tuple[bool, int]]):
    """Sub-slices of a network: each is reached by the nodes that its selector names."""
    hosts = [f"h{number}" for number in range(4)]
    groups = [*([host] for host in hosts), hosts[:2], hosts[2:], hosts]
    parts = [
        device(
            f"part-{at}",
            {"hosts": len(group)},
            draws={"torus": dict.fromkeys(group, 1)},
            nodeSelector=node_selector(labelled("host", *group)),
        )
        for at, group in enumerate(groups)
    ]
    where: Any = {"slices": 2, "perDeviceNodeSelection": True}
    picture = store(
        device_class(),
        *[node(host, host=host) for host in hosts],
        resource_slice("parts", parts, **where),
        counter_slice("torus", {"torus": dict.fromkeys(hosts, 1)}, **where),
    )
    plans: list[Plan] = []
    for number, (released, size) in enumerate(events):
        if released and plans:
            picture.forget(plans.pop(size % len(plans)))
        seen = picture.snapshot()
        wanted = f'device.attributes["d"].hosts == {(1, 2, 4)[size % 3]}'
        one = typed(claim(f"c{number}", request(selectors=selectors(wanted))))
        assert isinstance(one, ResourceClaim)
        found, fresh = (allocate([one], each) for each in (seen, seen.fork()))
        assert found == fresh
        if isinstance(found, Granted):
            picture.assume(found.plans[0])
            plans.append(found.plans[0])
