"""What pods say in annotations: how it is read, and what it asks for."""

from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.quantity import Quantity
from reconciler.errors import Malformed
from reconciler.plugins.koordinator import annotations, vocabulary
from reconciler.plugins.koordinator.demand import Demand, Failure, Status, read_demand
from reconciler.plugins.koordinator.holdings import Grant, Holdings, holder
from reconciler.plugins.koordinator.vocabulary import KOORD_RDMA, Rules
from tests.tools.koordinator_builders import (
    PROPOSAL,
    UPSTREAM,
    decide,
    demand,
    given,
    gpu,
    holding,
    machine,
    nic,
    pod,
)


def saying(requests: dict[str, Any], node: str = "", **said: str) -> Pod:
    wants = pod(requests).model_dump(by_alias=True, mode="json")
    wants["metadata"]["annotations"] = {
        vocabulary.DOMAIN + k.replace("_", "-"): text for k, text in said.items()
    }
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
        ("\n []", "must be an object"),
        ("[" * 100_000, "nested too deeply"),
        (
            '{"rdma": {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}}',
            "use one of In, NotIn",
        ),
        (
            '{"rdma": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}',
            "a In: needs at least",
        ),
        ('{"rdma": {\n  "allocateStrategy": 1}}', "rdma.allocateStrategy: must be a string"),
        (
            '{"gpu" : {"a": ["}", {}]}, "rdma": {"selector": {"matchExpressions": [ {"key": "a"} ]}}}',
            "rdma.selector.matchExpressions.0.operator: is missing",
        ),
        ('{"rdma": {"selector": 1}, "rdma": {"selector": 2}}', "rdma.selector: must be an object"),
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


ALL = {"allocateStrategy": "ApplyForAll"}
COUNT = {"allocateStrategy": "RequestsAsCount"}


def shares(requests: Any, on: Any, hint: Any, semantics: Any = PROPOSAL) -> Any:
    """Type -> (minor, core or rdma share)."""
    found = decide(pod(requests, hint=hint), on, semantics=semantics)
    if isinstance(found, Failure):
        return found.reason
    return {
        kind: sorted((g.minor, g.shares.get(KOORD_RDMA, g.shares.get("koordinator.sh/gpu-core"))) for g in of)
        for kind, of in found.items()
    }


@pytest.mark.parametrize(
    ("name", "amount", "hint", "proposal", "upstream"),
    [
        ("a share of one NIC", 30, {}, [(0, 30)], [(0, 30)]),
        ("whole NICs", 200, {}, [(0, 100), (1, 100)], [(0, 100), (1, 100)]),
        ("all of them", 100, ALL, [(0, 100), (1, 100), (2, 100)], [(0, 100), (1, 100), (2, 100)]),
        ("a count", 2, COUNT, [(0, 1), (1, 1)], [(0, 1), (1, 1)]),
        # The amount is the number of devices; the release takes 200 for two whole ones.
        ("a count that looks like whole NICs", 200, COUNT, "insufficient-devices:rdma", [(0, 100), (1, 100)]),
        # The amount is what each NIC is charged.
        ("all, each charged 200", 200, ALL, "insufficient-devices:rdma", [(0, 100), (1, 100)]),
    ],
)
def test_strategies_say_how_many_and_how_much(
    name: str, amount: int, hint: Any, proposal: Any, upstream: Any
):
    on = machine(nic(0), nic(1), nic(2))
    for semantics, expected in ((PROPOSAL, proposal), (UPSTREAM, upstream)):
        wanted = {"rdma": expected} if isinstance(expected, list) else expected
        assert shares({"rdma": amount}, on, {"rdma": hint}, semantics) == wanted


def test_all_are_the_healthy_ones():
    on = machine(nic(0), nic(1, health=False))
    assert shares({"rdma": 1}, on, {"rdma": ALL}) == {"rdma": [(0, 1)]}
    # The release counts the sick one, and cannot give it.
    assert shares({"rdma": 1}, on, {"rdma": ALL}, UPSTREAM) == "insufficient-devices:rdma"


def test_all_of_none_is_final():
    on = machine(nic(0, labels={"a": "b"}))
    hint = {"rdma": {**ALL, "selector": {"matchLabels": {"a": "c"}}}}
    assert shares({"rdma": 1}, on, hint) == "no-devices-of-type:rdma"


