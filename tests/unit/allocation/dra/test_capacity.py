"""Capacity that shares consume (docs/reference/rules/capacity.md), one case a rule."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.candidates import find_candidates
from reconciler.allocation.dra.node_attempt import NodeGrant
from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import NEW, OLD, Case, World, asks, local, on_node, spelled, without
from tests.tools.builders import (
    Object,
    amount,
    claim,
    counter_slice,
    device,
    held,
    hold,
    match,
    only,
    request,
    resource_slice,
)
from tests.tools.examples import examples

CAPACITY_TABLE = [
    # policy, request, consumed, how many identical shares fit
    pytest.param({}, None, "10Gi", 1, id="no policy, no request: everything"),
    pytest.param({}, "3Gi", "3Gi", 3, id="no policy: what is asked for"),
    pytest.param({"default": "1Gi"}, None, "1Gi", 10, id="no request: the default"),
    pytest.param(
        {"default": "1Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}, "2Gi", "3Gi", 3, id="a step up"
    ),
    pytest.param(
        {"default": "1Gi", "validRange": {"min": "1Gi", "max": "5Gi"}}, "6Gi", None, 0, id="above the maximum"
    ),
    pytest.param({"default": "2Gi", "validRange": {"min": "2Gi"}}, "1Gi", "2Gi", 5, id="below the minimum"),
    pytest.param({"default": "2Gi", "validValues": ["2Gi", "4Gi"]}, "3Gi", "4Gi", 2, id="the next value"),
    pytest.param({"default": "2Gi", "validValues": ["2Gi", "4Gi"]}, "5Gi", None, 0, id="above all values"),
    pytest.param({"default": "1Gi"}, "4Gi", "4Gi", 2, id="only a default: what is asked for"),
    pytest.param({}, "11Gi", None, 0, id="more than there is"),
    pytest.param(
        {"default": "1m", "validRange": {"min": "1m", "step": "500m"}}, "4Gi", "4294967296001m", 2, id="milli"
    ),
]


@pytest.mark.parametrize("rules", [NEW, OLD], ids=["1.37", "1.36"])
@pytest.mark.parametrize(("policy", "wanted", "consumed", "shares"), CAPACITY_TABLE)
def test_a_share_consumes_what_the_policy_says(policy, wanted, consumed, shares, rules):
    """CAP-3 to CAP-8."""
    fields: Any = {"capacity": {"mem": wanted}} if wanted else {}
    shared = device("A", capacity={"mem": amount("10Gi", **policy)}, allowMultipleAllocations=True)
    requests = [request(f"r{number}", **fields) for number in range(min(shares, 10) or 1)]
    outcome = on_node(World([local(shared)], asks(*requests), rules=rules))
    if consumed is None:
        assert spelled(outcome) is None
        return
    assert isinstance(outcome, NodeGrant)
    results = outcome.plans[0].allocation.to_json()["devices"]["results"]
    assert [r["consumedCapacity"] for r in results] == [{"mem": consumed}] * len(requests)
    assert len({r["shareID"] for r in results}) == len(requests)
    if shares < 10:
        one_more = claim("c", *requests, request("more", **fields))
        assert spelled(on_node(World([local(shared)], [one_more], rules=rules))) is None


MEM = device("A", capacity={"mem": "4"}, allowMultipleAllocations=True)
RANGED = device(
    "A",
    capacity={"mem": amount("4", default="1", validRange={"min": "1", "step": "500m"})},
    allowMultipleAllocations=True,
)


TENTHS = device(
    "A",
    capacity={"mem": amount("4", default="100m", validRange={"min": "100m", "step": "400m"})},
    allowMultipleAllocations=True,
)


def share(device: str = "A", **consumed: str) -> Object:
    return held("h", hold(device, shareID="before", consumedCapacity=consumed))


CAPACITY = {
    "CAP-1 a key the device lacks": Case(None, local(MEM), asks(request(capacity={"cores": "1"}))),
    "CAP-2 keys are compared as spelled": Case(None, local(MEM), asks(request(capacity={"d/mem": "1"}))),
    "CAP-6 finer than a thousandth": Case(
        Reason.CAPACITY_INVALID, local(RANGED), asks(request(capacity={"mem": "1500100u"}))
    ),
    "CAP-6 without fractions the step is rounded up": Case(
        ["r=A"],
        local(RANGED),
        asks(request(capacity={"mem": "1500100u"})),
        {"rules": without("DRAFractionalCapacityRange")},
    ),
    "CAP-7 without fractions steps are counted in whole numbers": Case(
        ["r=A"],
        local(TENTHS),
        asks(request(capacity={"mem": "400m"})),
        {"rules": without("DRAFractionalCapacityRange")},
    ),
    "CAP-7 with them 500m is one step of 400m from 100m": Case(
        ["r=A"], local(TENTHS), asks(request(capacity={"mem": "400m"}))
    ),
    "CAP-12 a negative amount": Case(
        Reason.CAPACITY_INVALID, local(MEM), asks(request(capacity={"mem": "-1"}))
    ),
    "CAP-12 comes before a key that is lacking": Case(
        Reason.CAPACITY_INVALID, local(MEM), asks(request(capacity={"cores": "1", "mem": "-1"}))
    ),
    "PREP-8 by 1.37 what is used up is wanted, and missing": Case(
        None, local(MEM, device("B")), asks(request(count=None)), {"held": [share(mem="4")]}
    ),
    "PREP-8 by 1.36 what is used up is left out": Case(
        ["r=B"], local(MEM, device("B")), asks(request(count=None)), {"held": [share(mem="4")], "rules": OLD}
    ),
    "SEL-6 a broken constraint comes before used up capacity": Case(
        Reason.CONSTRAINT_VIOLATED,
        local(device("0", {"m": 1}), {**MEM, **device("A", {"m": 2}, {"mem": "4"})}),
        asks(request(count=None), constraints=[match("d/m")]),
        {"held": [share(mem="4")]},
    ),
}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize("case", CAPACITY.values(), ids=CAPACITY)
def test_capacity_decides(case: Case, pruned: bool):
    assert case.answer(pruned=pruned) == case.expected


SHARES = st.lists(
    st.dictionaries(st.sampled_from(["mem", "slots", "other"]), st.integers(0, 12), max_size=3), max_size=24
)


@examples(40)
@given(SHARES, st.integers(1, 10))
def test_many_shared_devices_are_judged_as_each_one_alone(consumed: list[dict[str, int]], wanted: int):
    """The fleet's column of distinct amounts gives what the amounts of each device give (CAP-8)."""
    shares = [
        hold(f"D{number}", shareID=f"s{number}", consumedCapacity={k: str(v) for k, v in amounts.items()})
        for number, amounts in enumerate(consumed)
    ]
    capacity = ({"mem": "10", "slots": "4"}, {"mem": "8"})
    devices = [
        device(f"D{number}", capacity=capacity[number % 2], allowMultipleAllocations=True)
        for number in range(len(consumed) + 1)
    ]
    world = World(
        [local(*devices)],
        asks(request("r", capacity={"mem": str(wanted)})),
        held=[held("h", *shares)] if shares else (),
    )
    seen = world.snapshot()
    view = seen.topology.view("n")
    candidates = find_candidates(world.parsed(seen).slots[0].options[0], view, seen)
    for at, amounts in enumerate([*consumed, {}]):
        fits = amounts.get("mem", 0) + wanted <= int(capacity[at % 2]["mem"])
        unasked = "slots" not in capacity[at % 2] or amounts.get("slots", 0) == 0
        assert bool(candidates.available[at]) == (fits and unasked)  # what is not asked for is taken whole


