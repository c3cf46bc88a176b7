"""Whole pods: required anti-affinity and topology spread among running pods, on a large fleet.

Times are processor time: the figures are of single steps, which other processes would interrupt.
"""

import gc
from time import thread_time
from typing import Any

from perf.deciding import Decider, Wrong, read_claim
from perf.fleets import gpus
from perf.fleets.objects import Json, claim, exactly
from perf.workload import Outcome, Progress, Size, Workload, latencies
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.plan import Granted
from reconciler.api.versions.reading import read
from reconciler.state.nodes.room import demand
from reconciler.state.nodes.table import Nodes

ZONES, APPS = 8, 100
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ALLOCATABLE = {"cpu": "64", "memory": "512Gi", "pods": "110"}


def podfit(size: Size, progress: Progress) -> Outcome:
    """Decisions for pods with both needs, and the events of pods between them."""
    labelled = [_located(raw, number) for number, raw in enumerate(gpus.fleet(size["nodes"]))]
    decider = Decider.over(labelled)
    nodes = Nodes()
    for raw in labelled:
        if raw["kind"] == Node.__name__:
            nodes.note(Changed(Node.__name__, read(raw)))
    names = [node.key.name for node in nodes.known]
    events = [_seconds_of_event(nodes, number, names) for number in range(size["pods"])]
    gc.collect()  # as the controller does once everything is listed
    gc.freeze()
    placement, seconds, placing = Placement(nodes, supposed=False), list[float](), list[float]()
    again = []
    for number in range(size["decisions"]):
        pod = _pod(f"new-{number}", number % APPS)
        asked = read_claim(claim(f"claim-{number}", [exactly("gpu", gpus.CLASS)]))
        began = thread_time()
        snapshot = decider.store.snapshot()
        choice = placement.for_pod(pod, (), snapshot)
        placing.append(thread_time() - began)
        answer = allocate([asked], snapshot, nodes=choice.nodes)
        if not isinstance(answer, Granted):
            raise Wrong(f"pod {pod.key} must fit: {placement.left_out(pod, (), snapshot)}")
        for plan in answer.plans:
            decider.store.assume(plan)
        nodes.host(pod.key, pod, answer.node, demand(pod))
        seconds.append(thread_time() - began)
        again.append(_seconds_of_event(nodes, number, names, gone=True))
        again.append(_seconds_of_event(nodes, number, names))
        progress(number + 1, size["decisions"])
    _check(nodes, size["decisions"])
    first = APPS if size["decisions"] > APPS else 0
    return Outcome(
        [
            *latencies(seconds[first:], "decision"),
            *latencies(placing[first:], "choice of nodes"),
            *latencies(seconds[: first or None], "first decision of a kind"),
            *latencies(again, "event of a pod"),
            *latencies(events, "event of a pod before any decision"),
        ]
    )


def _located(raw: Json, number: int) -> Json:
    """A node with a zone and room; anything else as it is."""
    if raw["kind"] != Node.__name__:
        return raw
    labels = {**raw["metadata"]["labels"], ZONE: f"zone-{number % ZONES}"}
    metadata = {**raw["metadata"], "labels": labels}
    return {**raw, "metadata": metadata, "status": {"allocatable": ALLOCATABLE}}


def _seconds_of_event(nodes: Nodes, number: int, names: list[str], *, gone: bool = False) -> float:
    """The time to take in that a pod runs, or is gone. Its app is spread over the nodes."""
    pod, node = _pod(f"run-{number}", number % APPS), names[(number * 7 + number // APPS) % len(names)]
    began = thread_time()
    nodes.host(pod.key, None if gone else pod, node, demand(pod))
    return thread_time() - began


def _pod(name: str, app: int) -> Pod:
    """A pod of an app, with anti-affinity to its like on a node and spread over zones."""
    selector = {"labelSelector": {"matchLabels": {"app": f"app-{app}"}}}
    apart = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": f"new-{app}"}}}]
    spread = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **selector}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}},
        "topologySpreadConstraints": [spread],
    }
    own = name.startswith("new-")
    labels = {"app": f"new-{app}" if own else f"app-{app}", "pod-template-hash": f"{app:x}", "name": name}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    found = read({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    assert isinstance(found, Pod)
    return found


def _check(nodes: Nodes, decisions: int) -> None:
    """Raise Wrong if two new pods of one app share a node."""
    residents = nodes.residents
    for app in range(min(APPS, decisions)):
        (term,) = residents.against(_pod("new-x", app))
        if not residents.having(term, but=()).any():
            raise Wrong(f"no pod has the anti-affinity of app {app}")


WORKLOADS = [
    Workload(
        "podfit",
        "nodes for pods with required anti-affinity and topology spread, among running pods; their events",
        podfit,
        {"": {"nodes": 5000, "pods": 50_000, "decisions": 600}},
        tiny={"nodes": 16, "pods": 64, "decisions": 8},
        repeats=1,
    ),
]
