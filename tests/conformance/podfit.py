"""Which nodes may a pod use? Our filters against those of kube-scheduler, filter by filter."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from reconciler.allocation.placement.filters import require_objects, tests_of
from reconciler.allocation.placement.pod_tests import Counters, PodQuestion, nodes_passing
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Pod, Taint
from reconciler.api.versions.reading import read
from reconciler.state.nodes.labels import UNSCHEDULABLE, tolerated
from reconciler.state.nodes.room import demand
from reconciler.state.nodes.table import Nodes
from tests.conformance.documents import Document
from tests.conformance.outcome import Mismatch, Outcome, judged

Case = Mapping[str, Any]
Refused = dict[str, list[str]]
"""Node -> the filters that refuse it"""

_KINDS = {
    "nodes": "Node",
    "namespaces": "Namespace",
    "pvs": "PersistentVolume",
    "pvcs": "PersistentVolumeClaim",
    "classes": "StorageClass",
    "csinodes": "CSINode",
    "csidrivers": "CSIDriver",
    "capacities": "CSIStorageCapacity",
    "attachments": "VolumeAttachment",
}
"""Key of a case -> the kind of its objects"""
_CORE = ("Node", "Pod", "Namespace", "PersistentVolume", "PersistentVolumeClaim")
_TAINTS = "TaintToleration"
_CORDONS = "NodeUnschedulable"


def recognises(data: Case) -> bool:
    """Whether this is one case."""
    return "pod" in data and "nodes" in data and "pods" in data


def run(found: Sequence[Document]) -> Iterator[Outcome]:
    """Every case."""
    for document in found:
        case = document.data
        yield judged(case["name"], partial(_mismatch, case))


def refused(case: Case) -> Refused:
    """The filters of ours that refuse each node, by the names that kube-scheduler gives them."""
    nodes = Nodes(on_wanted=lambda _: None)
    for key, kind in _KINDS.items():
        nodes.on_demand.listed(kind)
        for one in case.get(key) or ():
            nodes.note(Changed(kind, _typed(kind, one)))
    for one in case["pods"]:
        pod = _typed("Pod", one)
        assert isinstance(pod, Pod)
        nodes.host(pod.key, pod, pod.spec.node_name, demand(pod))
    pod = _typed("Pod", case["pod"])
    assert isinstance(pod, Pod)
    question = PodQuestion(pod, nodes, Counters(nodes, ()))
    require_objects(question)
    found: Refused = {node["metadata"]["name"]: [] for node in case["nodes"]}
    for test in tests_of(question):
        failed = ~nodes_passing(test, question.counters)
        for name, filters in found.items():
            row = nodes.row_of(name)
            assert row is not None
            if failed[row] and test.plugin not in filters:
                filters.append(test.plugin)
    own = nodes.tolerated_own(pod)
    cordon = Taint(key=UNSCHEDULABLE, effect="NoSchedule")
    for node in case["nodes"]:  # a cordon is a taint to us
        filters = found[node["metadata"]["name"]]
        if node["spec"].get("unschedulable") and not tolerated([cordon], pod.spec.tolerations):
            filters.append(_CORDONS)
            if own[nodes.row_of(node["metadata"]["name"])]:
                filters.remove(_TAINTS)
    return {name: sorted(filters) for name, filters in found.items()}


def _mismatch(case: Case) -> Mismatch | None:
    expected = {name: sorted(filters) for name, filters in case["expect"].items()}
    got = refused(case)
    return None if got == expected else Mismatch(expected, got)


def _typed(kind: str, raw: Case) -> Any:
    return read({**raw, "kind": kind, "apiVersion": "v1" if kind in _CORE else "storage.k8s.io/v1"})