# -- Counters that the devices of a pool share (docs/reference/rules/counters.md), one case a rule.


def drawing(**draws: dict[str, dict[str, int]]) -> list[Object]:
    return [device(name, {"id": name}, draws=drawn) for name, drawn in draws.items()]


def pool(sets: dict[str, dict[str, int]], content: list[Object]) -> list[Object]:
    return [
        resource_slice("s", content, slices=2, nodeName="n"),
        counter_slice("t", sets, slices=2, nodeName="n"),
    ]


TWO_SETS = {"g": {"m": 4, "s": 2}, "h": {"m": 4}}

COUNTERS = {
    "CTR-7 drawing zero is drawing": (
        None,
        pool(TWO_SETS, drawing(A={"g": {"m": 5}}, B={"h": {"m": 0}})),
        [request()],
        [hold("A")],
    ),
    "CTR-6 an over-drawn set blocks the whole pool": (
        ["r=P"],
        pool(TWO_SETS, [*drawing(A={"g": {"m": 5}}, B={"h": {"m": 1}}), device("P", {"id": "P"})]),
        [request()],
        [hold("A")],
    ),
    "CTR-8 administrators draw too": (
        None,
        pool(TWO_SETS, drawing(A={"g": {"m": 3}}, B={"g": {"m": 2}})),
        [request("r1", adminAccess=True, selectors=only("A")), request("r2", selectors=only("B"))],
        [],
    ),
    "CTR-4 but what they hold is not counted": (
        ["r=B"],
        pool(TWO_SETS, drawing(A={"g": {"m": 3}}, B={"g": {"m": 2}})),
        [request(selectors=only("B"))],
        [hold("A", adminAccess=True)],
    ),
    "CAP-13 a held share has drawn, whatever it consumes": (
        ["r=A"],
        pool(TWO_SETS, [device("A", draws={"g": {"m": 4}}, allowMultipleAllocations=True)]),
        [request()],
        [hold("A", shareID="x")],
    ),
    "CAP-13 also if the device is published as dedicated since": (
        ["r0=B r1=A r2=C"],
        pool({"g": {"m": 6}}, drawing(A={"g": {"m": 4}}, B={"g": {"m": 1}}, C={"g": {"m": 1}})),
        [request("r0"), request("r1", selectors=only("A")), request("r2", selectors=only("B", "C"))],
        [hold("A", shareID="x")],
    ),
}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize(("expected", "slices", "requests", "holds"), COUNTERS.values(), ids=COUNTERS)
def test_counters_are_shared_by_a_pool(expected, slices, requests, holds, pruned):
    world = World(slices, asks(*requests), [held("h", *holds)] if holds else [])
    assert spelled(on_node(world, pruned=pruned)) == expected
