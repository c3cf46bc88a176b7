"""The nodes of a pod, against kube-scheduler's rules written out with loops; in any order of events."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.changes import Change, Changed, Removed, Replaced
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.nodes.room import Charge, demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from tests.tools import node_twin
from tests.tools.examples import examples

Object = dict[str, Any]
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/nic", "hugepages-2Mi")
AMOUNTS = st.sampled_from(["0", "1", "2", "3", "500m", "1500m", "1e0", "0.1", "1n"])
SIZES = st.sampled_from(["0", "1", "2", "4", "2500m", "8"])
KEYS, VALUES = st.sampled_from(["a", "b"]), st.sampled_from(["", "x"])
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")


def some(values: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(RESOURCES), values, max_size=3)


containers = st.builds(
    lambda requests, limits, always: {
        "name": "c",
        "resources": {"requests": requests, "limits": limits},
        **({"restartPolicy": "Always"} if always else {}),
    },
    some(AMOUNTS),
    some(AMOUNTS),
    st.booleans(),
)
tolerations = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(
            ["a", "b", "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready"]
        ),
        "operator": st.sampled_from(["Equal", "Exists", "Gt"]),
        "value": VALUES,
        "effect": st.sampled_from([*EFFECTS, ""]),
    },
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> Object:
    spec: Object = {
        "containers": draw(st.lists(containers, min_size=1, max_size=2)),
        "initContainers": draw(st.lists(containers, max_size=3)),
        "tolerations": draw(st.lists(tolerations, max_size=2)),
        "overhead": draw(some(AMOUNTS)),
        "nodeSelector": draw(st.dictionaries(KEYS, VALUES, max_size=1)),
    }
    if draw(st.booleans()):
        spec["resources"] = {"requests": draw(some(AMOUNTS))}
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Object:
    taint = st.fixed_dictionaries({"key": KEYS, "value": VALUES, "effect": st.sampled_from(EFFECTS)})
    allocatable, sized = draw(some(SIZES)), draw(st.booleans())
    if allocatable or sized:
        allocatable["pods"] = draw(st.sampled_from(["0", "1", "2", "9"]))
    conditions = draw(
        st.sampled_from([[], *[[{"type": "Ready", "status": s}] for s in ("True", "False", "Unknown")]])
    )
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": draw(st.dictionaries(KEYS, VALUES))},
        "spec": {
            "taints": draw(st.lists(taint, max_size=2)),
            "unschedulable": draw(st.sampled_from([False, False, True])),
        },
        "status": {"allocatable": allocatable, "conditions": conditions},
    }


NAMES = ("n0", "n1", "n2")


class Picture:
    """Nodes and pods as they change, beside the objects as they are at the end."""

    def __init__(self) -> None:
        self.store, self.table = Store(Semantics()), Nodes()
        self.placement = Placement(self.table, supposed=False)
        self.nodes: dict[str, Object] = {}
        self.pods: dict[str, tuple[Object, str]] = {}

    def tell(self, change: Change) -> None:
        self.store.apply(change)
        self.table.note(change)

    def put(self, node: Object) -> None:
        self.nodes[node["metadata"]["name"]] = node
        self.tell(Changed("Node", read(node)))

    def drop(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self.tell(Removed("Node", ObjectKey("", name)))

    def relist(self) -> None:
        self.tell(Replaced("Node", tuple(read(node) for node in self.nodes.values()), ()))

    def run(self, pod: Object, on: str | None) -> None:
        """The pod is on a node now, or gone."""
        typed = as_pod(pod)
        self.pods.pop(pod["metadata"]["name"], None)
        if on is not None:
            self.pods[pod["metadata"]["name"]] = pod, on
        self.table.room.charge(typed.key, Charge(on, demand(typed)) if on is not None else None)

    def found(self, pod: Object) -> list[str]:
        world = self.store.snapshot()
        there = self.placement.for_pod(as_pod(pod), [], world)
        return list(world.topology.order if there.nodes is None else there.nodes)

    def expected(self, pod: Object) -> list[str]:
        return [
            name
            for name, node in sorted(self.nodes.items())
            if node_twin.fits(pod, node, [other for other, on in self.pods.values() if on == name])
        ]


def as_pod(raw: Mapping[str, Any]) -> Pod:
    found = read(raw)
    assert isinstance(found, Pod)
    return found


@st.composite
def steps(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["put", "put", "run", "run", "drop", "gone", "list"]))
    name = draw(st.sampled_from(NAMES))
    number = draw(st.integers(0, 3))
    return kind, draw(nodes(name)), draw(pods(f"p{number}")), name


@examples(60)
@given(st.lists(steps(), max_size=10), pods("asked"))
def test_places_are_those_of_the_rules_after_any_events(events: list[Any], asked: Object):
    picture = Picture()
    for kind, node, pod, name in events:
        match kind:
            case "put":
                picture.put(node)
            case "drop":
                picture.drop(name)
            case "list":
                picture.relist()
            case "run":
                picture.run(pod, name)
            case "gone":
                picture.run(pod, None)
        picture.found(asked)  # what is kept between questions must follow
    expected = picture.expected(asked)
    assert picture.found(asked) == expected
    world = picture.store.snapshot()
    for name in picture.nodes:
        reasons = picture.placement.against(as_pod(asked), name, world)
        assert (reasons == []) == (name in expected)
    text = picture.placement.left_out(as_pod(asked), [], world)
    assert (text == "") == (len(expected) == len(picture.nodes))
    assert not text or text.startswith(f"{len(expected)} of {len(picture.nodes)} nodes suit the pod: ")


@examples(60)
@given(pods("p"))
def test_what_a_pod_takes_is_what_the_rule_says(raw: Object):
    taken = demand(as_pod(raw))
    assert taken.pop("pods") == 1
    expected = {name: node_twin.effective(raw, name) for name in node_twin.names(raw)}
    assert taken == {name: amount for name, amount in expected.items() if amount}


def test_amounts_beyond_64_bits_neither_overflow_nor_spoil_what_comes_after():
    picture = Picture()
    picture.put({**as_node("n0"), "status": {"allocatable": {"pods": "9", "memory": "1Gi"}}})
    for number in range(4):
        picture.run(asking(f"p{number}", memory="7Ei"), "n0")
    assert picture.found(asking("q", memory="1Mi")) == []
    for number in range(4):
        picture.run(asking(f"p{number}", memory="7Ei"), None)
    assert picture.found(asking("q", memory="1Gi")) == ["n0"]


def test_a_resource_that_a_class_backs_is_had_elsewhere_where_the_node_has_none():
    picture = Picture()
    picture.put({**as_node("n0"), "status": {"allocatable": {"pods": "9", "example.com/gpu": "1"}}})
    picture.put({**as_node("n1"), "status": {"allocatable": {"pods": "9", "cpu": "1"}}})
    pod = as_pod(asking("p", **{"example.com/gpu": "2"}))
    there = picture.placement.for_pod(
        pod, [], picture.store.snapshot(), offered=frozenset({"example.com/gpu"})
    )
    assert there.nodes is not None
    assert list(there.nodes) == ["n1"]
    assert there.crowded


def as_node(name: str) -> Object:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}


def asking(name: str, **requests: str) -> Object:
    container = {"name": "c", "resources": {"requests": requests}}
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": [container]}}
