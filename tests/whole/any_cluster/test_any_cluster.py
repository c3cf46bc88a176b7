"""What has to work on every cluster: the embedded server, and real ones with `make test-cluster`."""

import asyncio

import pytest

from reconciler.api.objects.core import GATE
from reconciler.control.decisions.allocating import Allocated, Compared, Ungated
from tests.tools.any_cluster import Lent, lent_or_embedded

pytestmark = pytest.mark.loopback


def of(*names: str):
    """Whether a decision is about a claim or pod of this name, in any namespace."""
    return lambda one: (one.claim if isinstance(one, Allocated) else one.pod).name in names


def about_claim(name: str):
    return lambda one: any(key.name == name for key in one.claims)


async def state(found: Lent, *names: str) -> list[object]:
    return [(await found.read("ResourceClaim", name))["metadata"]["resourceVersion"] for name in names]


async def test_claims_and_gated_pods_get_devices_and_others_are_left_to_their_scheduler():
    async with lent_or_embedded() as found:
        await found.claim("ours")
        await found.claim("theirs", managed=False)
        await found.claim("of-pod", 2, managed=False)
        await found.pod("gated", "of-pod")
        before = await state(found, "theirs")
        async with found.reconciling() as run:
            await run.heard(Allocated, of("ours"))
            await run.heard(Allocated, of("of-pod"))
            await run.heard(Ungated, of("gated"))
        assert [one[0] for one in await found.held("ours")] == [found.driver]
        pools = {pool for _, pool, _ in await found.held("of-pod")}
        assert len(pools) == 1
        assert await state(found, "theirs") == before
        gates = (await found.read("Pod", "gated"))["spec"].get("schedulingGates") or []
        assert GATE not in [gate["name"] for gate in gates]


async def test_shadow_mode_compares_and_writes_nothing():
    async with lent_or_embedded() as found:
        await found.claim("first", managed=False)
        await found.claim("second", managed=False)
        await found.pod("waiting", "second", schedulingGates=[], schedulerName="nobody")
        async with found.reconciling(mode="shadow", shadow_pending_seconds=0.01) as run:
            told = await run.heard(Compared, about_claim("second"))
            assert told.outcome == "they wait"
            await found.allocate("first", f"{found.name}-b", "d1")
            told = await run.heard(Compared, about_claim("first"))
            assert told.outcome == "other node"
            written = await state(found, "first", "second")
        assert await state(found, "first", "second") == written
        assert await found.held("second") == []


async def test_the_other_replica_takes_over_when_the_leader_is_killed():
    async with lent_or_embedded() as found:
        elected = {"leader_elect": True, "lease_namespace": found.name}
        await found.claim("first")
        async with found.reconciling(**elected) as one:
            await one.heard(Allocated, of("first"))
            async with found.reconciling(**elected) as other:
                assert one.task is not None
                one.task.cancel()
                await asyncio.wait([one.task])
                await found.claim("second")
                await other.heard(Allocated, of("second"))
        assert {*await found.held("first")}.isdisjoint(await found.held("second"))


async def test_a_killed_api_server_loses_nothing_and_no_device_is_given_twice():
    async with lent_or_embedded() as found:
        await found.claim("first", 2)
        async with found.reconciling() as run:
            await run.heard(Allocated, of("first"))
            await found.restart()
            await found.claim("second", 2)
            await run.heard(Allocated, of("second"))
        held = [*await found.held("first"), *await found.held("second")]
        assert len(held) == len({*held}) == 4
