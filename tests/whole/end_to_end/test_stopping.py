"""The end of a run: nothing new is begun, what was begun is finished, but not for ever."""

import asyncio
from typing import Any

from reconciler.control.decisions.allocating import Allocated
from tests.tools.faulty_transport import Faulty, Held
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim, device_class, devices, node

LONG: dict[str, Any] = {"drain_seconds": 10 * PATIENCE}
"""Who waits for the end of these fails the test"""


def fleet() -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", "d0", "d1"), claim("a"), claim("b")])


async def test_writes_under_way_are_finished_and_nothing_new_is_begun():
    cluster, write = fleet(), Held()
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/a", write), writers=1) as running:
        await write.arrived.wait()
        running.stop.set()
        write.go.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert cluster.devices("a") == ["n/d0"]
    assert cluster.devices("b") == []


async def test_a_write_that_does_not_end_is_cut_off_when_the_time_is_over():
    cluster, write = fleet(), Held()

    def prepare(faulty: Faulty) -> None:
        faulty.on("PATCH", "/a", write)

    async with reconciling(cluster, prepare=prepare, drain_seconds=0.05) as running:
        await write.arrived.wait()
        await running.heard(Allocated)
        running.stop.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert cluster.devices("a") == []
    assert cluster.devices("b") == ["n/d1"]


async def test_it_can_be_stopped_before_it_saw_everything():
    cluster, listing = fleet(), Held()
    async with reconciling(cluster, prepare=lambda f: f.on("GET", "/pods", listing), **LONG) as running:
        await listing.arrived.wait()
        running.stop.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert running.decisions == []


async def test_it_can_be_stopped_while_the_server_does_not_answer():
    cluster, question = fleet(), Held()
    async with reconciling(
        cluster, prepare=lambda f: f.on("GET", "/apis/resource.k8s.io", question), **LONG
    ) as running:
        await question.arrived.wait()
        running.stop.set()
        async with asyncio.timeout(PATIENCE):
            await running.done.wait()
    assert running.decisions == []
