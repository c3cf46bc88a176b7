"""Several processes on one cluster, of which one leads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from reconciler import app
from reconciler.api.validation.served_kinds import LEASE
from reconciler.cluster.transport import Transport
from tests.tools.faulty_transport import Faulty
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, Running, reached
from tests.tools.small_fleet import device_class, devices, node
from tests.tools.tuned import tuned

FAST: dict[str, Any] = {
    "embedded": True,
    "leader_elect": True,
    "lease_seconds": 2.4,
    "renew_seconds": 1.8,
    "retry_seconds": 0.05,
    "write_seconds": 0.9,
    "backoff_base_seconds": 0.01,
}
"""Who leads must not lose the Lease just because the machine is slow, and who waits must not wait for long"""


class Replicas:
    """All that were started."""

    def __init__(self, cluster: Cluster, transport: Transport, group: asyncio.TaskGroup) -> None:
        self.cluster, self._transport, self._group = cluster, transport, group
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, **flags: Any) -> Running:
        one = Running(Faulty(self._transport), asyncio.Event())
        settings = tuned(**FAST | flags)
        running = app.run(settings, one.faulty, stop=one.stop, on_decision=one.on_decision)
        self.tasks[id(one)] = self._group.create_task(running)
        return one

    async def kill(self, replica: Running) -> None:
        """Nothing is sent any more, and nothing was given up."""
        self.tasks[id(replica)].cancel()
        await asyncio.wait([self.tasks[id(replica)]])

    async def stop(self, replica: Running) -> None:
        replica.stop.set()
        await self.tasks[id(replica)]

    def lease(self, name: str = "dra-reconciler") -> Any:
        record = self.cluster.api.store[LEASE].get(f"kube-system/{name}")
        return record.object if record else None

    async def until_held(self, name: str = "dra-reconciler") -> str:
        shelf = self.cluster.api.store[LEASE]
        async with asyncio.timeout(PATIENCE):
            while not (self.lease(name) or {"spec": {}})["spec"].get("holderIdentity"):
                await shelf.wait(shelf.end)
        return str(self.lease(name)["spec"]["holderIdentity"])


@asynccontextmanager
async def replicas(*objects: Any) -> AsyncIterator[Replicas]:
    cluster = Cluster([device_class(), node("a"), devices("a", *(f"d{n}" for n in range(8))), *objects])
    async with reached(cluster.api) as transport, asyncio.TaskGroup() as group:
        found = Replicas(cluster, transport, group)
        try:
            yield found
        finally:
            for task in found.tasks.values():
                task.cancel()
