"""API objects as JSON: nodes, classes, pools cut into slices within the API's limits, claims."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.library.making import device_class, pool

__all__ = ["Json", "claim", "device_class", "exactly", "node", "node_names", "pool"]

Json = dict[str, Any]


def node(name: str) -> Json:
    """A node with the label by which selectors find it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
    }


def node_names(count: int) -> list[str]:
    """Names whose order is their number's, whatever the count."""
    width = len(str(count - 1))
    return [f"node-{number:0{width}}" for number in range(count)]


def exactly(
    name: str, device_class: str, *expressions: str, count: int = 1, capacity: Mapping[str, str] | None = None
) -> Json:
    """A request for devices of one class."""
    body: Json = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    if expressions:
        body["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if capacity:
        body["capacity"] = {"requests": dict(capacity)}
    return {"name": name, "exactly": body}


def claim(name: str, requests: Iterable[Json], *, match: str = "", distinct: str = "") -> Json:
    """A claim; `match` and `distinct` are attributes in which all its devices agree, or differ."""
    constraints: list[Json] = []
    if match:
        constraints.append({"matchAttribute": match})
    if distinct:
        constraints.append({"distinctAttribute": distinct})
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests), "constraints": constraints}},
    }
