"""Which node reaches which device, and how many, against loops over JSON."""

import numpy as np
from hypothesis import given

from reconciler.analysis.explain.gates import NodeReach
from tests.tools.allocation_strategies import EVERYTHING, worlds
from tests.tools.allocation_world import World
from tests.tools.builders import claim, devices, node, request, resource_slice
from tests.tools.examples import examples
from tests.tools.naive_allocation import Scene, reaches
from tests.tools.one_test_each import in_order

FEATURED = {"status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}


def reached(world: World, name: str) -> list[bool]:
    scene = Scene(world, name)
    return [reaches(d.place, scene.node) and scene.may_operate(d) for d in in_order(scene)]


@examples(50)
@given(worlds(features=EVERYTHING, always=("places",)))
def test_a_node_reaches_what_a_loop_says(world: World):
    seen = world.snapshot()
    names = [n["metadata"]["name"] for n in world.nodes]
    for chosen in (None, names[:1]):
        places = NodeReach(seen, chosen)
        expected = {name: reached(world, name) for name in places.names}
        for number, name in enumerate(places.names):
            assert places.at(number).tolist() == expected[name]
        total = [sum(expected[name]) for name in places.names]
        assert places.counts(np.ones(seen.fleet.size, dtype=np.bool_)).tolist() == total
        union = [any(column) for column in zip(*expected.values(), strict=True)]
        assert places.reached().tolist() == union
        odd = np.arange(seen.fleet.size) % 2
        by_kind = places.table(odd, 2)
        assert by_kind.sum(axis=0).tolist() == total
        assert by_kind[1].tolist() == [sum(expected[name][1::2]) for name in places.names]


def test_devices_that_skip_operations_count_on_nodes_that_know_of_it():
    slices = [
        resource_slice("s", devices("A"), skipNodeOperations=["*"], allNodes=True),
        resource_slice("t", devices("B"), pool="q", allNodes=True),
    ]
    nodes = [{**node("new"), **FEATURED}, node("old")]
    places = NodeReach(World(slices, [claim("c", request())], nodes=nodes).snapshot(), None)
    everything = np.ones(2, dtype=np.bool_)
    assert dict(zip(places.names, places.counts(everything).tolist(), strict=True)) == {"new": 2, "old": 1}
    assert places.at(1).tolist() == [False, True]


def test_without_nodes_nothing_is_reached():
    world = World([resource_slice("s", devices("A"), allNodes=True)], [claim("c", request())])
    places = NodeReach(world.snapshot(), [])
    assert (places.names, places.reached().tolist()) == ((), [False])
