"""Machines and pods for tests, and the shortest way from them to an answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator import vocabulary
from reconciler.plugins.koordinator.annotations import Hint
from reconciler.plugins.koordinator.decision import allocate
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand
from reconciler.plugins.koordinator.holdings import Allocation, Grant, Holdings
from reconciler.plugins.koordinator.machine import Machine, machine_of
from reconciler.plugins.koordinator.vocabulary import Device, Rules, Semantics

PROPOSAL, UPSTREAM = Semantics.PROPOSAL, Semantics.UPSTREAM

Spot = tuple[int, str] | None
"""NUMA node and switch."""


def info(kind: str, minor: int, spot: Spot, resources: Mapping[str, str], **fields: Any) -> dict[str, Any]:
    found = {"type": kind, "id": f"{kind}-{minor}", "minor": minor, "health": True, "resources": resources}
    if spot is not None:
        found["topology"] = {"socketID": -1, "nodeID": spot[0], "pcieID": spot[1]}
    return found | fields


def gpu(minor: int, spot: Spot = None, **fields: Any) -> dict[str, Any]:
    full = {vocabulary.GPU_CORE: "100", vocabulary.GPU_MEMORY_RATIO: "100", vocabulary.GPU_MEMORY: "80Gi"}
    return info("gpu", minor, spot, **{"resources": full, **fields})


def nic(
    minor: int, spot: Spot = None, vfs: int = 0, vf_labels: Mapping[str, str] | None = None, **fields: Any
) -> dict[str, Any]:
    functions = [{"minor": n, "busID": f"{minor:02}:00.{n}"} for n in range(vfs)]
    more = {"vfGroups": [{"labels": vf_labels or {}, "vfs": functions}]} if vfs else {}
    return info("rdma", minor, spot, {vocabulary.KOORD_RDMA: "100"}, **more, **fields)


def device(*devices: Mapping[str, Any], name: str = "n", **metadata: Any) -> Device:
    return Device.model_validate({"metadata": {"name": name, **metadata}, "spec": {"devices": devices}})


def machine(
    *devices: Mapping[str, Any],
    semantics: Semantics = PROPOSAL,
    node_labels: Mapping[str, str] | None = None,
    **metadata: Any,
) -> Machine:
    return machine_of(device(*devices, **metadata), node_labels or {}, semantics)


def pod(
    requests: Mapping[str, int | str],
    *,
    joint: Any = None,
    hint: Any = None,
    spec: Any = None,
    name: str = "p",
    **fields: Any,
) -> Pod:
    said = {vocabulary.JOINT_ALLOCATE: joint, vocabulary.ALLOCATE_HINT: hint, vocabulary.PARTITION_SPEC: spec}
    annotations = {key: json.dumps(value) for key, value in said.items() if value is not None}
    full = {key if "/" in key else f"koordinator.sh/{key}": str(n) for key, n in requests.items()}
    return Pod.model_validate(
        {
            "metadata": {"namespace": "default", "name": name, "annotations": annotations},
            "spec": {"containers": [{"resources": {"requests": full}}], **fields},
        }
    )


def demand(wants: Pod, semantics: Semantics = PROPOSAL) -> Demand:
    return read(wants, Rules(semantics))


def read(wants: Pod, rules: Rules) -> Demand:
    found = read_demand(wants, rules)
    assert isinstance(found, Demand), found
    return found


def decide(
    wants: Pod, on: Machine, held: Holdings | None = None, semantics: Semantics = PROPOSAL, **options: Any
) -> Allocation | Failure:
    """All devices are equally good: the order of minors decides."""
    rules = Rules(semantics, scoring=None)
    found = read_demand(wants, rules)
    assert found is not None
    if isinstance(found, Failure):
        return found
    return allocate(found, on, held or Holdings(), rules, **options)


def minors(found: Allocation | Failure) -> dict[str, list[int]] | str:
    """The minors given by type, in ascending order, or why none are given."""
    if isinstance(found, Failure):
        return found.reason
    return {kind: sorted(grant.minor for grant in grants) for kind, grants in found.items()}


def given(wants: Pod, on: Machine, held: Holdings | None = None, semantics: Semantics = PROPOSAL) -> Any:
    return minors(decide(wants, on, held, semantics))


def holding(
    *,
    gpus: Sequence[int] = (),
    nics: Sequence[int] = (),
    share: int = 100,
    hints: Mapping[str, Any] | None = None,
    by: str = "holder",
    into: Holdings | None = None,
) -> Holdings:
    """One pod that holds so much of each of some devices."""
    found = into if into is not None else Holdings()
    each = {
        vocabulary.GPU_CORE: share,
        vocabulary.GPU_MEMORY_RATIO: share,
        vocabulary.GPU_MEMORY: share * 2**30 * 80 // 100,
    }
    allocation = {
        "gpu": tuple(Grant(minor, each) for minor in gpus),
        "rdma": tuple(Grant(minor, {vocabulary.KOORD_RDMA: share}) for minor in nics),
    }
    read = {kind: Hint.model_validate(hint) for kind, hint in (hints or {}).items()}
    found.hold(ObjectKey("default", by), allocation, read)
    return found


# -- Strategies of machines and pods, odd ones among them, for properties of the fleet.


HONOR = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
PLANNED = {"node.koordinator.sh/secondary-device-well-planned": "true"}
TABLE = {"scheduling.koordinator.sh/gpu-partitions": '{"1": [{"minors": [1]}], "2": [{"minors": [0, 2]}]}'}
SPOTS = st.none() | st.tuples(st.integers(-1, 1), st.sampled_from(["a", "b"]))
TAGGED = {"matchLabels": {"t": "x"}}
LABELS = st.sampled_from([{}, {"t": "x"}, {"t": "y"}])


@st.composite
def devices(draw: st.DrawFn, name: str) -> Device:
    """A small machine, now and then odd: sick devices, no topology, capacities that are not reported."""
    found: list[dict[str, Any]] = []
    for minor in range(draw(st.integers(0, 4))):
        odd = draw(st.integers(0, 7))
        entry = gpu(minor, draw(SPOTS), health=odd != 0, labels=draw(LABELS))
        if odd == 1:
            entry["resources"] = {"koordinator.sh/gpu-memory": "80Gi"}
        if odd == 2:
            entry["resources"] = {"example.com/other": "1", "koordinator.sh/gpu-memory": "80Gi"}
        found.append(entry)
    found += [
        nic(minor, draw(SPOTS), vfs=draw(st.integers(0, 2)), vf_labels=draw(LABELS), labels=draw(LABELS))
        for minor in range(draw(st.integers(0, 3)))
    ]
    labels = draw(st.sampled_from([{}, HONOR, PLANNED]))
    return device(*found, name=name, labels=labels, annotations=draw(st.sampled_from([{}, TABLE])))


REQUESTS: list[dict[str, int | str]] = [
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu": 2},
    {"gpu-core": 50, "gpu-memory-ratio": 50},
    {"gpu.shared": 2, "gpu-memory": "80Gi"},
    {"rdma": 1},
    {"rdma": 200},
    {"nvidia.com/gpu": 1, "rdma": 50},
    {"nvidia.com/gpu": 2, "rdma": 200},
]

BOTH = {"deviceTypes": ["gpu", "rdma"]}
NEAR = {"requiredScope": "SamePCIe"}
JOINTS = [None, BOTH, BOTH | NEAR, BOTH | NEAR, {"deviceTypes": ["rdma", "gpu"]} | NEAR]


@st.composite
def hints(draw: st.DrawFn) -> dict[str, Any]:
    fields = {
        "selector": st.sampled_from([None, {}, {"matchLabels": {"t": "x"}}]),
        "vfSelector": st.sampled_from([None, None, {}, TAGGED]),
        "allocateStrategy": st.sampled_from(["", "ApplyForAll", "RequestsAsCount"]),
        "exclusivePolicy": st.sampled_from(["", "DeviceLevel", "PCIeLevel"]),
        "requiredTopologyScope": st.sampled_from(["", "", "PCIe", "NUMANode", "Node", "Device"]),
    }
    kinds = draw(st.sets(st.sampled_from(["gpu", "rdma"])))
    return {kind: draw(st.fixed_dictionaries(fields)) for kind in kinds}


PODS = st.builds(
    lambda requests, joint, hint: pod(requests, joint=joint, hint=hint),
    st.sampled_from(REQUESTS),
    st.sampled_from(JOINTS),
    hints(),
)
