"""kube-scheduler's rules for one pod and one node, written out with loops over objects as JSON."""

from collections.abc import Iterable, Mapping
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
