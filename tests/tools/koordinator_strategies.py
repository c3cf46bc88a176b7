"""Strategies of machines and pods, odd ones among them, for properties of the fleet."""

from typing import Any

from hypothesis import strategies as st

from reconciler.api.objects.core import Pod
from reconciler.plugins.koordinator.demand import Demand, read_demand
from reconciler.plugins.koordinator.objects import Device
from reconciler.plugins.koordinator.rules import Rules
from tests.tools.koordinator_builders import device, gpu, nic, pod

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


def read(wants: Pod, rules: Rules) -> Demand:
    found = read_demand(wants, rules)
    assert isinstance(found, Demand)
    return found
