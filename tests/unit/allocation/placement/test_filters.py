"""The words of the filters that look at pods, nominated pods, and kinds that are listed on demand."""

from typing import Any

import pytest

from reconciler.allocation.placement.order import queue_key
from reconciler.allocation.placement.placing import NodeChoice, Placement
from reconciler.api.objects.changes import Changed, Removed, Replaced
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import GATE, Node
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected, Unlisted
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.table import Nodes
from reconciler.state.on_demand import NOT_LISTED, NOT_READABLE
from reconciler.state.store import Store
from tests.tools.pod_scenarios import A, B, PlacedPods, apart, labelled, near, spread, term, using, web
from tests.tools.scenario import asking, machine, running, sized
from tests.tools.small_fleet import Object, claim, held, node, pod
from tests.tools.unit_pictures import as_pod, typed

NAMESPACES = {"namespaceSelector": {"matchLabels": {"team": "x"}}}


@pytest.mark.parametrize(
    ("pod", "reason", "remedy"),
    [
        (
            using(asking("p"), 80),
            "with host port 80/TCP in use",
            "free host port 80/TCP on a node, or remove hostPort from the pod",
        ),
        (
            asking("p", **apart(term("zone"))),
            "with a pod in the same zone that the pod's anti-affinity excludes",
            "add nodes in other domains of zone, or relax podAntiAffinity",
        ),
        (
            labelled(asking("p"), app="db"),
            "with a pod in the same zone whose anti-affinity excludes the pod",
            "add nodes in other domains of zone, or relax that pod's podAntiAffinity",
        ),
        (
            asking("p", **near(term("zone", labelSelector={"matchLabels": {"app": "none"}}))),
            "without a pod of the required affinity in the same zone",
            "wait until a pod of the required affinity runs, or correct podAffinity",
        ),
        (
            web(asking("p", **spread("zone", minDomains=2))),
            "beyond maxSkew 1 of the topology spread over zone",
            "make room for the pod in other domains of zone, or raise maxSkew",
        ),
        (
            web(asking("p", **spread("rack"))),
            "without label rack of a topology spread constraint",
            "label the nodes with rack",
        ),
        (
            asking("p", hostNetwork=True, hostUsers=False),
            "without declared feature UserNamespacesHostNetworkSupport",
            "enable UserNamespacesHostNetworkSupport on the kubelets of more nodes",
        ),
    ],
)
def test_each_filter_has_its_reason_count_and_remedy(pod: Object, reason: str, remedy: str):
    guard = running("guard", "a", "1")
    excludes_db = apart(term("zone", labelSelector={"matchLabels": {"app": "db"}}))
    guard = {**guard, "spec": {**guard["spec"], **excludes_db}}
    world = PlacedPods(A, using(web(running("busy", "a", "1")), 80), guard)
    assert world.left_out(pod) == f"0 of 1 nodes suit the pod: 1 {reason}. To help: {remedy}"
    assert world.against(pod, "a") == [reason]


def test_room_names_each_resource_and_its_amounts():
    full = sized(machine("a"), cpu="1", memory="4Gi", pods="1")
    world = PlacedPods(full, running("busy", "a", "500m"))
    pod = asking("p", cpu="2")
    assert sorted(world.against(pod, "a")) == [
        "Insufficient cpu: the pod needs 2000m; 500m is free", "Too many pods",
    ]  # fmt: skip


def test_the_remedy_is_for_pods_that_suit_no_node():
    world = PlacedPods(A, B, using(running("busy", "a", "1"), 80))
    found = world.left_out(using(asking("p"), 80))
    assert found == "1 of 2 nodes suit the pod: 1 with host port 80/TCP in use"


def nominated(node: str, priority: int = 0, **rest: Any) -> Object:
    found = asking("nominated", priority=priority, schedulingGates=[], **rest)
    return {**found, "status": {"phase": "Pending", "nominatedNodeName": node}}


@pytest.mark.parametrize(
    ("other", "pod", "fits"),
    [
        (nominated("a", cpu="1"), asking("p", cpu="2"), False),
        (nominated("a", cpu="1"), asking("p", cpu="1"), True),
        (nominated("a", cpu="1"), asking("p", cpu="2", priority=1), True),
        (nominated("b", cpu="1"), asking("p", cpu="2"), True),
        (using(nominated("a"), 80), using(asking("p"), 80), False),
        (web(nominated("a")), asking("p", **apart(term("zone"))), False),
        (nominated("a", **apart(term("zone"))), web(asking("p")), False),
        (web(nominated("a")), web(asking("p", **spread("zone", minDomains=2))), False),
    ],
)
def test_a_pod_must_fit_with_the_nominated_pods(other: Object, pod: Object, fits: bool):
    world = PlacedPods(sized(A, cpu="2"), other)
    assert (world.nodes_for(pod) == ["a"]) == fits
    reasons = "" if fits else "0 of 1 nodes suit the pod: 1 kept for nominated pods"
    assert world.left_out(pod).partition(". To help")[0] == reasons


