"""What counts as usable is what some node's view offers, for every state of a pool."""

import numpy as np
from hypothesis import event, given

from reconciler.api.objects.semantics import PARTITIONABLE_DEVICES
from reconciler.errors import Rejected
from reconciler.state.devices.reach import SKIP_OPERATIONS
from reconciler.state.devices.readiness import offered, readiness
from tests.tools.allocation_strategies import worlds
from tests.tools.allocation_world import NEW, World, without
from tests.tools.builders import Object, device, devices, labelled, node, node_selector, resource_slice
from tests.tools.examples import examples

TWO: Object = {"slices": 2}


@examples(150)
@given(worlds(always=("trouble", "places")))
def test_a_device_is_offered_if_the_view_of_a_node_has_it(world: World):
    topology = world.snapshot().topology
    expected = np.zeros(topology.fleet.size, dtype=np.bool_)
    for name in topology.order:
        try:
            view = topology.view(name)
        except Rejected:
            continue
        rows = view.rows[view.here]
        if SKIP_OPERATIONS not in view.node.features:
            rows = rows[topology.fleet.codes["operations"][rows] < 0]
        expected[rows] = True
    event("a pool is broken" if readiness(topology).problems else "all pools are ready")
    assert offered(topology).tolist() == expected.tolist()


def problems(*objects: Object) -> list[str]:
    topology = World(objects, [], nodes=[node("n", zone="a"), node("m", zone="b")]).snapshot().topology
    return list(readiness(topology).problems.values())


def test_a_broken_pool_says_why():
    a, b = devices("A"), devices("B")
    found = problems(resource_slice("s", a, nodeName="n", **TWO))
    assert found == ["1 of 2 slices of generation 1 are published"]
    assert problems(
        resource_slice("s", a, nodeName="n"), resource_slice("t", b, nodeName="n", generation=2)
    ) == ["a newer generation is published"]
    assert problems(
        resource_slice("s", a, nodeName="n", **TWO), resource_slice("t", b, nodeName="m", generation=2)
    ) == ["generation 1 is obsolete: generation 2 is published"]
    assert problems(resource_slice("s", devices("A", "A"), nodeName="n")) == ["two devices are named A"]
    both: Object = {"nodeName": "n", "perDeviceNodeSelection": True}
    assert problems(resource_slice("s", [device("A", nodeName="m")], **both)) == [
        "the node selection of slice s is invalid: set only one of nodeName, perDeviceNodeSelection"
    ]
    unreadable = node_selector({"matchExpressions": [{"key": "zone", "operator": "Near"}]})
    assert "unknown operator" in problems(resource_slice("s", a, nodeSelector=unreadable, **TWO))[0]


def test_a_pool_of_a_node_that_is_gone_is_ready_but_not_offered():
    slices = [resource_slice("s", devices("A"), nodeName="gone"), resource_slice("t", devices("A"), pool="q")]
    slices[1]["spec"]["nodeSelector"] = node_selector(labelled("zone", "c"))
    there = World(slices, [], nodes=[node("n")]).snapshot().topology
    assert (readiness(there).ready.tolist(), offered(there).tolist()) == ([True, True], [False, False])
    without = World(slices, [], nodes=[]).snapshot().topology
    assert offered(without).tolist() == [True, True]


def test_a_slice_whose_gate_is_off_offers_nothing():
    slices = [resource_slice("s", [device("A", nodeName="n")], perDeviceNodeSelection=True)]
    for rules, expected in ((NEW, [True]), (without(PARTITIONABLE_DEVICES), [False])):
        topology = World(slices, [], nodes=[node("n")], rules=rules).snapshot().topology
        assert offered(topology).tolist() == expected
