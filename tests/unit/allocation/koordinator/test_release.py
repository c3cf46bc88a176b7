"""What only the release does, where no recorded case shows it."""

from typing import Any

import pytest

from reconciler.plugins.koordinator.decision import allocate
from reconciler.plugins.koordinator.demand import Demand, Failure, read_demand
from reconciler.plugins.koordinator.holdings import Holdings
from reconciler.plugins.koordinator.names import GPU_MEMORY, GPU_SHARED, NPU_CORE, NPU_CPU
from reconciler.plugins.koordinator.rules import Rules, Semantics
from tests.tools.koordinator_builders import PROPOSAL, UPSTREAM, given, gpu, holding, machine, nic, pod

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
