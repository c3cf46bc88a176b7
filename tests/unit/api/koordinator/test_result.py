"""What is written down: memory completed, the annotation's exact text."""

import json

import pytest

from reconciler.plugins.koordinator.annotations import allocated
from reconciler.plugins.koordinator.decision import annotation, completed, plugin_annotations
from reconciler.plugins.koordinator.demand import Failure
from reconciler.plugins.koordinator.holdings import Grant, recorded
from reconciler.plugins.koordinator.names import ALLOCATED, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, KOORD_RDMA
from reconciler.plugins.koordinator.objects import VirtualFunction
from tests.tools.koordinator_builders import decide, gpu, machine, nic, pod

GI = 2**30


@pytest.mark.parametrize(
    ("shares", "memory", "ratio"),
    [
        ({GPU_MEMORY_RATIO: 50}, 40 * GI, 50),
        ({GPU_MEMORY: 10 * GI}, 10 * GI, 12),
        ({GPU_MEMORY: 10 * GI, GPU_MEMORY_RATIO: 99}, 10 * GI, 99),
    ],
)
def test_memory_is_recorded_in_bytes_and_as_a_percentage(shares: dict[str, int], memory: int, ratio: int):
    found = completed({"gpu": (Grant(0, shares),)}, machine(gpu(0)))
    assert not isinstance(found, Failure)
    assert found["gpu"][0].shares == {GPU_MEMORY: memory, GPU_MEMORY_RATIO: ratio}


def test_a_gpu_of_unknown_memory_cannot_be_recorded():
    bare = gpu(0) | {"resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}}
    found = decide(pod({"nvidia.com/gpu": 1}), machine(bare))
    assert isinstance(found, Failure)
    assert (found.reason, found.status) == ("gpu-capacity-unknown", "Error")


def test_the_annotation_is_compact_and_in_a_fixed_order():
    allocation = {
        "rdma": (Grant(1, {KOORD_RDMA: 1}, (VirtualFunction(minor=3, busID="a"),)),),
        "gpu": (Grant(0, {GPU_MEMORY_RATIO: 12, GPU_MEMORY: 3 * GI, GPU_CORE: 10}, template="t"),),
    }
    assert annotation(allocation, machine(gpu(0), nic(1))) == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"10","koordinator.sh/gpu-memory":"3Gi",'
        '"koordinator.sh/gpu-memory-ratio":"12"},"id":"gpu-0","extension":{"gpuSharedResourceTemplate":"t"}}],'
        '"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":"1"},"id":"rdma-1",'
        '"extension":{"vfs":[{"minor":3,"busID":"a"}]}}]}'
    )


def test_what_is_unset_is_left_out():
    allocation = {"rdma": (Grant(0, {KOORD_RDMA: 1}, (VirtualFunction(minor=0, busID="a"),)),)}
    (entry,) = json.loads(annotation(allocation, machine(nic(0) | {"id": ""})))["rdma"]
    assert entry == {
        "minor": 0,
        "resources": {KOORD_RDMA: "1"},
        "extension": {"vfs": [{"busID": "a"}]},
    }


def test_what_was_written_reads_back_as_it_was():
    on = machine(gpu(0, (0, "0")), nic(0, (0, "0"), vfs=1))
    wants = pod(
        {"gpu": 50, "rdma": 1},
        joint={"deviceTypes": ["gpu", "rdma"]},
        hint={"rdma": {"vfSelector": {}}},
    )
    found = decide(wants, on)
    assert not isinstance(found, Failure)
    text = annotation(found, on)
    assert recorded("p", allocated("p", {ALLOCATED: text})) == found


def test_plugins_are_told_the_gpus_and_when():
    allocation = {"gpu": (Grant(2, {}), Grant(5, {}))}
    assert plugin_annotations(allocation, 17) == {
        "scheduling.koordinator.sh/bind-timestamp": "17",
        "scheduling.koordinator.sh/gpu-minors": "2,5",
    }
