"""The words of the filters that look at pods, nominated pods, and kinds that are listed on demand."""

from typing import Any

import pytest

from reconciler.api.objects.changes import Replaced
from reconciler.api.objects.core import GATE
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected, Unlisted
from reconciler.state.on_demand import NOT_LISTED, NOT_READABLE
from tests.tools.placed_pods import PlacedPods
from tests.tools.pod_scenarios import A, B, apart, labelled, near, spread, term, using, web
from tests.tools.scenario import asking, machine, running, sized
from tests.tools.small_fleet import Object

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
    assert world.left_out(using(asking("p"), 80)) == (
        "1 of 2 nodes suit the pod: 1 with host port 80/TCP in use"
    )


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


def test_domains_follow_the_labels_of_nodes():
    world = PlacedPods(A, B, web(running("there", "a", "1")))
    pod = asking("p", **apart(term("zone")))
    assert world.nodes_for(pod) == ["b"]
    world.put(machine("b", zone="z1"))
    assert world.nodes_for(pod) == []
    world.put(machine("b"))
    assert world.nodes_for(pod) == ["b"]
