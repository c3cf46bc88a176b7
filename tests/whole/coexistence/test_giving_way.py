"""What becomes of our allocations in the hands of others."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import pytest

from reconciler.api.objects.claims import ALLOCATED_AT, FINALIZER
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.validation.served_kinds import SLICE
from reconciler.cluster.transport import Response
from reconciler.control.decisions.allocating import (
    Allocated,
    Freed,
    HeldTwice,
    NoLongerOverCommitted,
    OverCommitted,
    Reclaimed,
    Uncharged,
    Ungated,
    Waits,
)
from tests.tools.admission_policies import announced
from tests.tools.faulty_transport import Faulty, Held, Send, after, answer
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import SETTLED, Cluster, reconciling
from tests.tools.shared_clusters import SLOW, allocate, asking, bind, fleet, gone, machine, take_back
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, node, pod, template

T = TypeVar("T")
EARLY, LATE = "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"


def announced_claim(name: str, **more: Any) -> Any:
    """A claim as the admission policy makes it."""
    return announced(claim(name, **more))


@pytest.mark.parametrize("made", [claim, announced_claim], ids=["marked", "announced"])
async def test_what_kube_scheduler_takes_back_is_left_to_it(made: Any):
    """And what we know of its reason is told."""
    cluster = fleet(machine("a", cpu="4"))
    cluster.load(made("one"), pod("p", "one", **asking(cpu="3")))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated)
        cluster.load(pod("quick", gates=(), **asking(cpu="2")))
        bind(cluster, "quick", "a")
        cluster.load(pod("later"))
        await running.heard(Ungated, 2)  # so what happened to pods before is known
        take_back(cluster, "one")
        (told,) = await running.heard(Reclaimed)
        await asyncio.sleep(SETTLED)
        assert cluster.devices("one") == []
        assert running.waits("one") == ["LeftToScheduler"] * bool(running.waits("one"))
        allocate(cluster, "one", "a", "d1", pod="p")
        await cluster.until(lambda: cluster.devices("one") == ["a/d1"])
    assert (told.claim.name, told.pod.name, told.node) == ("one", "p", "a")
    assert told.devices == (DeviceID(DRIVER, "a", "d0"),)
    assert told.message == "node a: Insufficient cpu: the pod needs 3000m; 2000m is free"


async def test_it_is_ours_again_once_its_pod_is_gone():
    """The claim is labelled, so it is ours with or without a pod."""
    cluster = fleet(machine("a"))
    cluster.load(claim("one"), pod("p", "one"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated)
        take_back(cluster, "one")
        await running.heard(Reclaimed)
        gone(cluster, "p")
        await running.heard(Allocated, 2)


@pytest.mark.parametrize("made", [claim, announced_claim], ids=["marked", "announced"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_claim_whose_gated_pod_vanished_is_freed(restarted: bool, made: Any):
    """Nobody else does it: it was never reserved (RCC-3)."""
    cluster = fleet(machine("a"), count=1)
    door = Held()  # the pod keeps its gate
    cluster.load(made("one", managed=False), pod("p", "one"))
    async with reconciling(
        cluster, prepare=lambda f: f.on("PATCH", "/p", door), drain_seconds=0.0
    ) as running:
        await running.heard(Allocated)
        await door.arrived.wait()
        gone(cluster, "p")
        if not restarted:
            door.go.set()
            await running.heard(Freed)
    if restarted:
        async with reconciling(cluster) as running:
            await running.heard(Freed)
    found = cluster.claim("one")
    assert "allocation" not in found.get("status", {})
    assert FINALIZER not in found["metadata"].get("finalizers", [])
    assert ALLOCATED_AT not in found["metadata"].get("annotations", {})
    assert running.of(Freed)[0].why == "the pods that it was allocated for are gone"


@pytest.mark.parametrize("made", [claim, announced_claim], ids=["marked", "announced"])
async def test_an_allocation_of_others_is_not_freed_although_no_pod_names_it(made: Any):
    cluster = fleet(machine("a"), count=2)
    cluster.load(made("theirs", managed=False), claim("ours", 2))
    allocate(cluster, "theirs", "a", "d0")
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
    assert cluster.devices("theirs") == ["a/d0"]


async def test_a_labelled_claim_stays_allocated_without_a_pod():
    cluster = fleet(machine("a"))
    cluster.load(claim("one"), pod("p", "one"), claim("alone"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Allocated, 2)
        gone(cluster, "p")
        cluster.load(claim("last"))
        await running.heard(Waits)
    assert cluster.devices("one")


@pytest.mark.parametrize(
    ("stamp", "reserved", "gives_way"),
    [
        pytest.param(EARLY, False, True, id="theirs is older"),
        pytest.param(LATE, False, False, id="theirs is younger and unused"),
        pytest.param(LATE, True, True, id="theirs is younger and in use"),
    ],
)
async def test_of_two_claims_with_one_device_ours_gives_way(stamp: str, reserved: bool, gives_way: bool):
    cluster = fleet(machine("a"), count=1)
    cluster.load(claim("ours"), claim("theirs", managed=False), pod("p", "theirs", gates=()))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Allocated)
        allocate(cluster, "theirs", "a", "d0", pod="p" if reserved else "", stamp=stamp)
        (told,) = await running.heard(HeldTwice)
        if gives_way:
            (freed,) = await running.heard(Freed)
            assert freed.claim.name == "ours"
            assert running.waits("ours") == [] or await running.heard(Waits)
        else:
            cluster.load(claim("late"))
            await running.heard(Waits)
    assert told.claims == (ObjectKey("default", "ours"), ObjectKey("default", "theirs"))
    assert cluster.devices("theirs") == ["a/d0"]
    assert cluster.devices("ours") == ([] if gives_way else ["a/d0"])


async def test_ours_gives_way_when_the_younger_claim_comes_into_use():
    cluster = fleet(machine("a"), count=1)
    cluster.load(claim("ours"), claim("theirs", managed=False), pod("p", "theirs", gates=()))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Allocated)
        allocate(cluster, "theirs", "a", "d0", stamp=LATE)
        await running.heard(HeldTwice)
        cluster.load(claim("late"))
        await running.heard(Waits)
        assert running.of(Freed) == []
        entry = {"resource": "pods", "name": "p", "uid": cluster.pod("p")["metadata"]["uid"]}
        cluster.edit("theirs", status=True, reservedFor=[entry])
        await running.heard(Freed)
    assert (cluster.devices("ours"), cluster.devices("theirs")) == ([], ["a/d0"])


async def test_a_claim_of_ours_that_is_in_use_does_not_give_way():
    cluster = fleet(machine("a"), count=1)
    cluster.load(claim("ours"), pod("user", "ours"), claim("theirs", managed=False))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated)
        uid = cluster.pod("user")["metadata"]["uid"]
        cluster.edit("ours", status=True, reservedFor=[{"resource": "pods", "name": "user", "uid": uid}])
        allocate(cluster, "theirs", "a", "d0", stamp=EARLY)
        await running.heard(HeldTwice)
        cluster.load(claim("late"))
        await running.heard(Waits)
    assert cluster.devices("ours") == cluster.devices("theirs") == ["a/d0"]


async def test_it_does_not_give_way_to_a_claim_that_let_go_meanwhile():
    """The watch may lag behind: the server is asked before anything is undone."""
    cluster = fleet(machine("a"), count=1)
    cluster.load(claim("ours"), claim("theirs", managed=False))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Allocated)
        running.faulty.on("GET", "/theirs", after(lambda: take_back(cluster, "theirs")))
        allocate(cluster, "theirs", "a", "d0", stamp=EARLY)
        await running.heard(HeldTwice)
        await cluster.until(lambda: not cluster.devices("theirs"))
        cluster.load(claim("late"))
        await running.heard(Waits)
    assert cluster.devices("ours") == ["a/d0"]
    assert running.of(Freed) == []


async def test_two_reconcilers_that_gave_one_device_twice_end_with_one_holder():
    """Whoever looks finds the same loser, so never both let go."""
    cluster = fleet(machine("a"), count=1)
    doors = Held(), Held()

    async def not_yet(send: Send) -> Response:
        return await (send() if doors[1].go.is_set() else answer(409)(send))

    def without_x(faulty: Faulty) -> None:
        """Loses every race for x, so that its device is there for y."""
        for path in ("/x", "/x/status"):
            faulty.on("PATCH", path, *[not_yet] * 10)
        faulty.on("PATCH", "/y/status", doors[1])

    async with (
        reconciling(cluster, prepare=lambda f: f.on("PATCH", "/x/status", doors[0]), **SLOW) as one,
        reconciling(cluster, prepare=without_x, **SLOW) as other,
        asyncio.timeout(PATIENCE),
    ):
        cluster.load(claim("x"))
        await doors[0].arrived.wait()
        cluster.load(claim("y"))
        await doors[1].arrived.wait()
        for door in doors:
            door.go.set()
        await first(one.heard(Freed), other.heard(Freed))
        # Who lets go has told of it; the other does only if it looks before that is over.
        (told,) = (one if one.of(Freed) else other).of(HeldTwice)
        assert len(cluster.devices("x")) + len(cluster.devices("y")) == 1
        cluster.load(claim("z"))
        await one.heard(Waits)
    assert [key.name for key in told.claims] == ["x", "y"]
    assert len(cluster.devices("x")) + len(cluster.devices("y")) == 1
    assert cluster.devices("z") == []


async def test_an_idle_process_notices_counters_that_are_over_committed():
    """Two partitions of one device, of which each takes more than half."""
    slice_ = devices("n", "half", "most")
    metadata = {"name": "n-counters"}
    counters = {"apiVersion": slice_["apiVersion"], "kind": "ResourceSlice", "metadata": metadata}
    counters["spec"] = {
        **{key: slice_["spec"][key] for key in ("driver", "nodeName")},
        "pool": {**slice_["spec"]["pool"], "resourceSliceCount": 2},
        "sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}],
    }
    slice_["spec"]["pool"]["resourceSliceCount"] = 2
    for device, size in zip(slice_["spec"]["devices"], ("20Gi", "30Gi"), strict=True):
        device["consumesCounters"] = [{"counterSet": "gpu", "counters": {"memory": {"value": size}}}]
    cluster = Cluster([node("n"), device_class(), slice_, counters, claim("a", managed=False)])
    cluster.load(claim("b", managed=False))
    allocate(cluster, "a", "n", "half")
    async with reconciling(cluster, audit_seconds=0.001) as running:
        allocate(cluster, "b", "n", "most")
        (told,) = await running.heard(OverCommitted)
        cluster.delete("b")
        (over,) = await running.heard(NoLongerOverCommitted)
        slice_["spec"]["devices"] = slice_["spec"]["devices"][1:]
        del counters["spec"]["sharedCounters"][0]["counters"]["memory"]
        counters["spec"]["sharedCounters"][0]["counters"]["slots"] = {"value": "1"}
        slice_["spec"]["devices"][0].pop("consumesCounters")
        for one in (slice_, counters):
            cluster.api.update(SLICE, "", one["metadata"]["name"], partial(_with_spec, one["spec"]))
        (lost,) = await running.heard(Uncharged)
    assert (told.counter_set, told.short) == ("gpu", (("memory", "10Gi"),))
    assert [key.name for key in told.claims] == ["a", "b"]
    assert over.counter_set == "gpu"
    found = (lost.device.device, lost.counters, [key.name for key in lost.claims])
    assert found == ("half", ("memory",), ["a"])


async def test_pods_of_a_template_that_vanish_leave_nothing_behind():
    cluster = fleet(machine("a"), count=1)
    door = Held()
    cluster.load(template("t"), pod("p", templates=("t",)))
    async with reconciling(
        cluster, controllers=True, prepare=lambda f: f.on("PATCH", "/p", door), **SLOW
    ) as running:
        await door.arrived.wait()
        gone(cluster, "p")
        door.go.set()
        await cluster.until(lambda: not cluster.claims())
        cluster.load(claim("next"))
        await running.heard(Allocated, 2)


async def first(*waits: Coroutine[Any, Any, T]) -> T:
    """What comes first of several."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()


def _with_spec(spec: Any, shown: Any) -> Any:
    return {**shown, "spec": spec}
