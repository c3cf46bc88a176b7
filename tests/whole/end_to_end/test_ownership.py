"""Living next to another allocator: what is not ours is not touched."""

import asyncio
from typing import Any

import pytest

from reconciler import app
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.errors import Rejected
from reconciler.settings import Settings
from tests.tools.running_reconciler import Cluster, reached, reconciling
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node

OTHER = "nic.example.com"


def fleet() -> Cluster:
    return Cluster(
        [
            node("n"),
            device_class(),
            devices("n", "d0", "d1"),
            device_class("nic", OTHER),
            devices("n", "e0", driver=OTHER),
        ]
    )


async def test_without_a_driver_or_class_of_its_own_it_refuses_to_begin():
    """The API does not protect a device from two allocators."""
    cluster = fleet()
    async with reached(cluster.api) as transport:
        with pytest.raises(Rejected, match="--own-driver"):
            await app.run(Settings(), transport, stop=asyncio.Event())


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({"own_drivers": DRIVER}, id="the driver is owned"),
        pytest.param({"own_classes": "gpu"}, id="the class is owned"),
        pytest.param({"own_classes": "gpu", "own_drivers": "else.example.com"}, id="either will do"),
    ],
)
async def test_a_device_of_a_driver_or_class_not_owned_is_refused_with_that_reason(flags: dict[str, Any]):
    cluster = fleet()
    cluster.load(claim("a-nic", device_class="nic"), claim("gpu"))
    async with reconciling(cluster, embedded=False, **flags) as running:
        await running.heard(Allocated)
        await running.heard(Waits)
    assert running.waits("a-nic") == ["NotOurs"]
    assert cluster.devices("gpu") == ["n/d0"]
    assert cluster.devices("a-nic") == []


async def test_two_reconcilers_with_drivers_of_their_own_share_a_cluster():
    cluster = fleet()
    cluster.load(claim("gpu-a"), claim("nic", device_class="nic"), claim("gpu-b"))
    async with (
        reconciling(cluster, embedded=False, own_drivers=DRIVER) as gpus,
        reconciling(cluster, embedded=False, own_drivers=OTHER) as nics,
    ):
        await gpus.heard(Allocated, 2)
        await nics.heard(Allocated)
        await gpus.heard(Waits)
    assert {told.claim.name for told in gpus.of(Allocated)} == {"gpu-a", "gpu-b"}
    assert {told.claim.name for told in nics.of(Allocated)} == {"nic"}


async def test_a_deleted_claim_on_devices_of_others_is_not_freed_by_us():
    cluster = fleet()
    cluster.load(
        {**claim("nic", device_class="nic", managed=False), "status": held(OTHER, "n", "e0")},
        {**claim("gpu", managed=False), "status": held(DRIVER, "n", "d0")},
    )
    for name in ("nic", "gpu"):
        cluster.edit(name, finalizers=["resource.kubernetes.io/delete-protection"])
        cluster.delete(name)
    async with reconciling(cluster, embedded=False, own_drivers=DRIVER):
        await cluster.until(lambda: cluster.claim("gpu") is None)
    assert cluster.devices("nic") == ["n/e0"]


def mixed(*ours: str) -> Cluster:
    """A class of devices of two drivers, of which the other's come first."""
    anything = {**device_class("any"), "spec": {"selectors": [{"cel": {"expression": "true"}}]}}
    return Cluster(
        [node("n"), anything, devices("n", "e0", "e1", driver="a.example.com"), devices("n", *ours)]
    )


def wanting_all(name: str) -> dict[str, Any]:
    raw = claim(name, device_class="any")
    raw["spec"]["devices"]["requests"][0]["exactly"] = {"deviceClassName": "any", "allocationMode": "All"}
    return raw


def either(name: str) -> dict[str, Any]:
    """Two devices, or one."""
    raw = claim(name)
    alternatives = [{"name": f"x{n}", "deviceClassName": "any", "count": n} for n in (2, 1)]
    raw["spec"]["devices"]["requests"] = [{"name": "r", "firstAvailable": alternatives}]
    return raw


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(claim("c", device_class="any"), id="exactly one"),
        pytest.param(either("c"), id="the alternative that our devices can meet"),
    ],
)
async def test_where_there_is_a_choice_our_own_devices_are_taken(raw: dict[str, Any]):
    cluster = mixed("d0")
    cluster.load(raw)
    async with reconciling(cluster, embedded=False, own_drivers=DRIVER) as running:
        (told,) = await running.heard(Allocated)
    assert [device.driver for device in told.devices] == [DRIVER]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(claim("c", 2, device_class="any"), id="more than are ours"),
        pytest.param(wanting_all("c"), id="all, which fewer are not"),
    ],
)
async def test_where_our_own_do_not_do_it_is_refused_as_not_ours(raw: dict[str, Any]):
    cluster = mixed("d0")
    cluster.load(raw)
    async with reconciling(cluster, embedded=False, own_drivers=DRIVER) as running:
        await running.heard(Waits)
    assert running.waits("c") == ["NotOurs"]
    assert cluster.devices("c") == []


async def test_a_class_that_is_ours_gives_devices_of_any_driver():
    cluster = mixed("d0")
    cluster.load(claim("c", 2, device_class="any"))
    async with reconciling(
        cluster, embedded=False, own_drivers="else.example.com", own_classes="any"
    ) as running:
        await running.heard(Allocated)
    assert cluster.devices("c") == ["n/e0", "n/e1"]
