"""What a node sees of the slices of a pool, rule by rule."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from hypothesis import given

from reconciler.api.objects.semantics import GATES, PARTITIONABLE_DEVICES, Semantics
from reconciler.errors import Rejected
from reconciler.state.devices.pool import AskedBlocks
from reconciler.state.devices.reach import Reach
from reconciler.state.devices.snapshot import View
from tests.tools.allocation_strategies import worlds
from tests.tools.allocation_world import World
from tests.tools.builders import (
    Object,
    counter_slice,
    device,
    devices,
    labelled,
    node,
    node_selector,
    resource_slice,
    snapshot,
)
from tests.tools.examples import examples
from tests.tools.store_picture import places

first, second = partial(resource_slice, "s"), partial(resource_slice, "t")
"""Slices of one pool, in the order of their names"""


NEW = Semantics()
OLD = Semantics("1.36")
WITHOUT_COUNTERS = Semantics(gates=frozenset(GATES) - {PARTITIONABLE_DEVICES})

ON_N: Object = {"nodeName": "n"}
ON_M: Object = {"nodeName": "m"}
EVERYWHERE: Object = {"allNodes": True}
ZONE_A: Object = {"nodeSelector": node_selector(labelled("zone", "a"))}
ZONE_B: Object = {"nodeSelector": node_selector(labelled("zone", "b"))}
EACH: Object = {"perDeviceNodeSelection": True}
UNREADABLE: Object = {
    "nodeSelector": node_selector({"matchExpressions": [{"key": "zone", "operator": "Near"}]})
}
TWO: Object = {"slices": 2}
SECOND: Object = {"generation": 2}
COUNTERS = {"g": {"m": 40}}


def see(slices: Sequence[Object], *, on: str = "n", rules: Semantics = NEW) -> tuple[View, str]:
    """A node's view in short: `p usable A B`; devices that the node does not reach are in brackets."""
    seen = snapshot(node("n", zone="a"), node("m", zone="b"), *slices, rules=rules)
    view, at = seen.topology.view(on), places(seen.fleet)
    told, start = [], 0
    for pool in view.pools:
        stop = start + len(pool.rows)
        names = [
            at[row].device if here else f"({at[row].device})"
            for row, here in zip(view.rows[start:stop].tolist(), view.here[start:stop].tolist(), strict=True)
        ]
        told.append(" ".join([pool.pool.pool, pool.usable.value, *names]))
        start = stop
    assert start == len(view.rows)
    return view, "; ".join(told)


@dataclass(frozen=True)
class Case:
    """Some slices and what a node sees of them: pools with their state and devices."""

    name: str
    slices: Sequence[Object]
    sees: str
    on: str = "n"
    rules: Semantics = NEW


class Given:
    """Slices of a case."""

    def __init__(self, name: str, *slices: Object) -> None:
        self.name, self.slices = name, list(slices)

    def sees(self, pools: str, on: str = "n", rules: Semantics = NEW) -> Case:
        return Case(self.name, self.slices, pools, on, rules)


A, B, AB = devices("A"), devices("B"), devices("A", "B")

