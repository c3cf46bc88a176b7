"""Counters that the devices of a pool share (docs/reference/rules/counters.md), one case a rule."""

import pytest

from tests.tools.allocation_world import World, on_node, spelled
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    held,
    hold,
    only,
    request,
    resource_slice,
)


def drawing(**draws: dict[str, dict[str, int]]) -> list[Object]:
    return [device(name, {"id": name}, draws=drawn) for name, drawn in draws.items()]


def pool(sets: dict[str, dict[str, int]], content: list[Object]) -> list[Object]:
    return [
        resource_slice("s", content, slices=2, nodeName="n"),
        counter_slice("t", sets, slices=2, nodeName="n"),
    ]


TWO_SETS = {"g": {"m": 4, "s": 2}, "h": {"m": 4}}

COUNTERS = {
    "CTR-5 every counter counts": (
        ["r=B"],
        pool(TWO_SETS, drawing(A={"g": {"m": 1, "s": 3}}, B={"g": {"m": 4, "s": 2}})),
        [request()],
        [],
    ),
    "CTR-6 an over-drawn set blocks the whole pool": (
        ["r=P"],
        pool(TWO_SETS, [*drawing(A={"g": {"m": 5}}, B={"h": {"m": 1}}), device("P", {"id": "P"})]),
        [request()],
        [hold("A")],
    ),
    "CTR-7 drawing zero is drawing": (
        None,
        pool(TWO_SETS, drawing(A={"g": {"m": 5}}, B={"h": {"m": 0}})),
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
    "CTR-9 shares draw once": (
        ["r1=A r2=A r3=B"],
        pool(
            TWO_SETS,
            [
                device("A", {"id": "A"}, draws={"g": {"m": 3}}, allowMultipleAllocations=True),
                *drawing(B={"g": {"m": 1}}),
            ],
        ),
        [
            request("r1"),
            request("r2"),
            request("r3", selectors=only("B")),
        ],
        [],
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
    "CTR-1 pools of one name have their own counters": (
        ["r=A r=B"],
        [
            *pool({"g": {"m": 1}}, drawing(A={"g": {"m": 1}})),
            resource_slice("s2", drawing(B={"g": {"m": 1}}), driver="e", slices=2, nodeName="n"),
            counter_slice("t2", {"g": {"m": 1}}, driver="e", slices=2, nodeName="n"),
        ],
        [request(count=2)],
        [],
    ),
    "CTR-2 devices of other nodes draw": (
        None,
        [
            resource_slice("s", drawing(A={"g": {"m": 3}}), slices=3, nodeName="n"),
            resource_slice("u", drawing(X={"g": {"m": 2}}), slices=3, nodeName="m"),
            counter_slice("t", {"g": {"m": 4}}, slices=3, nodeName="n"),
        ],
        [request()],
        [hold("X")],
    ),
}


@pytest.mark.parametrize("pruned", [True, False], ids=["pruned", "plain"])
@pytest.mark.parametrize(("expected", "slices", "requests", "holds"), COUNTERS.values(), ids=COUNTERS)
def test_counters_are_shared_by_a_pool(expected, slices, requests, holds, pruned):
    world = World(slices, [claim("c", *requests)], [held("h", *holds)] if holds else [])
    assert spelled(on_node(world, pruned=pruned)) == expected
