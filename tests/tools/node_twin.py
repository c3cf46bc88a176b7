"""kube-scheduler's rules for one pod and one node, written out with loops over objects as JSON."""

import math
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from reconciler.api.objects.quantity import NANO, Quantity

Object = Mapping[str, Any]


def nanos(text: str) -> int:
    return Quantity.parse(text).nanos


def request(container: Object, name: str) -> int:
    """A container's request; the API server fills in the limit where there is none."""
    resources = container.get("resources", {})
    text = resources.get("requests", {}).get(name, resources.get("limits", {}).get(name, "0"))
    return nanos(text)


def effective(pod: Object, name: str) -> int:
    """What a pod takes of a resource: thousandths of a CPU, whole units of all else, rounded up."""
    spec = pod["spec"]
    sidecars, peak = 0, 0
    for container in spec.get("initContainers", []):
        if container.get("restartPolicy") == "Always":
            sidecars += request(container, name)
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + request(container, name))
    total = max(sidecars + sum(request(c, name) for c in spec["containers"]), peak)
    whole = spec.get("resources", {}).get("requests", {})
    if name in whole and (name in ("cpu", "memory") or name.startswith("hugepages-")):
        total = nanos(whole[name])
    total += nanos(spec.get("overhead", {}).get(name, "0"))
    return ceil_to(total, name)


def ceil_to(amount: int, name: str) -> int:
    return ceil(amount * 1000 / NANO) if name == "cpu" else -(-amount // NANO)


def names(pod: Object) -> set[str]:
    spec = pod["spec"]
    found: set[str] = set(spec.get("overhead", {})) | set(spec.get("resources", {}).get("requests", {}))
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        for part in container.get("resources", {}).values():
            found |= set(part)
    return found


def tolerates(pod: Object, taint: Object) -> bool:
    for t in pod["spec"].get("tolerations", []):
        if t.get("effect") and t["effect"] != taint["effect"]:
            continue
        if t.get("key") and t["key"] != taint["key"]:
            continue
        if t.get("operator", "Equal") == "Exists" or (
            t.get("operator", "Equal") == "Equal" and t.get("value", "") == taint.get("value", "")
        ):
            return True
    return False


def taints(node: Object) -> Iterable[Object]:
    yield from node["spec"].get("taints", [])
    if node["spec"].get("unschedulable"):
        yield {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    for condition in node["status"].get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] != "True":
            away = "not-ready" if condition["status"] == "False" else "unreachable"
            yield {"key": f"node.kubernetes.io/{away}", "effect": "NoSchedule"}


def fits(pod: Object, node: Object, others: Iterable[Object]) -> bool:
    """Whether a pod can run on a node beside the pods that are there."""
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in pod["spec"].get("nodeSelector", {}).items()):
        return False
    for taint in taints(node):
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(pod, taint):
            return False
    allocatable = node["status"].get("allocatable", {})
    if not allocatable:
        return True
    there = list(others)
    if len(there) + 1 > nanos(allocatable.get("pods", "0")) // NANO:
        return False
    for name in names(pod):
        wanted = effective(pod, name)
        has = ceil_to(nanos(allocatable.get(name, "0")), name)
        if wanted > 0 and wanted > has - sum(effective(other, name) for other in there):
            return False
    return True


# -- kube-scheduler's scores for the preferences of a pod, written out with loops over objects as JSON. Only
# what the property test draws: selectors with `matchLabels`, and no selectors of namespaces.


Cluster = Sequence[tuple[Object, Sequence[Object]]]
"""Every node with its pods"""
HOST = "kubernetes.io/hostname"


def points(pod: Object, nodes: Sequence[Object], cluster: Cluster) -> dict[str, int]:
    """Node -> points, of the `nodes` that may take the pod."""
    scores = [
        (3, _below(_taints(pod, nodes))),
        (2, _share(_affinity(pod, nodes))),
        (2, _spread(pod, nodes, cluster)),
        (2, _between(_near(pod, nodes, cluster))),
    ]
    return {_name(node): sum(weight * of[at] for weight, of in scores) for at, node in enumerate(nodes)}


def _taints(pod: Object, nodes: Sequence[Object]) -> list[int]:
    found = []
    for node in nodes:
        soft = [one for one in node["spec"].get("taints", []) if one["effect"] == "PreferNoSchedule"]
        found.append(sum(not tolerates(pod, taint) for taint in soft))
    return found