CASES = [
    # POOL-1, POOL-3: which slices concern a node
    Given("POOL-3: a slice of the node", first(AB, **ON_N)).sees("p usable A B"),
    Given("POOL-7: a slice of another node is no pool here", first(AB, **ON_M)).sees(""),
    Given("POOL-3: a slice for all nodes", first(A, **EVERYWHERE)).sees("p usable A"),
    Given("POOL-3: a selector that matches", first(A, **ZONE_A)).sees("p usable A"),
    Given("POOL-3: a selector that does not", first(A, **ZONE_B)).sees(""),
    Given("POOL-3: none of the four fields is ignored", first(A)).sees(""),
    Given("NM-1: the name comes first", first(A, nodeName="m", allNodes=True)).sees(""),
    Given("VER-4: fields that say nothing", first(A, nodeName="", allNodes=True)).sees("p usable A"),
    Given(
        "POOL-3: devices each for themselves, one of them here",
        first([device("A", **ON_N), device("B", **ON_M), device("C", **ZONE_A)], **EACH),
    ).sees("p usable A (B) C"),
    Given(
        "POOL-3: devices each for themselves, none of them here",
        first([device("A", **ON_M), device("B", **ZONE_B)], **EACH),
    ).sees(""),
    Given("POOL-3: no devices, each for themselves", first([], **EACH)).sees(""),
    Given("an empty slice counts towards the pool", first([], **ON_N)).sees("p usable"),
    # POOL-2: without partitionable devices
    Given(
        "POOL-2: slices of the feature are left out, and still counted",
        first(A, slices=3, **ON_N),
        counter_slice("t", COUNTERS, slices=3, **ON_N),
        resource_slice("u", [device("B", **ON_N)], slices=3, **EACH),
    ).sees("p usable A", rules=WITHOUT_COUNTERS),
    Given(
        "POOL-2, POOL-12: what slices of the feature say of their number counts, too",
        counter_slice("s", COUNTERS, slices=3, **ON_N),
        second(A, slices=1, **ON_N),
    ).sees("p invalid", rules=WITHOUT_COUNTERS),
    Given(
        "POOL-2: a pool of nothing else is no pool", resource_slice("u", [device("B", **ON_N)], **EACH)
    ).sees("", rules=WITHOUT_COUNTERS),
    Given(
        "POOL-2: saying no counts as using it", resource_slice("u", A, perDeviceNodeSelection=False, **ON_N)
    ).sees("", rules=WITHOUT_COUNTERS),
    # POOL-4 to POOL-6: generations
    Given(
        "POOL-4: the highest generation that concerns the node", first(A, **ON_N), second(B, **ON_N, **SECOND)
    ).sees("p usable B"),
    Given(
        "T10, POOL-5: older slices that are complete are used, though newer ones are elsewhere",
        first(A, **ON_N),
        second(B, **ON_M, **SECOND),
    ).sees("p usable A"),
    Given("T10: and the newer ones are used there", first(A, **ON_N), second(B, **ON_M, **SECOND)).sees(
        "p usable B", on="m"
    ),
    Given(
        "T11, POOL-6: older slices that are not complete are obsolete, not incomplete",
        first(A, **ON_N, **TWO),
        second(B, **ON_M, **SECOND),
    ).sees(""),
    Given("POOL-6: slices elsewhere complete a pool", first(A, **ON_N, **TWO), second(B, **ON_M, **TWO)).sees(
        "p usable A"
    ),
    Given("POOL-6: too few slices", first(A, **ON_N, **TWO)).sees("p incomplete"),
    Given("T12, POOL-6: too many slices", first(A, **ON_N), second(B, **ON_N)).sees("p incomplete"),
    Given(
        "POOL-5: as many as wanted concern the node, more elsewhere do not matter",
        first(A, **ON_N),
        second(B, **ON_M),
    ).sees("p usable A"),
    Given(
        "POOL-6: older slices do not complete newer ones",
        first(A, **ON_N, **TWO),
        second(B, **ON_N, **TWO, **SECOND),
    ).sees("p incomplete"),
    Given("POOL-7: incomplete elsewhere is nothing here", first(A, **ON_M, **TWO)).sees(""),
    # POOL-7 of 1.36, POOL-10: counters
    Given(
        "POOL-7: half a pool of counters on another node is nothing here",
        counter_slice("t", COUNTERS, **ON_M, **TWO),
    ).sees(""),
    Given(
        "POOL-7, 1.36: half a pool of counters exists on every node",
        counter_slice("t", COUNTERS, **ON_M, **TWO),
    ).sees("p incomplete", rules=OLD),
    Given(
        "POOL-7, 1.36: and so does a whole one, empty",
        counter_slice("t", COUNTERS, **ON_M, **TWO),
        first([device("A", draws={"g": {"m": 1}})], **ON_M, **TWO),
    ).sees("p usable", rules=OLD),
    Given(
        "POOL-10: counters published for another node count here",
        counter_slice("t", COUNTERS, **ON_M, **TWO),
        first([device("A", draws={"g": {"m": 1}})], **ON_N, **TWO),
    ).sees("p usable A"),
    # POOL-9, POOL-14: order
    Given(
        "T14, POOL-9: slices by name, byte by byte",
        resource_slice("s-9", B, **ON_N, **TWO),
        resource_slice("s-10", A, **ON_N, **TWO),
    ).sees("p usable A B"),
    Given(
        "POOL-9: capitals stand before small letters, and those before what is not ASCII",
        resource_slice("ä", devices("C"), **ON_N, slices=3),
        resource_slice("a", B, **ON_N, slices=3),
        resource_slice("Z", A, **ON_N, slices=3),
    ).sees("p usable A B C"),
    Given("POOL-9: devices as the slice lists them", first(devices("B", "C", "A"), **ON_N)).sees(
        "p usable B C A"
    ),
    Given(
        "POOL-14, POOL-15: pools by driver, then by name",
        resource_slice("1", A, driver="e", pool="a", **ON_N),
        resource_slice("2", A, driver="d", pool="c", **ON_N),
        resource_slice("3", A, driver="d", pool="b", **EVERYWHERE),
    ).sees("b usable A; c usable A; a usable A"),
    Given(
        "T13, POOL-14: a pool that makes pods wait comes last",
        resource_slice("1", [device("A", bindingConditions=["ready"])], pool="a", **ON_N),
        resource_slice("2", B, pool="b", **ON_N),
        resource_slice("3", devices("C"), pool="c", **ON_N),
    ).sees("b usable B; c usable C; a usable A"),
    Given(
        "POOL-14: an unusable pool keeps its place, whatever its devices",
        resource_slice("1", [device("A", bindingConditions=["ready"])], pool="a", **ON_N, **TWO),
        resource_slice("2", B, pool="b", **ON_N),
    ).sees("a incomplete; b usable B"),
    Given(
        "POOL-14: devices that wait on another node do not move the pool here",
        resource_slice("1", A, pool="a", **ON_N, **TWO),
        resource_slice("2", [device("X", bindingConditions=["ready"])], pool="a", **ON_M, **TWO),
        resource_slice("3", B, pool="b", **ON_N),
    ).sees("a usable A; b usable B"),
    # POOL-8, POOL-11, POOL-12, POOL-13: unusable pools stay in view
    Given(
        "T8, POOL-8: an incomplete pool gives nothing and stays in view",
        first(A, **ON_N),
        second(B, driver="e", pool="q", **ON_N, **TWO),
    ).sees("p usable A; q incomplete"),
    Given(
        "T9, POOL-13: so does an invalid one",
        first(A, **ON_N),
        second(devices("B", "B"), driver="e", pool="q", **ON_N),
    ).sees("p usable A; q invalid"),
    Given("T39, POOL-11: two devices of one name", first(A, **ON_N, **TWO), second(A, **ON_N, **TWO)).sees(
        "p invalid"
    ),
    Given(
        "T40, POOL-12: not noticed where only one of them is for the node",
        first(A, **ON_N, **TWO),
        second(A, **ON_M, **TWO),
    ).sees("p usable A"),
    Given("POOL-11: generations may share names", first(A, **ON_N), second(A, **ON_N, **SECOND)).sees(
        "p usable A"
    ),
    *[
        Case(f"POOL-12: slices that disagree about their number, {name}", slices, sees)
        for name, slices, sees in (
            (
                "as many as the first says",
                [first(A, **ON_N, **TWO), second(B, **ON_N, slices=3)],
                "p invalid",
            ),
            ("as many as the last says", [first(A, **ON_N, slices=3), second(B, **ON_N, **TWO)], "p invalid"),
            ("one of them on another node", [first(A, **ON_N), second(B, **ON_M, **TWO)], "p invalid"),
            (
                "for all nodes and for this one",
                [resource_slice("a", A, **EVERYWHERE), resource_slice("b", B, slices=2, **ON_N)],
                "p invalid",
            ),
            (
                "in an older generation",
                [
                    first(A, **ON_N),
                    second(B, **ON_N, **TWO),
                    resource_slice("u", devices("C"), **ON_N, **SECOND),
                ],
                "p usable C",
            ),
            (
                "in an older generation, the newer one elsewhere",
                [
                    first(A, **ON_N),
                    second(B, **ON_M, **TWO),
                    resource_slice("u", devices("C"), **ON_M, **SECOND),
                ],
                "",
            ),
        )
    ],
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_node_sees(case: Case):
    assert see(case.slices, on=case.on, rules=case.rules)[1] == case.sees


def test_an_unusable_pool_says_why():
    view, _ = see(
        [
            resource_slice("1", A, pool="a", slices=3, generation=7, **ON_N),
            resource_slice("2", devices("B", "B"), pool="b", **ON_N),
        ]
    )
    found = [pool.problem for pool in view.pools]
    assert found == ["1 of 3 slices of generation 7 are published", "two devices are named B"]
    assert view.invalid is view.pools[1]


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([first(A, **UNREADABLE)], id="of a slice"),
        pytest.param([first([device("A", **UNREADABLE)], **EACH)], id="of a device"),
        pytest.param([first(A, **ON_N, **SECOND), second(B, **UNREADABLE)], id="of an older generation"),
    ],
)
def test_an_invalid_selector_is_an_error_if_it_is_needed(slices: list[Object]):
    """NM-1: for any slice that may target the node."""
    with pytest.raises(Rejected, match="zone Near: unknown operator"):
        see(slices)


