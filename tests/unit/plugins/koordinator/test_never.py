"""What can never be is told from what is merely held: the reasons of pods that no machine serves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.reason_table import REASONS, remedy
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.decision import allocate
from reconciler.plugins.koordinator.demand import Demand, Failure
from reconciler.plugins.koordinator.filters import counts
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.holdings import Holdings
from reconciler.plugins.koordinator.refusals import Unserved, main_reason, no_room
from reconciler.plugins.koordinator.vocabulary import PARTITION_POLICY, PARTITIONS, Rules, Semantics
from tests.tools.examples import examples
from tests.tools.koordinator_builders import PODS, demand, device, devices, gpu, nic, pod, read

NAMES = ("a", "b")
PAIR = {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
COUNT = {"allocateStrategy": "RequestsAsCount"}
TABLE: dict[str, Any] = {
    "labels": {PARTITION_POLICY: "Honor"},
    "annotations": {PARTITIONS: '{"1": [{"minors": [0], "ringBusBandwidth": "100Gi"}]}'},
}
WAIT = {"InsufficientDevices", "TopologyScopeUnsatisfied", "JointScopeViolation", "NoFeasiblePartition"}


def anywhere(_: str) -> bool:
    return True


def fleet_of(*devices: dict[str, Any], semantics: Semantics = Semantics.PROPOSAL, **metadata: Any) -> Fleet:
    """Two equal machines."""
    fleet = Fleet(Rules(semantics))
    for name in NAMES:
        fleet.put(device(*devices, name=name, **metadata), {})
    return fleet


def why(fleet: Fleet, wants: Pod) -> tuple[str, str]:
    """The reason and the message."""
    found = fleet.first(demand(wants, fleet.rules.semantics), anywhere)
    assert isinstance(found, Unserved)
    return main_reason(found), no_room(found).removeprefix("0/2 nodes can give the devices: ")


def hold(fleet: Fleet, wants: Pod, name: str) -> None:
    """Give devices to a pod on one machine."""
    asked = demand(wants, fleet.rules.semantics)
    found = fleet.decide(asked, name)
    assert not isinstance(found, Failure)
    fleet.hold(ObjectKey("default", f"{wants.key.name} on {name}"), name, found, asked.hints)


EIGHT = [gpu(n, (n // 4, f"s{n // 2}")) for n in range(8)]
NICS = [nic(n, vfs=1, vf_labels={"t": "x"}) for n in range(2)]
SIDES = [gpu(0, (0, "a")), gpu(1, (0, "b")), nic(0, (0, "c"))]

NEVER = [
    (EIGHT, pod({"fpga": 1}), "NoDevicesOfType", "2 without fpga devices"),
    (EIGHT, pod({"nvidia.com/gpu": 1, "rdma": 1}), "NoDevicesOfType", "2 without rdma devices"),
    (EIGHT, pod({"nvidia.com/gpu": 16}), "ExceedsNodeCapacity", "2 with fewer than 16 gpu devices"),
    (
        EIGHT,
        pod({"gpu-memory": "200Gi"}),
        "ExceedsNodeCapacity",
        "2 without gpu devices that are large enough",
    ),
    (
        [nic(0)],
        pod({"rdma": 1}, hint={"rdma": {"vfSelector": {}}}),
        "NoVirtualFunctions",
        "2 without rdma virtual functions",
    ),
    (
        NICS,
        pod({"rdma": 1}, hint={"rdma": {"vfSelector": {"matchLabels": {"t": "y"}}}}),
        "NoVirtualFunctions",
        "2 without rdma virtual functions that vfSelector matches",
    ),
    (
        NICS,
        pod({"rdma": 100}, hint={"rdma": {"vfSelector": {}, **COUNT}}),
        "ExceedsNodeCapacity",
        "2 with fewer than 100 rdma devices with matching virtual functions",
    ),
    (
        NICS,
        pod({"rdma": 1}, hint={"rdma": {"selector": {"matchLabels": {"t": "y"}}}}),
        "NoMatchingDevices",
        "2 without rdma devices that the selector matches",
    ),
    (
        EIGHT,
        pod({"nvidia.com/gpu": 3}, hint={"gpu": {"requiredTopologyScope": "PCIe"}}),
        "TopologyScopeImpossible",
        "2 with too few GPUs within any scope PCIe",
    ),
    (
        SIDES,
        pod({"nvidia.com/gpu": 1, "rdma": 1}, joint=PAIR),
        "JointScopeImpossible",
        "2 with too few gpu, rdma devices on common PCIe switches",
    ),
]


@pytest.mark.parametrize(("machine", "wants", "reason", "message"), NEVER)
def test_what_no_machine_has_says_so(machine: list[dict[str, Any]], wants: Pod, reason: str, message: str):
    assert why(fleet_of(*machine), wants) == (reason, message)
    assert "Wait until" not in remedy(reason)


def test_partitions_that_the_pod_never_accepts_say_so_and_held_ones_say_wait():
    fleet = fleet_of(gpu(0), gpu(1), **TABLE)
    fast = pod({"nvidia.com/gpu": 1}, spec={"ringBusBandwidth": "200Gi"})
    assert why(fleet, fast) == ("PartitionImpossible", "2 without a partition that the pod accepts")
    for name in NAMES:
        hold(fleet, pod({"nvidia.com/gpu": 1}), name)
    assert why(fleet, pod({"nvidia.com/gpu": 1}))[0] == "NoFeasiblePartition"
    assert why(fleet, fast)[0] == "PartitionImpossible"


@pytest.mark.parametrize("semantics", Semantics)
def test_one_machine_that_is_merely_held_is_enough_to_wait(semantics: Semantics):
    """One machine has too few GPUs, the other enough, and they are held."""
    fleet = Fleet(Rules(semantics))
    fleet.put(device(gpu(0), name="small"), {})
    fleet.put(device(gpu(0), gpu(1), name="large"), {})
    hold(fleet, pod({"nvidia.com/gpu": 2}), "large")
    pair = pod({"nvidia.com/gpu": 2})
    message = "1 with too few free devices, 1 with fewer than 2 gpu devices"
    assert why(fleet, pair) == ("InsufficientDevices", message)


def test_what_counts_is_where_the_pod_can_run():
    """The machine whose devices are held does not suit the pod: waiting for it does not help."""
    fleet = Fleet(Rules())
    fleet.put(device(gpu(0), name="large"), {})
    fleet.put(device(nic(0), name="small"), {})
    hold(fleet, pod({"nvidia.com/gpu": 1}), "large")
    found = fleet.first(demand(pod({"nvidia.com/gpu": 1})), "small".__eq__)
    assert isinstance(found, Unserved)
    assert main_reason(found) == "NoDevicesOfType"


def test_sick_devices_are_a_reason_of_their_own_until_they_recover():
    fleet = fleet_of(gpu(0), gpu(1, health=False))
    pair = pod({"nvidia.com/gpu": 2})
    message = "2 with enough devices only if all were healthy"
    assert why(fleet, pair) == ("UnhealthyDevices", message)
    fleet.put(device(gpu(0), gpu(1), name="b"), {})
    hold(fleet, pair, "b")
    assert why(fleet, pair)[0] == "InsufficientDevices"


def test_a_device_object_that_was_deleted_leaves_hope():
    fleet = fleet_of(gpu(0))
    for name in NAMES:
        fleet.remove(name)
    assert why(fleet, pod({"nvidia.com/gpu": 1}))[0] == "UnhealthyDevices"


def test_without_any_device_object_there_is_no_device_of_the_type():
    found = Fleet(Rules()).first(demand(pod({"fpga": 1})), anywhere)
    assert isinstance(found, Unserved)
    assert (main_reason(found), no_room(found)) == ("NoDevicesOfType", "no node has a Device object")


def test_only_free_functions_that_match_are_counted():
    """A function in another group is not free for this pod."""
    groups = [
        {"labels": {"t": kind}, "vfs": [{"minor": number, "busID": f"0.{number}"}]}
        for number, kind in enumerate("xy")
    ]
    fleet = fleet_of(nic(0, vfGroups=groups))
    wants = pod({"rdma": 1}, hint={"rdma": {"vfSelector": {"matchLabels": {"t": "x"}}}})
    for name in NAMES:
        hold(fleet, wants, name)
    (count,) = counts(fleet.columns.every(), demand(wants), wants.key)
    left = {gate.name: gate.left for gate in count.gates}
    assert (left["matching virtual functions"], left["free virtual functions"]) == (2, 0)
    assert why(fleet, wants) == ("InsufficientDevices", "2 with too few free devices")
    assert fleet.candidates(demand(wants)) == []


def at_best(fleet: Fleet, asked: Demand, name: str, *, recovered: bool) -> bool:
    """Whether the exact decision succeeds on a machine of which nothing is held."""
    machine = fleet.machines[name]
    found = allocate(asked, machine.recovered if recovered else machine, Holdings(), fleet.rules)
    return not isinstance(found, Failure)


@pytest.mark.parametrize("semantics", Semantics)
@examples(60)
@given(data=st.data())
def test_reasons_agree_with_the_exact_choice_on_empty_machines(semantics: Semantics, data: st.DataObject):
    """Never where waiting may help; and to wait only where a machine can serve at best."""
    rules = Rules(semantics)
    fleet = Fleet(rules)
    names = ["a", "b", "c"][: data.draw(st.integers(1, 3))]
    for name in names:
        fleet.put(data.draw(devices(name)), {})
    for number, wants in enumerate(data.draw(st.lists(PODS, min_size=1, max_size=6))):
        asked = read(wants, rules)
        if data.draw(st.integers(0, 4)) == 0:
            fleet.put(data.draw(devices(names[0])), {})
        found = fleet.first(asked, anywhere)
        if isinstance(found, Unserved):
            reason = main_reason(found)
            assert reason in REASONS
            as_they_are = any(at_best(fleet, asked, name, recovered=False) for name in names)
            if as_they_are:
                assert reason in WAIT
            # By the rules of the release, a machine may serve only while a device of it is not healthy.
            if not as_they_are and not any(at_best(fleet, asked, name, recovered=True) for name in names):
                assert reason not in WAIT
            assert found.unsuited + found.refused.total() + found.short.total() == len(names)
        elif found is not None:
            fleet.hold(ObjectKey("default", str(number)), found.node, found.allocation, asked.hints)
