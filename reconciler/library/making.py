"""Makes objects of the API in Python: nodes, devices, classes, claims and pods, as dicts like manifests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

DEVICES_A_SLICE = 128
DEVICES_A_SLICE_WITH_COUNTERS = 64
COUNTER_SETS_A_SLICE = 8
"""Limits of the API"""

MIG_DRIVER = "gpu.nvidia.com"


def node(name: str, *, labels: Mapping[str, str] | None = None, **allocatable: str) -> dict[str, Any]:
    """A node, with the label of its name. `allocatable` is such as `cpu="64", memory="512Gi"`."""
    made = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
    }
    return {**made, "status": {"allocatable": {"pods": "110", **allocatable}}} if allocatable else made


def device_class(name: str, expression: str) -> dict[str, Any]:
    """A class of all devices for which a CEL expression is true."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def devices(
    node: str,
    count: int,
    *,
    driver: str = "gpu.example.com",
    attributes: Mapping[str, str | int | bool] | None = None,
    capacity: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The slices of a node with equal devices, named `device-0` and so on."""
    kinds = {bool: "bool", int: "int", str: "string"}
    content: dict[str, Any] = {
        "attributes": {name: {kinds[type(value)]: value} for name, value in (attributes or {}).items()},
        "capacity": {name: {"value": value} for name, value in (capacity or {}).items()},
    }
    made = [{"name": f"device-{number}", **content} for number in range(count)]
    return list(pool(driver, node, made, reach={"nodeName": node}))


def pool(
    driver: str,
    name: str,
    devices: Sequence[dict[str, Any]],
    *,
    reach: Mapping[str, Any],
    counter_sets: Sequence[dict[str, Any]] = (),
) -> Iterator[dict[str, Any]]:
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


def _cut(things: Sequence[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(things), most):
        yield list(things[start : start + most])


class MigProfile(NamedTuple):
    """A shape of MIG partition: what it draws, how many memory slices it spans and where it may start."""

    memory_mi: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    jpeg_and_ofa_engines: int
    span: int
    starts: Sequence[int]


MIG_PROFILES = {
    "1g.5gb": MigProfile(4864, 14, 1, 0, 0, 1, range(7)),
    "1g.5gb+me": MigProfile(4864, 14, 1, 1, 1, 1, range(7)),
    "1g.10gb": MigProfile(9856, 14, 1, 1, 0, 2, (0, 2, 4, 6)),
    "2g.10gb": MigProfile(9856, 28, 2, 1, 0, 2, (0, 2, 4)),
    "3g.20gb": MigProfile(19968, 42, 3, 2, 0, 4, (0, 4)),
    "4g.20gb": MigProfile(19968, 56, 4, 2, 0, 4, (0,)),
    "7g.40gb": MigProfile(40192, 98, 7, 5, 1, 8, (0,)),
}
"""Of an A100 with 40 GB, as KEP-4815 describes them"""
_WHOLE = MIG_PROFILES["7g.40gb"]


def mig_gpus(node: str, count: int = 8) -> list[dict[str, Any]]:
    """The slices of a node with A100 GPUs and every MIG partition of them: 26 devices a GPU.

    All devices of a GPU draw from its one counter set, memory slices by place included. A partition has the
    attributes `type` ("mig") and `profile` of the driver `gpu.nvidia.com`.
    """
    devices = [device for number in range(count) for device in _mig_gpu(node, number)]
    sets = [{"name": f"gpu-{number}", "counters": _counters(_WHOLE, 0)} for number in range(count)]
    return list(pool(MIG_DRIVER, node, devices, reach={"nodeName": node}, counter_sets=sets))


def _mig_gpu(node: str, number: int) -> Iterator[dict[str, Any]]:
    uuid = f"GPU-{node}-{number}"
    own = {"type": {"string": "gpu"}, "index": {"int": number}, "uuid": {"string": uuid}}
    yield _device(f"gpu-{number}", number, own, _WHOLE, 0)
    for profile, shape in MIG_PROFILES.items():
        for start in shape.starts:
            part = {
                "type": {"string": "mig"},
                "profile": {"string": profile},
                "parentIndex": {"int": number},
                "parentUUID": {"string": uuid},
            }
            name = f"gpu-{number}-mig-{profile.replace('.', '-').replace('+', '-')}-{start}"
            yield _device(name, number, part, shape, start)


def _device(
    name: str, gpu: int, attributes: Mapping[str, Any], shape: MigProfile, start: int
) -> dict[str, Any]:
    return {
        "name": name,
        "attributes": {
            "productName": {"string": "NVIDIA A100-SXM4-40GB"},
            "architecture": {"string": "Ampere"},
            "cudaComputeCapability": {"version": "8.0.0"},
            "driverVersion": {"version": "550.54.15"},
            **attributes,
        },
        "capacity": {
            "memory": {"value": f"{shape.memory_mi}Mi"},
            "multiprocessors": {"value": str(shape.multiprocessors)},
        },
        "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": _counters(shape, start)}],
    }


def _counters(shape: MigProfile, start: int) -> dict[str, Any]:
    amounts = {
        "memory": f"{shape.memory_mi}Mi",
        "multiprocessors": str(shape.multiprocessors),
        "copy-engines": str(shape.copy_engines),
        "decoders": str(shape.decoders),
        "jpeg-engines": str(shape.jpeg_and_ofa_engines),
        "ofa-engines": str(shape.jpeg_and_ofa_engines),
        **{f"memory-slice-{at}": "1" for at in range(start, start + shape.span)},
    }
    return {name: {"value": value} for name, value in amounts.items()}


def claim(
    name: str,
    device_class: str,
    expression: str = "",
    *,
    count: int = 1,
    namespace: str = "default",
    created: str = "",
) -> dict[str, Any]:
    """A claim with one request, for devices of a class, and for which a CEL expression is true.

    Claims are decided in the order of `created`, such as `2026-01-31T12:00:00Z`; others by name, after them.
    """
    exactly: dict[str, Any] = {"deviceClassName": device_class, "count": count}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**metadata, "creationTimestamp": created} if created else metadata,
        "spec": {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}},
    }


def pod(
    name: str, claims: Iterable[str], *, namespace: str = "default", priority: int = 0, **requests: str
) -> dict[str, Any]:
    """A pod that uses claims, all on one node. `requests` are such as `cpu="4", memory="16Gi"`."""
    names = [*claims]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "priority": priority,
            "containers": [{"name": "main", "resources": {"requests": dict(requests)}}],
            "resourceClaims": [{"name": one, "resourceClaimName": one} for one in names],
        },
    }
