"""Joint allocation: the documents' machines, and what a search finds that a first choice would miss."""

from typing import Any

import pytest

from reconciler.plugins.koordinator.machine import Machine
from reconciler.plugins.koordinator.rules import Semantics
from tests.tools.koordinator_builders import UPSTREAM, decide, given, gpu, holding, machine, minors, nic, pod

BOTH = {"deviceTypes": ["gpu", "rdma"]}
SAME = {**BOTH, "requiredScope": "SamePCIe"}


def eight_pairs() -> Machine:
    """8 switches on 2 NUMA nodes, each with a GPU and a NIC."""
    spots = [(i // 4, str(i)) for i in range(8)]
    return machine(*(gpu(i, spot) for i, spot in enumerate(spots)), *(nic(i, s) for i, s in enumerate(spots)))


def two_nics() -> Machine:
    """2 NUMA nodes with 4 switches and as many GPUs each, and one NIC on the first switch of each."""
    gpus = [gpu(i, (i // 4, str(i))) for i in range(8)]
    return machine(*gpus, nic(0, (0, "0")), nic(1, (1, "4")))


def test_four_gpus_get_the_four_nics_beside_them():
    wants = pod({"nvidia.com/gpu": 4, "rdma": 1}, joint=BOTH)
    assert given(wants, eight_pairs()) == {"gpu": [0, 1, 2, 3], "rdma": [0, 1, 2, 3]}


def test_four_gpus_of_one_numa_node_get_its_one_nic():
    wants = pod({"nvidia.com/gpu": 4, "rdma": 1}, joint=BOTH)
    assert given(wants, two_nics()) == {"gpu": [0, 1, 2, 3], "rdma": [0]}
    # The release takes a NIC for each switch of the GPUs, wherever it is.
    assert given(wants, two_nics(), semantics=UPSTREAM) == {"gpu": [0, 1, 2, 3], "rdma": [0, 1]}


def test_the_other_numa_node_serves_when_one_is_in_use():
    wants = pod({"nvidia.com/gpu": 4, "rdma": 1}, joint=BOTH)
    assert given(wants, two_nics(), holding(gpus=[2])) == {"gpu": [4, 5, 6, 7], "rdma": [1]}


def test_the_machine_is_the_last_resort():
    apart = machine(gpu(0, (0, "0")), gpu(1, (0, "1")), nic(0, (1, "2")))
    wants = pod({"nvidia.com/gpu": 2, "rdma": 1}, joint=BOTH)
    assert given(wants, apart) == {"gpu": [0, 1], "rdma": [0]}


def test_without_topology_devices_are_given_but_never_on_one_switch():
    bare = machine(gpu(0), nic(0))
    assert given(pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=BOTH), bare) == {"gpu": [0], "rdma": [0]}
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=SAME)
    assert given(wants, bare) == "joint-scope-violation"
    assert given(wants, bare, semantics=UPSTREAM) == {"gpu": [0], "rdma": [0]}


def test_a_full_nic_makes_another_switch_the_choice():
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=SAME)
    assert given(wants, eight_pairs(), holding(nics=[0])) == {"gpu": [1], "rdma": [1]}
    # The release chooses the GPU first, and gives up.
    assert given(wants, eight_pairs(), holding(nics=[0]), UPSTREAM) == "joint-scope-violation"


def test_the_nearest_scope_is_preferred_where_it_is_not_required():
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=BOTH)
    assert given(wants, eight_pairs(), holding(nics=[0])) == {"gpu": [1], "rdma": [1]}


def test_a_search_does_not_end_where_the_first_switch_has_too_few_nics():
    # Two GPUs and five NICs: only switches 1 and 2 together have them.
    spots = [(0, "0"), (0, "1"), (0, "2")]
    nics = [nic(0, spots[0]), *(nic(i, spots[1]) for i in (1, 2)), *(nic(i, spots[2]) for i in (3, 4, 5))]
    on = machine(*(gpu(i, spot) for i, spot in enumerate(spots)), *nics)
    wants = pod({"nvidia.com/gpu": 2, "rdma": 500}, joint=SAME)
    assert given(wants, on) == {"gpu": [1, 2], "rdma": [1, 2, 3, 4, 5]}
    assert given(pod({"nvidia.com/gpu": 2, "rdma": 600}, joint=SAME), on) == "joint-scope-violation"


def test_more_nics_than_switches_come_from_near_to_far():
    near = [nic(3, (0, "0")), nic(2, (0, "0")), nic(1, (0, "1")), nic(0, (1, "2"))]
    on = machine(gpu(0, (0, "0")), *near)
    for amount, nics in {100: [2], 200: [2, 3], 300: [1, 2, 3], 400: [0, 1, 2, 3]}.items():
        assert given(pod({"nvidia.com/gpu": 1, "rdma": amount}, joint=BOTH), on)["rdma"] == nics
    assert given(pod({"nvidia.com/gpu": 1, "rdma": 500}, joint=BOTH), on) == "insufficient-devices:rdma"


def test_switches_give_in_turn():
    spots = [(0, "0"), (0, "1")]
    on = machine(*map(gpu, range(2), spots), *(nic(i, spots[i // 3]) for i in range(6)))
    assert given(pod({"nvidia.com/gpu": 2, "rdma": 400}, joint=BOTH), on)["rdma"] == [0, 1, 3, 4]


@pytest.mark.parametrize("order", [["gpu", "rdma"], ["rdma", "gpu"]])
def test_gpus_lead_whatever_the_order_of_types(order: list[str]):
    wants = pod({"nvidia.com/gpu": 2, "rdma": 1}, joint={"deviceTypes": order})
    assert given(wants, eight_pairs()) == {"gpu": [0, 1], "rdma": [0, 1]}


def test_three_types_are_beside_each_other():
    spots = [(0, "0"), (0, "1")]
    fpga = {"type": "fpga", "minor": 0, "health": True, "resources": {"koordinator.sh/fpga": "100"}}
    place = {"nodeID": 0, "pcieID": "1", "socketID": 0}
    on = machine(
        *(gpu(i, spot) for i, spot in enumerate(spots)),
        *(nic(i, spot) for i, spot in enumerate(spots)),
        {**fpga, "topology": place},
    )
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1, "fpga": 100}, joint={"deviceTypes": ["gpu", "rdma", "fpga"]})
    assert given(wants, on) == {"gpu": [1], "rdma": [1], "fpga": [0]}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("why", "joint", "hint"),
    [
        ("one type alone is no company", {"deviceTypes": ["gpu"]}, None),
        ("a type of which none is requested", {"deviceTypes": ["gpu", "fpga"]}, None),
        ("all NICs are taken anyway", SAME, {"rdma": {"allocateStrategy": "ApplyForAll"}}),
        ("null", None, {"rdma": None}),
    ],
)
def test_types_that_are_not_joint_are_chosen_alone(semantics: Semantics, why: str, joint: Any, hint: Any):
    on = machine(gpu(0, (0, "0")), nic(0, (1, "1")), semantics=semantics)
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=joint, hint=hint)
    assert given(wants, on, semantics=semantics) == {"gpu": [0], "rdma": [0]}


@pytest.mark.parametrize("semantics", Semantics)
def test_other_types_are_left_to_the_last_phase_where_they_are_planned(semantics: Semantics):
    label = {"node.koordinator.sh/secondary-device-well-planned": "true"}
    on = machine(gpu(0, (0, "0")), nic(0, (0, "0")), labels=label)
    wants = pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=BOTH)
    assert minors(decide(wants, on, semantics=semantics, trial=True)) == {"gpu": [0]}
    assert minors(decide(wants, on, semantics=semantics)) == {"gpu": [0], "rdma": [0]}
    alone = pod({"nvidia.com/gpu": 1, "rdma": 1})
    assert minors(decide(alone, on, semantics=semantics, trial=True)) == {"gpu": [0], "rdma": [0]}
