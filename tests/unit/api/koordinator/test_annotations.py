"""Annotations as people write them: refused with the place, alone."""

from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.objects.quantity import Quantity
from reconciler.errors import Malformed
from reconciler.plugins.koordinator import annotations, names
from reconciler.plugins.koordinator.demand import Demand, Failure, Status, read_demand
from reconciler.plugins.koordinator.holdings import holder
from reconciler.plugins.koordinator.rules import Rules
from tests.tools.koordinator_builders import PROPOSAL, UPSTREAM, demand, given, gpu, machine, nic, pod


def saying(requests: dict[str, Any], node: str = "", **said: str) -> Pod:
    wants = pod(requests).model_dump(by_alias=True, mode="json")
    wants["metadata"]["annotations"] = {names.DOMAIN + k.replace("_", "-"): text for k, text in said.items()}
    wants["spec"]["nodeName"] = node
    return Pod.model_validate(wants)


COMMENT = '{\n  # a comment\n  "rdma": {}\n}'
TRAILING = '{\n  "rdma": {"vfSelector": {},}\n}'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (COMMENT, "not JSON at line 2 column 3: "),
        (TRAILING, "not JSON at line 2 column "),
        ('{"rdma": {} // why\n}', "not JSON at line 1 column 13: "),
        ('{"rdma": {"vfSelector": {}}', "not JSON at line 1 column "),
        ('{"NaN": 1,\n "rdma": NaN}', "not JSON at line 2 column 10: NaN is no number"),
        ("", "not JSON at line 1 column 1: "),
        ("\n []", "Input should be a valid dictionary"),
        ("[" * 100_000, "nested too deeply"),
        ('{"rdma": {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}}', "rdma.selector."),
        ('{"rdma": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}', "In needs values"),
        (
            '{"rdma": {\n  "allocateStrategy": 1}}',
            "rdma.allocateStrategy: Input should be a valid string",
        ),
        (
            '{"gpu" : {"a": ["}", {}]}, "rdma": {"selector": {"matchExpressions": [ {"key": "a"} ]}}}',
            "rdma.selector.matchExpressions.0.operator: Field required",
        ),
        ('{"rdma": {"selector": 1}, "rdma": {"selector": 2}}', "rdma.selector: Input should be a valid "),
        ("9" * 5000, "not JSON at line 1 column 1: "),
        (" " * 2**21, "2097152 characters"),
    ],
)
def test_a_malformed_hint_refuses_its_pod_and_says_where(text: str, place: str):
    found = read_demand(saying({"rdma": 1}, device_allocate_hint=text), Rules())
    assert isinstance(found, Failure)
    assert (found.reason, found.status) == ("malformed-annotation:device-allocate-hint", Status.NEVER)
    assert found.message.startswith("Pod default/p: scheduling.koordinator.sh/device-allocate-hint: ")
    assert place in found.message
    if "#" in text or "//" in text:
        assert "comments are not JSON" in found.message


def test_each_input_annotation_is_checked_where_it_is_read():
    assert isinstance(read_demand(saying({"rdma": 1}, gpu_partition_spec="{"), Rules()), Demand)
    for name in ("gpu_partition_spec", "device_joint_allocate", "device_allocate_hint"):
        found = read_demand(saying({"gpu": 1}, **{name: "{"}), Rules())
        assert isinstance(found, Failure)
        assert found.reason == f"malformed-annotation:{name.replace('_', '-')}"


def test_a_malformed_result_refuses_even_a_pod_without_devices():
    found = read_demand(saying({}, device_allocated="{"), Rules())
    assert isinstance(found, Failure)
    assert found.reason == "malformed-annotation:device-allocated"


MISSPELT = [
    (
        {"device_joint_allocate": '{"deviceTypes": ["gpu", "tpu"]}'},
        "device-joint-allocate: deviceTypes.1: 'tpu' is not one of gpu, rdma, fpga",
    ),
    (
        {"device_joint_allocate": '{"requiredScope":\n "SameRack"}'},
        "device-joint-allocate: requiredScope: 'SameRack' is not one of SamePCIe",
    ),
    (
        {"device_allocate_hint": '{"rdma": {}, "tpu": {}}'},
        "device-allocate-hint: tpu: 'tpu' is not one of gpu, rdma, fpga",
    ),
    (
        {"device_allocate_hint": '{"rdma": {"exclusivePolicy": "pcielevel"}}'},
        "rdma.exclusivePolicy: 'pcielevel' is not one of DeviceLevel, PCIeLevel",
    ),
    (
        {"device_allocate_hint": '{"rdma": {"allocateStrategy": "All"}}'},
        "rdma.allocateStrategy: 'All' is not one of ApplyForAll, RequestsAsCount",
    ),
    (
        {"device_allocate_hint": '{"gpu": {"requiredTopologyScope": "Rack"}}'},
        "gpu.requiredTopologyScope: 'Rack' is not one of Device, PCIe, NUMANode, Node",
    ),
    (
        {"gpu_partition_spec": '{"allocatePolicy": "Strict"}'},
        "allocatePolicy: 'Strict' is not one of Restricted, BestEffort",
    ),
]


