"""Counts of claims and slices, and the oldest claim that is to be allocated."""

import asyncio
from typing import Any

from reconciler.control.ownership import Ownership
from reconciler.ha.shard import parse_shard
from reconciler.operations.metrics.devices import OBJECTS_AT_ONCE, ObjectCounts
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, put


def created(raw: dict[str, Any], at: str) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "creationTimestamp": at}}


def allocated(name: str, driver: str = DRIVER) -> dict[str, Any]:
    return {**claim(name, managed=False), "status": held(driver, "n", name)}


async def counted(*objects: dict[str, Any], **ours: Any) -> ObjectCounts:
    found = intake(*objects)
    found.listed.set()
    counts = ObjectCounts(found, Ownership(alone=True, **ours))
    await counts.refresh()
    return counts


async def test_claims_by_state_and_the_oldest_that_is_to_be_allocated():
    """An older one is another allocator's, one is allocated, and the pod of one needs it."""
    counts = await counted(
        created(claim("theirs", managed=False), "2026-01-01T00:00:00Z"),
        created(allocated("done"), "2026-01-01T00:00:00Z"),
        created(claim("new"), "2026-01-01T02:00:00Z"),
        created(claim("gated", managed=False), "2026-01-01T01:00:00Z"),
        pod("p", "gated"),
    )
    assert counts.claims == {"allocated": 1, "unallocated": 3}
    assert counts.oldest == 1767229200.0  # 2026-01-01T01:00:00Z


async def test_no_claims_at_all():
    counts = await counted(node("n"))
    assert (counts.claims, counts.oldest) == ({"allocated": 0, "unallocated": 0}, None)


async def test_claims_of_another_shard_are_counted_there():
    """So the sum over all shards is the number of claims."""
    objects = [device_class(), device_class("nic", "nic.example.com")]
    objects += [claim("a"), claim("b", device_class="nic"), allocated("c"), allocated("d", "nic.example.com")]
    first = await counted(*objects, shard=parse_shard(f"driver={DRIVER}"))
    other = await counted(*objects, shard=parse_shard("driver=nic.example.com"))
    assert first.claims == other.claims == {"allocated": 1, "unallocated": 1}


async def test_slices_by_how_they_select_nodes():
    per_device = devices("x", "d0")
    del per_device["spec"]["nodeName"]
    per_device["spec"] |= {"perDeviceNodeSelection": True, "devices": [{"name": "d0", "allNodes": True}]}
    everywhere = devices("y", "d0")
    del everywhere["spec"]["nodeName"]
    everywhere["spec"]["allNodes"] = True
    counts = await counted(per_device, everywhere, devices("n", "d0"), devices("m", "d0"))
    assert counts.slices == {"per_device": 1, "all_nodes": 1, "node_name": 2}


async def test_nothing_is_counted_before_all_objects_are_listed():
    found = intake(claim("a"))
    counts = ObjectCounts(found, Ownership(alone=True))
    await counts.refresh()
    assert counts.claims == {}


async def test_claims_that_come_during_the_count_are_counted_next_time():
    found = intake(*(claim(f"c{number}") for number in range(OBJECTS_AT_ONCE + 1)))
    found.listed.set()
    counts = ObjectCounts(found, Ownership(alone=True))
    counting = asyncio.create_task(counts.refresh())
    await asyncio.sleep(0)  # it has counted the first part
    put(found, claim("late"))
    await counting
    assert counts.claims["unallocated"] == OBJECTS_AT_ONCE + 1
    await counts.refresh()
    assert counts.claims["unallocated"] == OBJECTS_AT_ONCE + 2
