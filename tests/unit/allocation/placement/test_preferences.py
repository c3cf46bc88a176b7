"""What pods prefer, against kube-scheduler's scores written out node by node."""

from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.placement.order import pod_preferences
from reconciler.allocation.policies.policy import PodPreferences
from tests.tools import node_twin as naive
from tests.tools.examples import examples
from tests.tools.pod_scenarios import PlacedPods, as_pod

Object = dict[str, Any]
PREFERRED, REQUIRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("preferred", "required"))
KEYS = ("zone", "rack", naive.HOST)
WEIGHTS = (1, 2, 7, 29)


def _labels(draw: Random) -> Object:
    return draw.choice([{"app": "x"}, {"app": "x"}, {"app": "y"}, {}])


def _term(draw: Random) -> Object:
    found = {"topologyKey": draw.choice(KEYS), "labelSelector": {"matchLabels": _labels(draw)}}
    return {**found, "namespaces": ["n", "m"]} if draw.random() < 0.2 else found


def _weighted(draw: Random) -> list[Object]:
    terms = range(draw.randrange(3))
    return [{"weight": draw.choice(WEIGHTS), "podAffinityTerm": _term(draw)} for _ in terms]


def _node_terms(draw: Random) -> list[Object]:
    found = []
    for _ in range(draw.randrange(3)):
        keys = draw.choice([["zone"], ["rack"], ["zone", "rack"], []])
        needed = [{"key": key, "operator": "In", "values": ["1", "2"]} for key in keys]
        found.append({"weight": draw.choice(WEIGHTS), "preference": {"matchExpressions": needed}})
    return found


def _spread(draw: Random) -> Object:
    policies = {}
    if draw.random() < 0.3:
        policies["nodeAffinityPolicy"] = "Ignore"
    if draw.random() < 0.3:
        policies["nodeTaintsPolicy"] = "Honor"
    return {
        "maxSkew": draw.randint(1, 4),
        "topologyKey": draw.choice(KEYS),
        "whenUnsatisfiable": draw.choice(["ScheduleAnyway", "ScheduleAnyway", "DoNotSchedule"]),
        "labelSelector": {"matchLabels": {"app": "x"}},
        **policies,
    }


def _pod(draw: Random, name: str, node: str = "") -> Object:
    affinity: Object = {"podAffinity": {}, "podAntiAffinity": {}}
    if draw.random() < 0.5:
        affinity["podAffinity"][PREFERRED] = _weighted(draw)
    if draw.random() < 0.5:
        affinity["podAntiAffinity"][PREFERRED] = _weighted(draw)
    if draw.random() < 0.5:
        affinity["podAffinity"][REQUIRED] = [_term(draw)]
    affinity["nodeAffinity"] = {PREFERRED: _node_terms(draw)} if draw.random() < 0.3 else {}
    tolerations = [
        {"operator": "Exists", "key": draw.choice(["a", "b", ""]), "effect": effect}
        for effect in ("PreferNoSchedule", "NoSchedule", "")
        if draw.random() < 0.2
    ]
    spec: Object = {"containers": [{"name": "c"}], "affinity": affinity, "tolerations": tolerations}
    metadata: Object = {"name": name, "namespace": draw.choice("nnm"), "labels": _labels(draw)}
    if node:
        spec["nodeName"] = node
        if draw.random() < 0.2:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    else:
        spec["topologySpreadConstraints"] = [_spread(draw) for _ in range(draw.randrange(3))]
        spec["nodeSelector"] = draw.choice([{}, {}, {"zone": "1"}])
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def _node(draw: Random, name: str) -> Object:
    labels = {key: draw.choice("123") for key in ("zone", "rack") if draw.random() < 0.8}
    if draw.random() < 0.9:
        labels[naive.HOST] = draw.choice([name, name, "a"])
    effects = ("PreferNoSchedule", "PreferNoSchedule", "NoSchedule")
    taints = [{"key": draw.choice("ab"), "effect": effect} for effect in effects if draw.random() < 0.2]
    metadata = {"name": name, "labels": labels}
    return {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": {"taints": taints}}


@examples(60)
@given(st.integers(0, 2**32))
def test_points_are_those_of_kube_scheduler_node_by_node(seed: int):
    """Also after pods ended and others came, since the wishes of pods follow event by event."""
    draw = Random(seed)
    nodes = [_node(draw, name) for name in "abcdef"[: draw.randint(2, 6)]]
    cluster: list[tuple[Object, list[Object]]] = [(node, []) for node in nodes]
    world, pod = PlacedPods(*nodes), _pod(draw, "p")
    _points(world, pod, np.ones(len(nodes), dtype=np.bool_))  # from now on columns follow
    for number in range(draw.randrange(12)):
        node, there = draw.choice(cluster)
        there.append(_pod(draw, f"o{number}", node["metadata"]["name"]))
        world.put(there[-1])
        if number % 4 == 3:
            world.nodes.host(as_pod(there.pop(0)).key, None)
    among = np.array([draw.random() < 0.8 for _ in nodes])
    among[draw.randrange(len(nodes))] = True
    chosen = [node for node, some in zip(nodes, among.tolist(), strict=True) if some]
    expected = naive.points(pod, chosen, cluster)
    found = _points(world, pod, among)[among].tolist()
    # What is the same for all nodes may be left out.
    assert _above_least(found) == _above_least([expected[node["metadata"]["name"]] for node in chosen])


def _points(world: PlacedPods, pod: Object, among: np.ndarray) -> np.ndarray:
    snapshot = world.store.snapshot()
    found = pod_preferences(as_pod(pod), world.nodes, snapshot.topology.order)
    return (found or PodPreferences()).points(among)


def _above_least(points: list[int]) -> list[int]:
    return [one - min(points) for one in points]


def test_what_cannot_be_read_counts_for_nothing():
    """And labels of namespaces are asked for without waiting."""
    wanted: list[str] = []
    world = PlacedPods(*(_node(Random(0), name) for name in "ab"), wanted=wanted)
    bad = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "?"}]}}
    soft = {"topologyKey": "zone", "namespaceSelector": {"matchLabels": {"team": "x"}}}
    broken = [{"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "?"}]}}]
    affinity = {
        "nodeAffinity": {PREFERRED: broken},
        "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": bad}]},
    }
    spread = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **bad}
    pod = _pod(Random(0), "p")
    pod["spec"] |= {
        "affinity": affinity,
        "topologySpreadConstraints": [spread],
        "tolerations": [{"operator": "Exists"}],
    }
    assert pod_preferences(as_pod(pod), world.nodes, ("a", "b")) is None
    assert wanted == []
    affinity["podAffinity"] = {PREFERRED: [{"weight": 1, "podAffinityTerm": soft}]}
    assert pod_preferences(as_pod(pod), world.nodes, ("a", "b")) is None
    assert wanted == ["Namespace"]
