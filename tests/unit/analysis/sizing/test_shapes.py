"""Nodes of the fleet as templates for new ones."""

from reconciler.analysis.sizing.patterns import distinct_shapes, shape_of
from reconciler.api.objects.core import Node
from reconciler.api.objects.slices import ResourceSlice
from tests.tools.builders import Object, devices, gpu_slice, node, resource_slice, typed


def node_of(raw: Object) -> Node:
    found = typed(raw)
    assert isinstance(found, Node)
    return found


def slices_of(*raws: Object) -> list[ResourceSlice]:
    return [one for one in map(typed, raws) if isinstance(one, ResourceSlice)]


def test_a_new_node_is_ready_and_not_cordoned_but_keeps_its_own_taints():
    raw = node("a")
    closed = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    own = {"key": "gpu", "effect": "NoSchedule"}
    raw["spec"] = {"unschedulable": True, "taints": [closed, own]}
    raw["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    made = shape_of(node_of(raw), []).node
    assert (made.spec.unschedulable, made.status.conditions) == (None, ())
    assert [taint.key for taint in made.spec.taints] == ["gpu"]


def test_slices_of_other_nodes_do_not_come_with_it_and_its_pools_are_complete():
    here = resource_slice("s1", devices("g"), pool="p", slices=2, nodeName="a")
    there = resource_slice("s2", devices("h"), pool="p", slices=2, nodeName="b")
    old = resource_slice("s0", devices("g"), pool="p", slices=1, generation=0, nodeName="a")
    everywhere = resource_slice("net", devices("n"), pool="net", allNodes=True)
    (own,) = shape_of(node_of(node("a")), slices_of(old, here, there, everywhere)).slices
    assert (own.key.name, own.spec.pool.resource_slice_count) == ("s1", 1)


def test_nodes_that_publish_as_much_are_one_shape():
    nodes = [node_of(node(name)) for name in "abcd"]
    slices = slices_of(gpu_slice("a", 2), gpu_slice("b", 4), gpu_slice("c", 2))
    assert [(one.name, one.devices) for one in distinct_shapes(nodes, slices)] == [("a", 2), ("b", 4)]
