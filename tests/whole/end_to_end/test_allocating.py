"""Claims on their own: from what they ask to what the server shows."""

from functools import partial
from typing import Any

from reconciler.api.objects.claims import FINALIZER
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.validation.served_kinds import CLAIM, DEVICE_CLASS
from reconciler.control.decisions.allocating import Allocated, Waits
from tests.tools.faulty_transport import Held, answer
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod

SLOW: dict[str, Any] = {"backoff_base_seconds": 600.0, "backoff_cap_seconds": 600.0}
"""With this back-off, nothing is tried twice unless something wakes it."""


def fleet(*names: str) -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", *names)])


async def test_a_labelled_claim_is_allocated_with_finalizer_and_timestamp():
    """Without the timestamp kube-scheduler could never reserve it."""
    cluster = fleet("d0")
    cluster.load(claim("a"))
    async with reconciling(cluster) as running:
        (told,) = await running.heard(Allocated)
    found = cluster.claim("a")
    assert cluster.devices("a") == ["n/d0"]
    assert FINALIZER in found["metadata"]["finalizers"]
    assert found["status"]["allocation"]["allocationTimestamp"]
    seen = (told.claim, told.node, told.devices)
    assert seen == (ObjectKey("default", "a"), "n", (DeviceID(DRIVER, "n", "d0"),))


async def test_claims_of_others_are_left_alone():
    cluster = fleet("d0", "d1")
    cluster.load(claim("theirs", managed=False), claim("ours"))
    before = cluster.claim("theirs")
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
    assert cluster.claim("theirs") == before


async def test_all_claims_are_ours_when_the_settings_say_so():
    cluster = fleet("d0")
    cluster.load(claim("any", managed=False))
    async with reconciling(cluster, all_claims=True):
        await cluster.until(lambda: cluster.devices("any"))


async def test_a_decision_counts_before_it_is_written():
    """While the first write hangs, nobody else gets its device."""
    cluster = fleet("d0")
    cluster.load(claim("a"), claim("b"))
    held_write = Held()
    async with reconciling(
        cluster, prepare=lambda f: f.on("PATCH", "/a/status", held_write), **SLOW
    ) as running:
        await held_write.arrived.wait()
        await running.told(Waits, claims=(ObjectKey("default", "b"),))
        held_write.go.set()
        await running.heard(Allocated)
    assert cluster.devices("a") == ["n/d0"]
    assert cluster.devices("b") == []


async def test_allocations_found_at_the_start_count_before_the_first_decision():
    """Even when their listing comes last: until then nothing may be decided."""
    cluster = fleet("d0", "d1")
    cluster.load({**claim("old", managed=False), "status": held(DRIVER, "n", "d0")}, claim("new"))
    slow_listing = Held()
    async with reconciling(
        cluster, prepare=lambda f: f.on("GET", "/resourceclaims", slow_listing)
    ) as running:
        await slow_listing.arrived.wait()
        assert running.decisions == []
        slow_listing.go.set()
        await running.heard(Allocated)
    assert cluster.devices("new") == ["n/d1"]


async def test_a_device_set_free_wakes_the_claim_that_waits_for_it():
    """Well before its back-off of ten minutes ends."""
    cluster = fleet("d0")
    cluster.load(claim("first"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Allocated)
        cluster.load(claim("second"))
        await running.heard(Waits)
        cluster.delete("first")
        await running.heard(Allocated, 2)
    assert cluster.claim("first") is None
    assert cluster.devices("second") == ["n/d0"]


async def test_the_reason_is_told_once_however_often_it_is_tried():
    cluster = fleet("d0")
    cluster.load(claim("big", count=2))
    async with reconciling(cluster, backoff_base_seconds=0.001, backoff_cap_seconds=0.001) as running:
        await running.heard(Waits)
        cluster.load(claim("small"))
        await running.heard(Allocated)
        cluster.load(claim("last"))
        await running.heard(Waits, 2)
    assert len(running.waits("big")) == len(set(running.waits("big")))


async def test_a_deleted_claim_that_is_reserved_is_not_touched():
    cluster = fleet("d0", "d1")
    cluster.load(claim("a"))
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
        cluster.edit("a", status=True, reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}])
        cluster.delete("a")
        cluster.load(claim("b"))
        await running.heard(Allocated, 2)
        assert cluster.devices("a") == ["n/d0"]
        cluster.edit("a", status=True, reservedFor=None)
        await cluster.until(lambda: cluster.claim("a") is None)


async def test_an_unreadable_claim_is_refused_alone():
    cluster = fleet("d0")
    cluster.load(claim("good"))
    bad = {
        "metadata": {"name": "bad", "namespace": "default", "uid": "u"},
        "spec": {"devices": {"requests": "x"}},
    }
    cluster.api.store.put(CLAIM, "default/bad", bad)
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
    assert cluster.devices("good") == ["n/d0"]


async def test_a_class_that_vanishes_is_the_reason_until_it_is_back():
    cluster = fleet("d0")
    cluster.load(claim("holds"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Allocated)
        cluster.load(claim("waits"))
        await running.heard(Waits)
        cluster.api.delete(DEVICE_CLASS, "", "gpu")
        await running.heard(Waits, 2)
        cluster.load(device_class())
        await running.heard(Waits, 3)
    assert running.waits("waits") == ["DevicesInUse", "ClassNotFound", "DevicesInUse"]


async def test_of_many_that_wait_for_a_device_one_gets_it_and_all_others_go_on_waiting():
    cluster = fleet("d0")
    cluster.load(claim("first"))
    names = [f"w{number:03}" for number in range(100)]
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Allocated)
        cluster.load(*map(claim, names))
        await running.heard(Waits, len(names))
        for freed, lucky in zip(["first", *names], names[:3], strict=False):
            cluster.delete(freed)
            await cluster.until(partial(cluster.devices, lucky))
    assert [name for name in names if cluster.devices(name)] == [names[2]]


async def test_half_of_a_pods_claims_written_is_told_even_if_the_other_half_fails():
    cluster = fleet("d0", "d1")
    cluster.load(claim("one"), claim("two"), pod("p", "one", "two"))
    async with reconciling(
        cluster, prepare=lambda f: f.on("PATCH", "/two/status", answer(503)), **SLOW
    ) as running:
        (told,) = await running.heard(Allocated)
    assert told.claim.name == "one"


async def test_a_claim_whose_class_appears_later_is_woken():
    cluster = Cluster([node("n"), devices("n", "d0"), claim("early")])
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
        assert running.waits("early") == ["ClassNotFound"]
        cluster.load(device_class())
        await running.heard(Allocated)