@pytest.mark.parametrize(("said", "why"), MISSPELT)
def test_unknown_values_are_refused_by_the_proposal_with_those_allowed(said: dict[str, str], why: str):
    """Otherwise the pod would get devices without what it wrote."""
    wants = saying({"gpu": 100, "rdma": 1}, **said)
    found = read_demand(wants, Rules(PROPOSAL))
    assert isinstance(found, Failure)
    assert (found.reason.partition(":")[0], found.status) == ("malformed-annotation", Status.NEVER)
    assert found.message.endswith(why)
    assert isinstance(read_demand(wants, Rules(UPSTREAM)), Demand)


def test_unknown_fields_are_passed_over_and_by_the_release_unknown_values_too():
    said = {
        "device_joint_allocate": '{"deviceTypes": ["gpu", "rdma", "gpu"], "requiredScope": "", "new": 1}',
        "device_allocate_hint": '{"rdma": {"allocateStrategy": "", "new": 1}, "gpu": null}',
        "gpu_partition_spec": "null",
    }
    known = saying({"gpu": 100, "rdma": 1}, **said)
    assert given(known, machine(gpu(0), nic(0))) == {"gpu": [0], "rdma": [0]}
    assert demand(known).joint == ("gpu", "rdma")
    said["device_joint_allocate"] = '{"deviceTypes": ["gpu", "tpu", "rdma", "gpu"], "requiredScope": "Rack"}'
    said["device_allocate_hint"] = '{"rdma": {"allocateStrategy": "Some", "exclusivePolicy": "No"}, "x": {}}'
    unknown = saying({"gpu": 100, "rdma": 1}, **said)
    assert given(unknown, machine(gpu(0), nic(0)), semantics=UPSTREAM) == {"gpu": [0], "rdma": [0]}
    assert demand(unknown, UPSTREAM).joint == ("gpu", "rdma")


def test_a_holder_with_an_unknown_value_still_holds():
    """Its devices were granted before: only a pending pod can be refused."""
    hint = '{"rdma": {"exclusivePolicy": "pcielevel"}}'
    found = holder(saying({}, "n", device_allocated=ALLOCATED, device_allocate_hint=hint))
    assert found is not None
    assert list(found.allocation) == ["rdma"]


def test_the_proposal_reads_both_names_of_the_bandwidth():
    wants = saying({"gpu": 100}, gpu_partition_spec='{"ringAllReduceBandwidth": "1Gi"}')
    spec, released = demand(wants).partition, demand(wants, UPSTREAM).partition
    assert spec is not None
    assert released is not None
    assert (spec.ring_bus_bandwidth, released.ring_bus_bandwidth) == (Quantity.parse("1Gi"), None)


ALLOCATED = (
    '{"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":"1"},"extension":{"vfs":[{"busID":"a"}]}}]}'
)
HINT = '{"rdma": {"exclusivePolicy": "PCIeLevel"}}'


def test_what_a_pod_holds_is_read_back_with_how_alone_it_is_to_be():
    found = holder(saying({}, "n", device_allocated=ALLOCATED, device_allocate_hint=HINT))
    assert found is not None
    assert found.node == "n"
    assert found.hints["rdma"].exclusive_policy == annotations.PCIE_LEVEL
    (grant,) = found.allocation["rdma"]
    assert (grant.minor, grant.shares, grant.vfs[0].bus_id) == (1, {"koordinator.sh/rdma": 1}, "a")


def test_a_pod_on_no_node_or_finished_holds_nothing():
    assert holder(saying({}, device_allocated=ALLOCATED)) is None
    assert holder(saying({}, "n")) is None
    done = saying({}, "n", device_allocated=ALLOCATED).model_dump(by_alias=True, mode="json")
    assert holder(Pod.model_validate({**done, "status": {"phase": "Succeeded"}})) is None


def test_a_holder_whose_hint_cannot_be_read_still_holds():
    found = holder(saying({}, "n", device_allocated=ALLOCATED, device_allocate_hint="{"))
    assert found is not None
    assert found.hints == {}


@pytest.mark.parametrize(
    "text", ["{", '{"rdma": [{}]}', '{"rdma": [{"minor": 1, "resources": {"koordinator.sh/rdma": "-1"}}]}']
)
def test_a_result_that_cannot_be_read_is_an_error(text: str):
    with pytest.raises(Malformed):
        holder(saying({}, "n", device_allocated=text))
