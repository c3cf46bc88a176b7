"""The complete result of a decision, and where the release decides in another way."""

import json
from typing import Any

import pytest

from reconciler.plugins.koordinator.annotations import allocated
from reconciler.plugins.koordinator.decision import allocate, annotation, completed
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand
from reconciler.plugins.koordinator.holdings import Grant, Holdings, recorded
from reconciler.plugins.koordinator.vocabulary import (
    ALLOCATED,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    KOORD_RDMA,
    NPU_CORE,
    NPU_CPU,
    Rules,
    Semantics,
    VirtualFunction,
)
from tests.tools.koordinator_builders import (
    PROPOSAL,
    UPSTREAM,
    decide,
    given,
    gpu,
    holding,
    machine,
    nic,
    pod,
)

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
    assert entry == {"minor": 0, "resources": {KOORD_RDMA: "1"}, "extension": {"vfs": [{"busID": "a"}]}}


def test_what_was_written_reads_back_as_it_was():
    on = machine(gpu(0, (0, "0")), nic(0, (0, "0"), vfs=1))
    wants = pod(
        {"gpu": 50, "rdma": 1}, joint={"deviceTypes": ["gpu", "rdma"]}, hint={"rdma": {"vfSelector": {}}}
    )
    found = decide(wants, on)
    assert not isinstance(found, Failure)
    text = annotation(found, on)
    assert recorded("p", allocated("p", {ALLOCATED: text})) == found


EACH = {NPU_CORE: 1, NPU_CPU: 1, GPU_MEMORY: 2**30}
BOTH = {"deviceTypes": ["gpu", "rdma"]}


def test_nics_are_taken_anywhere_up_to_the_number_of_switches():
    on = machine(gpu(0, (0, "0")), gpu(1, (0, "1")), nic(0, (0, "0")), nic(1, (1, "5")), nic(2, (1, "6")))
    wants = pod({"nvidia.com/gpu": 2, "rdma": 1}, joint=BOTH)
    assert given(wants, on, semantics=UPSTREAM) == {"gpu": [0, 1], "rdma": [0, 1]}
    assert given(wants, on, semantics=PROPOSAL) == {"gpu": [0, 1], "rdma": [0]}


def test_one_switch_raises_the_number_of_nics():
    on = machine(gpu(0, (0, "0")), gpu(1, (0, "1")), nic(0, (0, "0")), nic(1, (0, "1")))
    wants = pod({"nvidia.com/gpu": 2, "rdma": 1}, joint={**BOTH, "requiredScope": "SamePCIe"})
    for semantics in Semantics:
        assert given(wants, on, semantics=semantics) == {"gpu": [0, 1], "rdma": [0, 1]}


def test_nics_beyond_the_switches_break_the_rule_of_one_switch():
    on = machine(gpu(0, (0, "0")), nic(0, (0, "0")), nic(1, (0, "1")))
    wants = pod({"nvidia.com/gpu": 1, "rdma": 200}, joint={**BOTH, "requiredScope": "SamePCIe"})
    for semantics in Semantics:
        assert given(wants, on, semantics=semantics) == "joint-scope-violation"


def test_gpus_that_come_second_ignore_switches_and_without_places_are_too_many():
    wants = pod({"nvidia.com/gpu": 1, "rdma": 200}, joint={"deviceTypes": ["rdma", "gpu"]})
    placed = machine(gpu(0, (0, "0")), gpu(1, (1, "1")), nic(0, (1, "1")), nic(1, (1, "2")))
    assert given(wants, placed, semantics=UPSTREAM) == {"gpu": [0], "rdma": [0, 1]}
    bare = machine(gpu(0), gpu(1), gpu(2), nic(0, (1, "1")), nic(1, (1, "2")))
    assert given(wants, bare, semantics=UPSTREAM) == {"gpu": [0, 1], "rdma": [0, 1]}
    assert given(wants, bare) == {"gpu": [0], "rdma": [0, 1]}


def test_device_level_means_something_for_counted_devices_only():
    on = machine(nic(0), nic(1))
    alone = {"exclusivePolicy": "DeviceLevel"}
    counted = pod({"rdma": 1}, hint={"rdma": {**alone, "allocateStrategy": "RequestsAsCount"}})
    plain = pod({"rdma": 1}, hint={"rdma": alone})
    held = holding(nics=[0], share=1)
    assert given(counted, on, held, UPSTREAM) == {"rdma": [1]}
    assert given(plain, on, held, UPSTREAM) == {"rdma": [0]}
    assert given(plain, on, held) == {"rdma": [1]}


@pytest.mark.parametrize(
    ("name", "templates", "expected"),
    [
        ("one fits", {"v-m": {"a": EACH, "b": {NPU_CORE: 2}}}, "a"),
        ("two fit, so none is meant", {"v-m": {"a": EACH, "b": EACH}}, ""),
        ("another model's fits", {"v-x": {"a": EACH}}, "no-matching-share-template"),
    ],
)
def test_templates_are_looked_up_by_the_labels_of_the_node(name: str, templates: Any, expected: str):
    labels = {"node.koordinator.sh/gpu-vendor": "v", "node.koordinator.sh/gpu-model": "m"}
    capacity = {NPU_CORE: "8", NPU_CPU: "7", GPU_MEMORY: "20Gi"}
    on = machine(gpu(0) | {"resources": capacity}, node_labels=labels)
    rules = Rules(templates=templates)
    wants = read_demand(pod({GPU_SHARED: 1, **EACH}), rules)
    assert isinstance(wants, Demand)
    found = allocate(wants, on, Holdings(), rules)
    assert (found.reason if isinstance(found, Failure) else found["gpu"][0].template) == expected