def _affinity(pod: Object, nodes: Sequence[Object]) -> list[int]:
    terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    found = []
    for node in nodes:
        total = 0
        for term in terms.get("preferredDuringSchedulingIgnoredDuringExecution", []):
            wanted = term["preference"].get("matchExpressions", [])
            if wanted and all(_labels(node).get(one["key"]) in one["values"] for one in wanted):
                total += term["weight"]
        found.append(total)
    return found


def _near(pod: Object, nodes: Sequence[Object], cluster: Cluster) -> list[int]:
    scores: dict[tuple[str, str], int] = {}
    for host, pods in cluster:
        labels = _labels(host)
        for other in pods:
            for weight, term in _weighted(pod):
                if _selects(term, pod, other) and term["topologyKey"] in labels:
                    at = term["topologyKey"], labels[term["topologyKey"]]
                    scores[at] = scores.get(at, 0) + weight
            for weight, term in [*_weighted(other), *_required(other)]:
                if _selects(term, other, pod) and term["topologyKey"] in labels:
                    at = term["topologyKey"], labels[term["topologyKey"]]
                    scores[at] = scores.get(at, 0) + weight
    return [
        sum(amount for (key, value), amount in scores.items() if _labels(node).get(key) == value)
        for node in nodes
    ]


def _spread(pod: Object, nodes: Sequence[Object], cluster: Cluster) -> list[int]:
    constraints = [
        one
        for one in pod["spec"].get("topologySpreadConstraints", [])
        if one["whenUnsatisfiable"] == "ScheduleAnyway"
    ]
    if not constraints:
        return [0] * len(nodes)
    keys = [one["topologyKey"] for one in constraints]
    scored = [node for node in nodes if all(key in _labels(node) for key in keys)]
    raw: list[int | None] = []
    for node in nodes:
        if node not in scored:
            raw.append(None)
            continue
        total = 0.0
        for one in constraints:
            key = one["topologyKey"]
            if key == HOST:
                size, there = len(scored), [pods for host, pods in cluster if host is node]
            else:
                size = len({_labels(other)[key] for other in scored})
                there = [
                    pods
                    for host, pods in cluster
                    if all(other in _labels(host) for other in keys)
                    and _labels(host)[key] == _labels(node)[key]
                    and (one.get("nodeAffinityPolicy") == "Ignore" or _suits(pod, host))
                    and (one.get("nodeTaintsPolicy") != "Honor" or _tolerated(pod, host))
                ]
            count = sum(
                "deletionTimestamp" not in other["metadata"] and _selects(one, pod, other)
                for pods in there
                for other in pods
            )
            total += count * math.log(size + 2) + (one["maxSkew"] - 1)
        raw.append(math.floor(total) + (1 if total - math.floor(total) >= 0.5 else 0))
    known = [one for one in raw if one is not None]
    if not known:
        return [0] * len(nodes)
    least, greatest = min(known), max(known)
    return [
        0 if one is None else 100 if greatest == 0 else 100 * (greatest + least - one) // greatest
        for one in raw
    ]


def _suits(pod: Object, node: Object) -> bool:
    return all(_labels(node).get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())


def _tolerated(pod: Object, node: Object) -> bool:
    hard = [one for one in node["spec"].get("taints", []) if one["effect"] != "PreferNoSchedule"]
    return all(tolerates(pod, taint) for taint in hard)


def _weighted(pod: Object) -> list[tuple[int, Object]]:
    affinity = pod["spec"].get("affinity", {})
    return [
        (sign * one["weight"], one["podAffinityTerm"])
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1))
        for one in affinity.get(kind, {}).get("preferredDuringSchedulingIgnoredDuringExecution", [])
    ]


def _required(pod: Object) -> list[tuple[int, Object]]:
    affinity = pod["spec"].get("affinity", {}).get("podAffinity", {})
    return [(1, term) for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])]


def _selects(term: Object, owner: Object, pod: Object) -> bool:
    namespaces = term.get("namespaces") or [owner["metadata"]["namespace"]]
    wanted = term["labelSelector"]["matchLabels"]
    labels = pod["metadata"].get("labels", {})
    return pod["metadata"]["namespace"] in namespaces and all(labels.get(k) == v for k, v in wanted.items())


def _share(raw: list[int]) -> list[int]:
    greatest = max(raw, default=0)
    return [100 * one // greatest if greatest else 0 for one in raw]


def _below(raw: list[int]) -> list[int]:
    greatest = max(raw, default=0)
    return [100 - 100 * one // greatest if greatest else 100 for one in raw]


def _between(raw: list[int]) -> list[int]:
    if not raw or max(raw) == min(raw):
        return [0] * len(raw)
    return [int(100.0 * (float(one - min(raw)) / float(max(raw) - min(raw)))) for one in raw]


def _name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels", {})