def test_strategies_are_for_gpus_as_well():
    on = machine(*(gpu(i, (0, "0")) for i in range(3)))
    assert shares({"koordinator.sh/gpu": 50}, on, {"gpu": ALL}) == {"gpu": [(0, 50), (1, 50), (2, 50)]}
    assert shares({"nvidia.com/gpu": 1}, on, {"gpu": ALL}) == {"gpu": [(0, 100), (1, 100), (2, 100)]}
    assert shares({"koordinator.sh/gpu": 2}, on, {"gpu": COUNT}) == {"gpu": [(0, 100), (1, 100)]}
    assert shares({"nvidia.com/gpu": 2}, on, {"gpu": COUNT}) == {"gpu": [(0, 100), (1, 100)]}
    assert shares({"koordinator.sh/gpu": 50}, on, {"gpu": ALL}, UPSTREAM) == {"gpu": [(0, 50)]}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, [0, 1, 2]),
        ({}, [0, 1, 2]),
        ({"matchLabels": {"t": "x"}}, [0]),
        ({"matchExpressions": [{"key": "t", "operator": "In", "values": ["x", "y"]}]}, [0, 1]),
        ({"matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["x"]}]}, [1, 2]),
        ({"matchExpressions": [{"key": "t", "operator": "Exists"}]}, [0, 1]),
        ({"matchExpressions": [{"key": "t", "operator": "DoesNotExist"}]}, [2]),
    ],
)
def test_selectors_are_those_of_kubernetes(selector: Any, expected: list[int]):
    on = machine(nic(0, labels={"t": "x"}), nic(1, labels={"t": "y"}), nic(2))
    hint = {"rdma": {**ALL, "selector": selector}}
    assert given(pod({"rdma": 1}, hint=hint), on) == {"rdma": expected}


def test_a_selector_that_matches_nothing_may_match_later():
    hint = {"rdma": {"selector": {"matchLabels": {"t": "x"}}}}
    found = decide(pod({"rdma": 1}, hint=hint), machine(nic(0)))
    assert isinstance(found, Failure)
    assert (found.reason, found.status) == ("insufficient-devices:rdma", "Unschedulable")


def test_one_virtual_function_of_each_nic():
    on = machine(nic(0, vfs=2), nic(1, vfs=2))
    hint = {"rdma": {"vfSelector": {}, **COUNT}}
    found = decide(pod({"rdma": 2}, hint=hint), on)
    assert not isinstance(found, Failure)
    taken = [(grant.minor, [vf.bus_id for vf in grant.vfs]) for grant in found["rdma"]]
    assert taken == [(0, ["00:00.0"]), (1, ["01:00.0"])]
    assert given(pod({"rdma": 3}, hint=hint), on) == "insufficient-devices:rdma"


def test_virtual_functions_are_given_in_the_order_of_bus_ids_as_text():
    groups = [{"labels": {}, "vfs": [{"minor": 0, "busID": "0.2"}, {"minor": 1, "busID": "0.10"}]}]
    found = decide(pod({"rdma": 1}, hint={"rdma": {"vfSelector": {}}}), machine(nic(0, vfGroups=groups)))
    assert not isinstance(found, Failure)
    assert found["rdma"][0].vfs[0].bus_id == "0.10"


def test_a_nic_without_a_matching_function_is_passed_over():
    groups = [{"labels": {"for": "us"}, "vfs": [{"minor": 0, "busID": "1.0"}]}]
    on = machine(nic(0, vfs=1), nic(1, vfGroups=groups))
    hint = {"rdma": {"vfSelector": {"matchLabels": {"for": "us"}}}}
    assert given(pod({"rdma": 1}, hint=hint), on) == {"rdma": [1]}
    held = Holdings()
    taken = decide(pod({"rdma": 1}, hint=hint), on, held)
    assert not isinstance(taken, Failure)
    held.hold(ObjectKey("default", "p"), taken, {})
    assert given(pod({"rdma": 1}, hint=hint), on, held) == "insufficient-devices:rdma"


def test_without_any_virtual_function_the_node_will_not_do():
    found = given(pod({"rdma": 1}, hint={"rdma": {"vfSelector": {}}}), machine(nic(0)))
    assert found == "no-virtual-functions:rdma"


def test_the_physical_function_is_given_beside_its_virtual_ones():
    on = machine(nic(0, vfs=2))
    assert given(pod({"rdma": 50}), on, holding(nics=[0], share=50)) == {"rdma": [0]}
    assert given(pod({"rdma": 100}), on, holding(nics=[0], share=1)) == "insufficient-devices:rdma"


def test_what_a_device_does_not_report_is_not_checked():
    bare = gpu(0) | {"resources": {"koordinator.sh/gpu-memory": "80Gi"}}
    assert given(pod({"nvidia.com/gpu": 1}), machine(bare)) == {"gpu": [0]}


def test_a_used_up_device_gives_no_share_however_small():
    on = machine(nic(0))
    held = Holdings()
    held.hold(ObjectKey("default", "h"), {"rdma": (Grant(0, {KOORD_RDMA: 100}),)}, {})
    assert given(pod({"rdma": 1}), on, held) == "insufficient-devices:rdma"
