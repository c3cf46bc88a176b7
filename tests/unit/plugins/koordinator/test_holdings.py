"""Who holds what of a machine, and exclusive use."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL
from reconciler.plugins.koordinator.demand import Failure
from reconciler.plugins.koordinator.holdings import Grant, Holdings, exclusive_use
from reconciler.plugins.koordinator.vocabulary import KOORD_RDMA, VirtualFunction
from tests.tools.koordinator_builders import UPSTREAM, decide, gpu, holding, machine, nic, pod
from tests.tools.koordinator_builders import given as given_devices

VFS = st.lists(st.sampled_from("xy").map(lambda bus: VirtualFunction(minor=0, busID=bus)), max_size=2)
GRANTS = st.builds(
    Grant, st.integers(0, 2), st.dictionaries(st.sampled_from("ab"), st.integers(0, 5)), VFS.map(tuple)
)
ALLOCATIONS = st.dictionaries(st.sampled_from(["gpu", "rdma"]), st.lists(GRANTS, max_size=3).map(tuple))
STEPS = st.lists(st.tuples(st.integers(0, 3), st.none() | ALLOCATIONS))


def key(number: int) -> ObjectKey:
    return ObjectKey("default", str(number))


@given(STEPS)
def test_any_history_leaves_only_its_final_holds(
    steps: list[tuple[int, dict[str, tuple[Grant, ...]] | None]],
):
    played = Holdings()
    last: dict[int, dict[str, tuple[Grant, ...]]] = {}
    for number, allocation in steps:
        last.pop(number, None)
        if allocation is None:
            played.release(key(number))
        else:
            played.hold(key(number), allocation, {})
            last[number] = allocation
        if number:  # a state that was asked for in between
            played.state()
    fresh = Holdings()
    for number, allocation in last.items():
        fresh.hold(key(number), allocation, {})
    assert {k: v for k, v in played.used.items() if v} == {k: v for k, v in fresh.used.items() if v}
    assert played.state() == fresh.state()
    for kind in ("gpu", "rdma"):
        assert played.held(kind) == fresh.held(kind)
        for minor in range(3):
            found = [played.vf_taken(kind, minor, bus) for bus in "xy"]
            assert found == [fresh.vf_taken(kind, minor, bus) for bus in "xy"]


FIRST, SECOND = (0, "s0"), (0, "s1")
ON = machine(gpu(0, FIRST), gpu(1, FIRST), gpu(2, SECOND), nic(0, FIRST), name="n")
ALONE, OTHER = ObjectKey("default", "alone"), ObjectKey("default", "other")


def test_alone_on_a_switch_locks_out_the_devices_of_its_type_there():
    held = holding(gpus=[1], nics=[0], hints={"gpu": {"exclusivePolicy": PCIE_LEVEL}}, by="alone")
    held = holding(gpus=[0, 2], share=50, by="other", into=held)
    ((_, alone, locked_out),) = exclusive_use(ON, held)
    assert alone == [(1, PCIE_LEVEL, (ALONE,))]
    assert locked_out == [0]


def test_a_device_of_several_pods_names_all():
    held = holding(gpus=[2], share=50, hints={"gpu": {"exclusivePolicy": DEVICE_LEVEL}}, by="alone")
    held = holding(gpus=[2], share=50, by="other", into=held)
    ((_, ((_, _, pods),), _),) = exclusive_use(ON, held)
    assert pods == (ALONE, OTHER)


def test_without_exclusive_use_there_is_nothing_to_show():
    assert list(exclusive_use(ON, holding(gpus=[0, 1], nics=[0]))) == []


FOUR = [(0, "0"), (0, "0"), (0, "1"), (0, "1")]
NICS = [nic(i, spot, vfs=4) for i, spot in enumerate(FOUR)]
VF: dict[str, object] = {"vfSelector": {}}


def wants(policy: str = "", **hint: object):
    return pod({"rdma": 1}, hint={"rdma": {**VF, "exclusivePolicy": policy, **hint}})


def test_a_pod_may_be_alone_with_itself():
    hint = {"rdma": {"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "PCIeLevel"}}
    assert given_devices(pod({"rdma": 2}, hint=hint), machine(*NICS)) == {"rdma": [0, 1]}


def test_without_a_switch_a_device_is_known_to_be_alone_on_none():
    """As SamePCIe has it. It may be on the switch of any other one without."""
    on = machine(nic(0, vfs=2), nic(1, vfs=2), nic(2, (0, "a"), vfs=2))
    assert given_devices(wants("PCIeLevel"), on) == {"rdma": [2]}
    assert given_devices(wants("PCIeLevel"), on, holding(nics=[2], share=1)) == "insufficient-devices:rdma"
    held = holding(nics=[0], share=1, hints={"rdma": {"exclusivePolicy": PCIE_LEVEL}})
    assert given_devices(wants(), on, held) == {"rdma": [2]}


def test_the_release_excludes_nobody():
    held = holding(nics=[0], share=1, hints={"rdma": {"exclusivePolicy": "DeviceLevel"}})
    assert given_devices(wants("PCIeLevel"), machine(*NICS), held, UPSTREAM) == {"rdma": [0]}


def test_counted_devices_are_charged_whole_when_they_are_to_be_alone():
    hint = {"rdma": {"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "DeviceLevel"}}
    found = decide(pod({"rdma": 2}, hint=hint), machine(*NICS))
    assert not isinstance(found, Failure)
    assert [(grant.minor, grant.shares[KOORD_RDMA]) for grant in found["rdma"]] == [(0, 100), (1, 100)]


def test_gpus_can_be_held_alone_too():
    on = machine(gpu(0, (0, "0")), gpu(1, (0, "0")), gpu(2, (0, "1")))
    half = pod({"gpu.shared": 1, "gpu-core": 50, "gpu-memory-ratio": 50})
    held = holding(gpus=[0], share=50, hints={"gpu": {"exclusivePolicy": "DeviceLevel"}})
    assert given_devices(half, on, held) == {"gpu": [1]}
    held = holding(gpus=[0], share=50, hints={"gpu": {"exclusivePolicy": "PCIeLevel"}})
    assert given_devices(half, on, held) == {"gpu": [2]}
