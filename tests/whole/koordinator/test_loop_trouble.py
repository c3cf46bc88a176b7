"""Conflicts, refusals and silence on the way to a pod: nothing is lost, nothing is given twice."""

from reconciler.control.decisions.allocating import DevicesGiven, Waits
from reconciler.plugins.koordinator import vocabulary
from tests.tools.faulty_transport import Late, after, answer
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import DEVICE, POD, KoordinatorCluster, machine, running, wants
from tests.tools.small_fleet import node

GPU = {"nvidia.com/gpu": 1}


def fleet(gpus: int) -> KoordinatorCluster:
    return KoordinatorCluster([node("n"), machine("n", *(gpu(minor) for minor in range(gpus)))])


async def test_a_write_that_arrives_after_it_was_given_up_changes_nothing():
    """What is written meanwhile is the same, so the late one meets another version of the pod."""
    cluster = fleet(2)
    late = Late(lambda: None)
    cluster.load(wants("a", GPU))
    async with running(cluster, prepare=lambda f: f.on("PATCH", "/a", late)) as run:
        await run.heard(DevicesGiven)
        cluster.load(wants("b", GPU))
        await run.heard(DevicesGiven, 2)
        assert (await late.arrive()).status in (409, 422)
    assert (cluster.given("a"), cluster.given("b")) == ({"gpu": [0]}, {"gpu": [1]})


async def test_an_unanswered_write_to_a_pod_that_changed_since_is_decided_afresh():
    """It can hit no other version than its own, so its device is free again: here it has become sick."""
    cluster = fleet(2)

    def meanwhile() -> None:
        cluster.change(DEVICE, "n", spec={"devices": [gpu(0, health=False), gpu(1)]})
        touch(cluster, "a")

    late = Late(meanwhile)
    cluster.load(wants("a", GPU))
    async with running(cluster, prepare=lambda f: f.on("PATCH", "/a", late)) as run:
        await run.heard(DevicesGiven)
        assert (await late.arrive()).status in (409, 422)
    assert cluster.given("a") == {"gpu": [1]}


def touch(cluster: KoordinatorCluster, name: str, **annotations: str) -> None:
    """Somebody writes annotations on a pod."""

    def changed(shown: dict[str, object]) -> dict[str, object]:
        metadata = shown["metadata"]
        assert isinstance(metadata, dict)
        said = {**metadata.get("annotations", {}), "touched": "yes", **annotations}
        return {**shown, "metadata": {**metadata, "annotations": said}}

    cluster.api.update(POD, "default", name, changed)


async def test_a_pod_made_anew_under_its_name_is_another_pod():
    cluster = fleet(1)

    def anew() -> None:
        cluster.remove("a")
        cluster.load(wants("a", {"nvidia.com/gpu": 2}))

    cluster.load(wants("a", GPU))
    async with running(cluster, prepare=lambda f: f.on("PATCH", "/a", after(anew))) as run:
        await run.heard(Waits)
        cluster.load(wants("b", GPU))
        await run.heard(DevicesGiven)
    assert (cluster.given("a"), cluster.given("b")) == ({}, {"gpu": [0]})


async def test_devices_that_somebody_else_writes_first_are_theirs():
    theirs = '{"gpu":[{"minor":1,"resources":{"koordinator.sh/gpu-core":"100"}}]}'
    cluster = fleet(2)
    cluster.load(wants("a", GPU))
    cluster.load(wants("b", GPU))
    fault = after(lambda: touch(cluster, "a", **{vocabulary.ALLOCATED: theirs}))
    async with running(cluster, prepare=lambda f: f.on("PATCH", "/a", fault)) as run:
        await run.told(Waits, reason="HoldsDevices")
        await run.heard(DevicesGiven)
    assert cluster.given("a") == {"gpu": [1]}
    assert cluster.gated("a")


async def test_a_refused_write_frees_its_devices():
    cluster = fleet(1)
    cluster.load(wants("a", GPU, priority=1), wants("b", GPU))
    flags = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0}
    async with running(cluster, prepare=lambda f: f.on("PATCH", "/a", answer(422)), **flags) as run:
        await run.heard(DevicesGiven)
    assert cluster.given("b") == {"gpu": [0]}
    assert cluster.given("a") == {}


async def test_a_device_object_that_cannot_be_read_gives_nothing_and_frees_nothing():
    cluster = fleet(1)
    cluster.load(node("m"), machine("m", gpu(0)))
    cluster.load(wants("a", GPU))
    async with running(cluster) as run:
        await run.heard(DevicesGiven)
        bad = gpu(1) | {"resources": {"koordinator.sh/gpu-core": "-1"}}
        cluster.change(DEVICE, "m", spec={"devices": [bad, gpu(2)]})
        cluster.load(wants("b", GPU), wants("c", GPU))
        await run.heard(Waits)
        await run.heard(DevicesGiven, 2)
        assert (cluster.on("a"), cluster.on("b")) == ("m", "n")
        cluster.change(DEVICE, "m", spec={"devices": [gpu(0), gpu(1)]})
        await run.heard(DevicesGiven, 3)
    assert (cluster.on("c"), cluster.given("c")) == ("m", {"gpu": [1]})