@pytest.mark.parametrize(
    "slices",
    [
        pytest.param([first(A, nodeName="m", **UNREADABLE)], id="the slice has a name"),
        pytest.param([first(A, allNodes=True, **UNREADABLE)], id="the slice is for all nodes"),
        pytest.param([first([device("A", nodeName="m", **UNREADABLE)], **EACH)], id="the device has one"),
        pytest.param([first([device("A", **UNREADABLE)], **ON_N)], id="it is not asked"),
    ],
)
def test_an_invalid_selector_that_is_not_needed_is_ignored(slices: list[Object]):
    assert "usable" in see(slices)[1] or see(slices)[1] == ""


@examples(40)
@given(worlds())
def test_a_view_equals_asking_every_pool(world: World):
    """Only pools that name the node, or have a selector that matches it, are asked."""
    topology = world.snapshot().topology
    for name, node_info in topology.nodes.items():
        reach = Reach(node_info, topology.fleet.vocabulary)
        try:
            asked = [pool.on(reach, topology.rules) for pool in topology.fleet.pools]
        except Rejected as rejected:
            with pytest.raises(Rejected, match=re.escape(str(rejected))):
                topology.view(name)
            continue
        there = [pool for pool in asked if pool is not None]
        for pool in [] if reach.may_fail else topology.fleet.pools:
            concerned = [at for at, block in enumerate(pool.blocks) if reach.concerns(block, topology.rules)]
            blocks, reached = AskedBlocks(pool.blocks, pool.offsets, topology.rules).by(reach)
            assert blocks == concerned
            for at in concerned:
                here = reached[pool.offsets[at] : pool.offsets[at + 1]]
                assert here.tolist() == reach.devices(pool.blocks[at]).tolist()
        expected = [pool.pool for pool in sorted(there, key=lambda pool: pool.has_binding_conditions)]
        assert [pool.pool for pool in topology.view(name).pools] == expected


def test_a_node_asks_only_the_slices_of_a_large_pool_that_name_it():
    zone = node_selector(labelled("zone", "a"))
    places: list[Object] = [{"nodeName": "n"}, {"nodeName": "m"}, {"nodeSelector": zone}, {"allNodes": True}]
    slices = [
        resource_slice(f"s{at}", [device(f"d{at}", **place)], slices=6, **EACH)
        for at, place in enumerate([*places, {"nodeName": "x"}, {"nodeName": "x"}])
    ]
    topology = snapshot(node("n", zone="a"), node("m"), *slices).topology
    (pool,) = topology.fleet.pools
    asked = {
        name: AskedBlocks(pool.blocks, pool.offsets, topology.rules).by(
            Reach(topology.nodes[name], topology.fleet.vocabulary)
        )[0]
        for name in ("n", "m")
    }
    assert asked == {"n": [0, 2, 3], "m": [1, 3]}
    for name, expected in asked.items():
        offered = topology.view(name)
        found = [pool.names[row] for row in offered.rows[offered.here].tolist()]
        assert found == [f"d{at}" for at in expected]