def test_a_pod_must_fit_without_the_nominated_pods_too():
    """They are not there yet, and may go elsewhere."""
    world = PlacedPods(A, web(nominated("a")))
    assert world.nodes_for(asking("p", **near(term("zone")))) == []


def test_a_hint_on_a_pod_with_our_gate_keeps_no_room():
    """Nobody takes it back if the process ends; what is held for the pod has a deadline."""
    hinted = nominated("a", cpu="1")
    hinted["spec"]["schedulingGates"] = [{"name": GATE}]
    assert PlacedPods(sized(A, cpu="2"), hinted).nodes_for(asking("p", cpu="2")) == ["a"]


def test_a_nominated_pod_does_not_stand_in_its_own_way():
    world = PlacedPods(sized(A, cpu="2"), nominated("a", cpu="2"))
    assert world.nodes_for(nominated("a", cpu="2")) == ["a"]


@pytest.mark.parametrize("own", [True, False])
def test_namespaces_are_asked_for_only_when_they_decide(own: bool):
    wanted: list[str] = []
    guard = running("guard", "a", "1")
    selecting = apart(term("zone", **NAMESPACES))
    guard = {**guard, "spec": {**guard["spec"], **({} if own else selecting)}}
    world = PlacedPods(A, guard, wanted=wanted)
    assert world.nodes_for(asking("plain")) == ["a"]
    assert world.nodes_for(asking("p", **apart(term("zone", namespaceSelector={})))) == ["a"]
    assert wanted == []
    asked = asking("p", **selecting) if own else web(asking("p"))
    with pytest.raises(Unlisted, match="needs Namespace objects, which are not listed yet") as first:
        world.nodes_for(asked)
    assert (first.value.reason, wanted) == (NOT_LISTED, ["Namespace"])
    assert world.nodes.on_demand.failed("Namespace", "403: forbidden")
    assert not world.nodes.on_demand.failed("Namespace", "403: forbidden")
    with pytest.raises(Unlisted, match="403: forbidden; grant list and watch") as second:
        world.nodes_for(asked)
    assert second.value.reason == NOT_READABLE
    team = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "x"}}}
    world.nodes.note(Replaced("Namespace", (read(team),), ()))
    assert world.nodes.on_demand.listed("Namespace")
    assert world.nodes_for(asked) == (["a"] if own else [])
    assert wanted == ["Namespace"]


def test_labels_of_namespaces_that_change_count_at_once():
    def namespace(team: str) -> Object:
        metadata = {"name": "other", "labels": {"team": team}}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}

    world = PlacedPods(A, namespace("y"), labelled(running("there", "a", "1"), "other", app="web"))
    pod = asking("p", **apart(term("zone", **NAMESPACES)))
    assert world.nodes_for(pod) == ["a"]
    world.put(namespace("x"))
    assert world.nodes_for(pod) == []


def test_a_selector_that_cannot_be_read_refuses_its_pod_alone():
    bad = term("zone", labelSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]})
    guard = running("guard", "a", "1")
    world = PlacedPods(A, {**guard, "spec": {**guard["spec"], **apart(bad)}})
    with pytest.raises(Rejected, match="label selector: a Like: unknown operator"):
        world.nodes_for(asking("p", **apart(bad)))
    assert world.nodes_for(asking("q")) == ["a"]


# -- The nodes that a pod or a claim may use, and the switch for nodes that only slices name.


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


# -- Who is allocated first.


EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"


def made(raw: Object, created: str = "", namespace: str = "default") -> Object:
    metadata = {**raw["metadata"], "namespace": namespace}
    return {**raw, "metadata": {**metadata, **({"creationTimestamp": created} if created else {})}}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(pod("z", priority=2), pod("a", priority=1), id="priority"),
        pytest.param(pod("z", priority=1), claim("a"), id="a claim alone has priority 0"),
        pytest.param(claim("z"), pod("a", priority=-1), id="a negative priority comes after claims alone"),
        pytest.param(made(claim("z"), EARLY), made(claim("a"), LATE), id="older"),
        pytest.param(made(claim("z"), LATE), claim("a"), id="without a timestamp: the youngest"),
        pytest.param(made(pod("z"), LATE), pod("a"), id="so are pods"),
        pytest.param(made(claim("z"), "", "a"), made(claim("a"), "", "b"), id="namespace"),
        pytest.param(claim("a"), claim("b"), id="name"),
        pytest.param(pod("a"), claim("a"), id="a pod before a claim of the same name"),
    ],
)
def test_the_first_goes_first(first: Object, second: Object):
    assert queue_key(typed(first)) < queue_key(typed(second))
