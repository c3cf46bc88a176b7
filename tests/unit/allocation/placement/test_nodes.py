"""The nodes that a pod or a claim may use, and the switch for nodes that only slices name."""

from typing import Any

import pytest

from reconciler.allocation.placement.placing import NodeChoice, Placement
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from tests.tools.small_fleet import Object, claim, held, node, pod
from tests.tools.unit_pictures import as_pod, typed


def picture(described: list[Object], *supposed: Object) -> tuple[Nodes, Snapshot]:
    nodes, store = Nodes(), Store(Semantics())
    for raw in (*described, *supposed):
        store.apply(Changed("Node", typed(raw)))
    for raw in described:
        nodes.note(Changed("Node", typed(raw)))
    for raw in supposed:
        nodes.suppose(typed(raw))
    return nodes, store.snapshot()


def names(choice: NodeChoice, world: Snapshot) -> tuple[str, ...]:
    return world.topology.order if choice.nodes is None else tuple(choice.nodes)


@pytest.mark.parametrize(("supposed", "expected"), [(True, ("a", "b")), (False, ("b",))])
def test_they_are_used_where_that_is_allowed(supposed: bool, expected: tuple[str, ...]):
    nodes, world = picture([node("b")], node("a"))
    placement = Placement(nodes, supposed=supposed)
    assert names(placement.for_claim(world), world) == expected
    assert names(placement.for_pod(as_pod(pod("p")), (), world), world) == expected
    bound = as_pod(pod("p", nodeName="a"))
    assert names(placement.for_pod(bound, (), world), world) == (("a",) if supposed else ())


def test_what_is_left_out_is_told():
    nodes, world = picture([node("b")], node("a"))
    placement, found = Placement(nodes, supposed=False), as_pod(pod("p"))
    assert placement.left_out(found, (), world) == "1 of 2 nodes suit the pod: 1 without a Node object"
    assert placement.against(found, "a", world) == ["there is no Node object"]
    assert placement.against(found, "b", world) == []
    bound = as_pod(pod("p", nodeName="a"))
    assert placement.left_out(bound, (), world) == "the pod is bound to node a, which does not exist"


def test_a_node_object_wins_and_takes_the_supposition_along_when_it_goes():
    nodes, _ = picture([], node("a", zone="x"))
    assert nodes.supposed == {"a"}
    described = typed(node("a", zone="y"))
    assert isinstance(described, Node)
    nodes.note(Changed("Node", described))
    nodes.suppose(typed(node("a", zone="z")))
    assert nodes.supposed == frozenset()
    assert [one.metadata.labels for one in nodes.known] == [described.metadata.labels]
    nodes.note(Removed("Node", ObjectKey("", "a")))
    assert not nodes.known


# -- what a pod says about nodes

ZONES = {"b": "east", "a": "east", "c": "west"}


def affinity(*terms: Object) -> Object:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expression(operator: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": list(values)}]}


def holding(on: str) -> ResourceClaim:
    found = typed({**claim(f"on-{on}"), "status": held("d", "p", "x", on=on)})
    assert isinstance(found, ResourceClaim)
    return found


@pytest.mark.parametrize(
    ("spec", "on", "expected"),
    [
        pytest.param({}, "", "abc", id="nothing said: any node, by name"),
        pytest.param({"nodeSelector": {"zone": "east"}}, "", "ab", id="labels"),
        pytest.param({"nodeSelector": {"zone": "north"}}, "", "", id="labels of no node"),
        pytest.param(affinity(expression("NotIn", "east")), "", "c", id="affinity"),
        pytest.param(affinity(expression("In", "north"), expression("In", "west")), "", "c", id="any term"),
        pytest.param(affinity({}), "", "", id="an empty term matches no node"),
        pytest.param({"nodeName": "b"}, "", "b", id="bound already"),
        pytest.param({"nodeName": "b", "nodeSelector": {"zone": "west"}}, "", "b", id="where it is, it is"),
        pytest.param({"nodeName": "gone"}, "", "", id="bound to what is no node"),
        pytest.param({}, "c", "c", id="where another claim is"),
        pytest.param({"nodeSelector": {"zone": "east"}}, "c", "", id="labels against another claim"),
        pytest.param({}, "ac", "", id="two claims on two nodes"),
        pytest.param({"affinity": {}}, "", "abc", id="no required affinity"),
    ],
)
def test_the_nodes_of_a_pod(spec: dict[str, Any], on: str, expected: str):
    nodes, world = picture([node(name, zone=zone) for name, zone in ZONES.items()])
    choice = Placement(nodes, supposed=False).for_pod(as_pod(pod("p", **spec)), map(holding, on), world)
    assert names(choice, world) == tuple(expected)


def test_an_affinity_that_cannot_be_read_is_rejected():
    nodes, world = picture([node("a")])
    with pytest.raises(Rejected, match="Near"):
        Placement(nodes, supposed=True).for_pod(
            as_pod(pod("p", **affinity(expression("Near", "x")))), (), world
        )


def test_a_bound_pod_can_be_looked_at_as_if_it_were_not():
    nodes, world = picture([node(name, zone=zone) for name, zone in ZONES.items()])
    bound = as_pod(pod("p", nodeName="c", nodeSelector={"zone": "east"}))
    assert names(Placement(nodes, supposed=False).before_binding(bound, (), world), world) == ("a", "b")
