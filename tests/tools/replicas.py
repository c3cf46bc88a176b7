"""Several processes on one cluster, of which one leads."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from reconciler import app
from reconciler.api.validation.served_kinds import LEASE
from reconciler.control.decisions.allocating import Allocated
from reconciler.control.decisions.declaration import Decision
from tests.tools.faulty_transport import Faulty
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, reached
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


@dataclass
class Replica:
    """One of several processes on a cluster."""

    cluster: Cluster
    flags: dict[str, Any]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    decisions: list[Decision] = field(default_factory=list)
    faulty: Faulty | None = None
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._heard.set()

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something holds of what was decided."""
        async with asyncio.timeout(PATIENCE):
            while not true():
                self._heard.clear()
                await self._heard.wait()

    async def run(self) -> None:
        async with reached(self.cluster.api) as transport:
            self.faulty = Faulty(transport)
            given = {**FAST, **self.flags}
            await app.run(tuned(**given), self.faulty, stop=self.stop, on_decision=self.on_decision)

    def allocated(self) -> list[str]:
        return [one.claim.name for one in self.decisions if isinstance(one, Allocated)]


class Replicas:
    """All that were started."""

    def __init__(self, cluster: Cluster, group: asyncio.TaskGroup) -> None:
        self.cluster, self._group = cluster, group
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, **flags: Any) -> Replica:
        replica = Replica(self.cluster, flags)
        self.tasks[id(replica)] = self._group.create_task(replica.run())
        return replica

    async def kill(self, replica: Replica) -> None:
        """Nothing is sent any more, and nothing was given up."""
        self.tasks[id(replica)].cancel()
        await asyncio.wait([self.tasks[id(replica)]])

    async def stop(self, replica: Replica) -> None:
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
    async with asyncio.TaskGroup() as group:
        found = Replicas(cluster, group)
        try:
            yield found
        finally:
            for task in found.tasks.values():
                task.cancel()
