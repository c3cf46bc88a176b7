"""exclusivePolicy: alone on a device, or on a switch. For the pod that asks, and against later ones."""

import pytest

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.demand import Failure
from reconciler.plugins.koordinator.names import KOORD_RDMA
from tests.tools.koordinator_builders import UPSTREAM, decide, given, gpu, holding, machine, nic, pod

FOUR = [(0, "0"), (0, "0"), (0, "1"), (0, "1")]
NICS = [nic(i, spot, vfs=4) for i, spot in enumerate(FOUR)]
VF: dict[str, object] = {"vfSelector": {}}


def wants(policy: str = "", **hint: object):
    return pod({"rdma": 1}, hint={"rdma": {**VF, "exclusivePolicy": policy, **hint}})


@pytest.mark.parametrize(
    ("policy", "held", "nic_given"),
    [("", [0], 0), ("DeviceLevel", [0], 1), ("PCIeLevel", [0], 2), ("PCIeLevel", [0, 3], None)],
)
def test_a_pod_that_is_to_be_alone_gets_what_nobody_holds(
    policy: str, held: list[int], nic_given: int | None
):
    expected = "insufficient-devices:rdma" if nic_given is None else {"rdma": [nic_given]}
    assert given(wants(policy), machine(*NICS), holding(nics=held, share=1)) == expected


@pytest.mark.parametrize(("policy", "nic_given"), [("", 0), ("DeviceLevel", 1), ("PCIeLevel", 2)])
def test_a_holder_who_is_to_be_alone_keeps_others_out(policy: str, nic_given: int):
    held = holding(nics=[0], share=1, hints={"rdma": {"exclusivePolicy": policy}})
    assert given(wants(), machine(*NICS), held) == {"rdma": [nic_given]}


def test_a_holder_who_leaves_keeps_nobody_out():
    held = holding(nics=[0], share=1, hints={"rdma": {"exclusivePolicy": "PCIeLevel"}})
    held.release(ObjectKey("default", "holder"))
    assert given(wants("PCIeLevel"), machine(*NICS), held) == {"rdma": [0]}


def test_exclusion_is_of_one_type():
    on = machine(gpu(0, (0, "0")), nic(0, (0, "0"), vfs=2))
    held = holding(gpus=[0], share=50)
    assert given(wants("PCIeLevel"), on, held) == {"rdma": [0]}


def test_a_pod_may_be_alone_with_itself():
    hint = {"rdma": {"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "PCIeLevel"}}
    assert given(pod({"rdma": 2}, hint=hint), machine(*NICS)) == {"rdma": [0, 1]}


def test_without_a_switch_a_device_is_one_by_itself():
    on = machine(nic(0, vfs=2), nic(1, vfs=2))
    assert given(wants("PCIeLevel"), on, holding(nics=[0], share=1)) == {"rdma": [1]}


def test_gpus_can_be_held_alone_too():
    on = machine(gpu(0, (0, "0")), gpu(1, (0, "0")), gpu(2, (0, "1")))
    half = pod({"gpu.shared": 1, "gpu-core": 50, "gpu-memory-ratio": 50})
    held = holding(gpus=[0], share=50, hints={"gpu": {"exclusivePolicy": "DeviceLevel"}})
    assert given(half, on, held) == {"gpu": [1]}
    held = holding(gpus=[0], share=50, hints={"gpu": {"exclusivePolicy": "PCIeLevel"}})
    assert given(half, on, held) == {"gpu": [2]}


def test_the_release_excludes_nobody():
    held = holding(nics=[0], share=1, hints={"rdma": {"exclusivePolicy": "DeviceLevel"}})
    assert given(wants("PCIeLevel"), machine(*NICS), held, UPSTREAM) == {"rdma": [0]}


def test_counted_devices_are_charged_whole_when_they_are_to_be_alone():
    hint = {"rdma": {"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "DeviceLevel"}}
    found = decide(pod({"rdma": 2}, hint=hint), machine(*NICS))
    assert not isinstance(found, Failure)
    assert [(grant.minor, grant.shares[KOORD_RDMA]) for grant in found["rdma"]] == [(0, 100), (1, 100)]
