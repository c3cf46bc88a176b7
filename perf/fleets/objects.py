"""API objects as JSON: nodes, classes, pools cut into slices within the API's limits, claims."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Json = dict[str, Any]

DEVICES_A_SLICE = 128
DEVICES_A_SLICE_WITH_COUNTERS = 64
COUNTER_SETS_A_SLICE = 8


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


def device_class(name: str, expression: str) -> Json:
    """A class of all devices for which an expression is true."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def pool(
    driver: str,
    name: str,
    devices: Sequence[Json],
    *,
    reach: Mapping[str, Any],
    counter_sets: Sequence[Json] = (),
) -> Iterator[Json]:
    """A pool as slices: counter sets in slices of their own, devices after them.

    `reach` holds the field that says where the devices are: nodeName, allNodes or perDeviceNodeSelection.
    """
    most = DEVICES_A_SLICE_WITH_COUNTERS if counter_sets else DEVICES_A_SLICE
    contents = [
        *({"sharedCounters": part} for part in _cut(counter_sets, COUNTER_SETS_A_SLICE)),
        *({"devices": part} for part in _cut(devices, most)),
    ]
    width = len(str(len(contents) - 1))
    for number, content in enumerate(contents):
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-{driver.partition('.')[0]}-{number:0{width}}"},
            "spec": {
                "driver": driver,
                "pool": {"name": name, "generation": 1, "resourceSliceCount": len(contents)},
                **reach,
                **content,
            },
        }


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


def _cut(things: Sequence[Json], most: int) -> Iterator[list[Json]]:
    for start in range(0, len(things), most):
        yield list(things[start : start + most])
