"""Scenarios in which other pods, or what kubelets declare, decide where a pod may run."""

from typing import Any

from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Pod
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.nodes.room import demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from tests.tools.scenario import Given, asking, fleet, machine, running, sized
from tests.tools.small_fleet import Object, claim

HOST, ZONE = "kubernetes.io/hostname", "zone"
A, B = machine("a", zone="z1"), machine("b", zone="z2")


def labelled(found: Object, namespace: str = "default", **labels: str) -> Object:
    """The same object with labels, in a namespace."""
    return {**found, "metadata": {**found["metadata"], "namespace": namespace, "labels": labels}}


def using(found: Object, port: int, **rest: str) -> Object:
    """The same pod, which uses a port of its node."""
    (container,) = found["spec"]["containers"]
    ports = [{"containerPort": 8080, "hostPort": port, "protocol": "TCP", **rest}]
    return {**found, "spec": {**found["spec"], "containers": [{**container, "ports": ports}]}}


def term(key: str, **rest: Any) -> Object:
    """A term that selects pods with the label `app: web`."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}, **rest}


def near(*terms: Object) -> Object:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def apart(*terms: Object) -> Object:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def spread(key: str, **rest: Any) -> Object:
    selected = {"labelSelector": {"matchLabels": {"app": "web"}}}
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", **selected, **rest}
    return {"topologySpreadConstraints": [constraint]}


def tolerating(operator: str, value: str) -> Object:
    return {"tolerations": [{"key": "level", "operator": operator, "value": value}]}


def web(found: Object) -> Object:
    return labelled(found, app="web")


POD_SCENARIOS = {
    "a host port is used once on a node, from the decision on": Given(
        *fleet(A, B),
        using(running("busy", "a", "1"), 80),
        *(claim(name) for name in "wxyz"),
        using(asking("p", "x"), 80),
        using(asking("q", "y"), 80, hostIP="10.0.0.1"),
        using(asking("r", "z"), 81),
        using(asking("s", "w"), 80, protocol="UDP"),
    ).then({"pod p": "b: d0", "pod q": "NoNode", "pod r": "a: d0", "pod s": "a: d1"}),
    "pods with anti-affinity to each other are apart, from the decision on": Given(
        *fleet(A, B),
        *(claim(name) for name in "xyz"),
        *(web(asking(name, of, **apart(term(HOST)))) for name, of in zip("pqr", "xyz", strict=True)),
    ).then({"pod p": "a: d0", "pod q": "b: d0", "pod r": "NoNode"}),
    "the anti-affinity of a running pod keeps others away": Given(
        *fleet(A, B),
        {**running("guard", "a", "1"), "spec": {**running("guard", "a", "1")["spec"], **apart(term(ZONE))}},
        *map(claim, "xy"),
        web(asking("p", "x")),
        asking("q", "y"),
    ).then({"pod p": "b: d0", "pod q": "a: d0"}),
    "the first pod of a series goes anywhere, the others follow it": Given(
        *fleet(A, B),
        *(claim(name) for name in "xyz"),
        asking("o", "z", **near(term(ZONE), term(HOST, labelSelector={"matchLabels": {"app": "db"}}))),
        web(asking("p", "x", nodeSelector={ZONE: "z2"}, **near(term(ZONE)))),
        web(asking("q", "y", **near(term(ZONE)))),
    ).then({"pod o": "NoNode", "pod p": "b: d0", "pod q": "b: d1"}),
    "pods spread over zones, from the decision on": Given(
        *fleet(A, B),
        *(claim(name) for name in "xyz"),
        *(web(asking(name, of, **spread(ZONE))) for name, of in zip("pqr", "xyz", strict=True)),
    ).then({"pod p": "a: d0", "pod q": "b: d0", "pod r": "a: d1"}),
    "too few domains count as an empty one": Given(
        *fleet(A, B),
        web(running("there", "a", "1")),
        *map(claim, "xy"),
        web(asking("p", "x", **spread(ZONE, minDomains=3))),
        web(asking("q", "y", **spread(ZONE, minDomains=3))),
    ).then({"pod p": "b: d0", "pod q": "NoNode"}),
    "anti-affinity to pods of namespaces with a label": Given(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "labels": {"team": "x"}}},
        *fleet(A, B),
        labelled(running("there", "a", "1"), "other", app="web"),
        *map(claim, "xy"),
        asking("p", "x", **apart(term(HOST, namespaceSelector={"matchLabels": {"team": "x"}}))),
        asking("q", "y", **apart(term(HOST, namespaceSelector={"matchLabels": {"team": "y"}}))),
    ).then({"pod p": "b: d0", "pod q": "a: d0"}, live_order=False),
    "keys of the pod's own labels narrow its anti-affinity": Given(
        *fleet(A, B),
        labelled(running("there", "a", "1"), app="web", version="1"),
        *map(claim, "xy"),
        labelled(asking("p", "x", **apart(term(HOST, matchLabelKeys=["version"]))), app="db", version="2"),
        labelled(asking("q", "y", **apart(term(HOST, mismatchLabelKeys=["version"]))), app="db", version="2"),
    ).then({"pod p": "a: d0", "pod q": "b: d0"}),
    "nominated pods of the same or a higher priority keep their room": Given(
        *fleet(sized(A, cpu="2"), sized(B, cpu="2")),
        {
            **asking("nominated", cpu="2", schedulingGates=[], priority=5),
            "status": {"phase": "Pending", "nominatedNodeName": "a"},
        },
        *map(claim, "xy"),
        asking("p", "x", cpu="1"),
        asking("q", "y", cpu="1", priority=6),
    ).then({"pod q": "a: d0", "pod p": "b: d0"}),
    "tolerations compare numbers": Given(
        *fleet(machine("a", spec={"taints": [{"key": "level", "value": "5", "effect": "NoSchedule"}]}), B),
        *(claim(name) for name in "xyz"),
        asking("p", "x", **tolerating("Gt", "3")),
        asking("q", "y", **tolerating("Lt", "3")),
        asking("r", "z", **tolerating("Gt", "5")),
    ).then({"pod p": "a: d0", "pod q": "b: d0", "pod r": "b: d1"}),
    "a kubelet must declare the features that a pod needs": Given(
        *fleet(A, {**B, "status": {**B["status"], "declaredFeatures": ["UserNamespacesHostNetworkSupport"]}}),
        *map(claim, "xy"),
        asking("p", "x", hostNetwork=True, hostUsers=False),
        asking("q", "y", hostNetwork=True),
    ).then({"pod p": "b: d0", "pod q": "a: d0"}),
}


# -- Nodes with pods, and what placement says about another pod.


class PlacedPods:
    """Nodes and pods, and what placement says."""

    def __init__(self, *objects: Object, wanted: list[str] | None = None, volumes: bool = True) -> None:
        self.store = Store(Semantics())
        self.nodes = Nodes(on_wanted=None if wanted is None else wanted.append, volumes=volumes)
        self.placement = Placement(self.nodes, supposed=False)
        for one in objects:
            self.put(one)

    def put(self, raw: Object) -> None:
        thing = read(raw)
        change = Changed(raw["kind"], thing)
        self.store.apply(change)
        self.nodes.note(change)
        if isinstance(thing, Pod):
            self.nodes.residents.nominate(thing.key, None if thing.spec.node_name else thing)
            self.nodes.host(thing.key, thing, thing.spec.node_name, demand(thing))

    def left_out(self, raw: Object) -> str:
        return self.placement.left_out(as_pod(raw), (), self.store.snapshot())

    def against(self, raw: Object, node: str) -> list[str]:
        return self.placement.against(as_pod(raw), node, self.store.snapshot())

    def nodes_for(self, raw: Object) -> list[str]:
        found = self.placement.for_pod(as_pod(raw), (), self.store.snapshot()).nodes
        return [node.key.name for node in self.nodes.known] if found is None else list(found)


def as_pod(raw: Object) -> Pod:
    found = read(raw)
    assert isinstance(found, Pod)
    return found
