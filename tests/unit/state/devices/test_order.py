"""The order in which objects arrive has no effect."""

from hypothesis import given
from hypothesis import strategies as st

from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    held,
    hold,
    labelled,
    node,
    node_selector,
    resource_slice,
    snapshot,
    taint,
    taint_rule,
)
from tests.tools.examples import examples
from tests.tools.store_picture import picture, places

OBJECTS: list[Object] = [
    node("n", zone="a"),
    node("m", zone="b"),
    device_class("any"),
    device_class("x", 'device.attributes["d"].model == "x"'),
    taint_rule("r1", {"driver": "d"}, taint("t1")),
    taint_rule("r2", {"device": "A"}, taint("t2")),
    counter_slice("p-0", {"g": {"m": "80Gi", "k": "1m"}, "h": {"m": 4}}, slices=4, nodeName="n"),
    resource_slice(
        "p-1",
        [
            device("A", {"model": "x"}, {"mem": "4Gi"}, {"g": {"m": "40Gi", "k": "1m"}}),
            device("B", {"model": 1}, {}, {"h": {"m": 3}, "g": {"m": "10Gi"}}, taints=[taint("t1")]),
        ],
        slices=4,
        nodeName="n",
    ),
    resource_slice("p-10", [device("C", draws={"h": {"m": 1}})], slices=4, nodeName="m"),
    resource_slice("p-2", [device("A", {"model": "x", "d/model": "y"})], slices=4, nodeName="m"),
    resource_slice(
        "q-1",
        [device("A", nodeName="n", allowMultipleAllocations=True), device("B", allNodes=True)],
        pool="q",
        perDeviceNodeSelection=True,
    ),
    resource_slice(
        "e-1", [device("A", {"d/model": "x"})], driver="e", nodeSelector=node_selector(labelled("zone", "b"))
    ),
    resource_slice("o-1", [device("O")], pool="o", nodeName="n"),
    resource_slice("o-2", [device("O"), device("P")], pool="o", generation=2, slices=2, nodeName="m"),
    resource_slice("w-1", [device("W", bindingConditions=["up"])], pool="a", allNodes=True),
    held("c1", hold("A"), hold("O", pool="o")),
    held("c2", hold("A", pool="q", shareID="s1", consumedCapacity={"mem": "1Gi"})),
    held("c3", hold("A", pool="q", shareID="s2", consumedCapacity={"mem": "500m"}), hold("C")),
    claim("c4"),
]

EXPECTED = picture(snapshot(*OBJECTS))


@examples(40)
@given(st.permutations(OBJECTS))
def test_any_order_of_arrival_gives_the_same_snapshot(objects: list[Object]):
    seen = snapshot(*objects)
    assert picture(seen) == EXPECTED
    assert [str(pool.id) for pool in seen.fleet.pools] == ["d/a", "d/o", "d/p", "d/q", "e/p"]
    assert [f"{place.slice}/{place.device}" for place in places(seen.fleet)[:6]] == [
        "w-1/W",
        "o-1/O",
        "o-2/O",
        "o-2/P",
        "p-1/A",
        "p-1/B",
    ]
