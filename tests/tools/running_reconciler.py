"""A reconciler against the embedded server, and ways to wait for what it does.

Its clock is virtual, and requests are function calls. In a test that is marked `loopback` they are HTTP.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reconciler import app
from reconciler.api.validation.served_kinds import CLAIM, EVENT_KIND, POD
from reconciler.cluster.http import connect
from reconciler.cluster.transport import Request, Response, Transport
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.control.decisions.declaration import Decision
from reconciler.embedded import ApiServer, serve
from reconciler.embedded.controllers import run_controllers
from reconciler.embedded.pod_controllers import Schedule
from reconciler.operations.serving.port import StatusPort
from reconciler.settings import Settings
from tests.tools.faulty_transport import Faulty
from tests.tools.patience import PATIENCE
from tests.tools.simulation.memory import InMemory
from tests.tools.small_fleet import Object
from tests.tools.tuned import tuned
from tests.tools.virtual_time import VirtualLoop

D = TypeVar("D", bound=Decision)
SETTLED = 60.0
"""Seconds of the virtual clock after which whatever was due has had its turn"""


class Cluster:
    """The embedded server as tests look at it."""

    def __init__(self, objects: Iterable[Object], **server: Any) -> None:
        self.api = ApiServer(**server)
        self.api.load(objects)

    def load(self, *objects: Object) -> None:
        self.api.load(objects)

    def claim(self, name: str) -> Any:
        record = self.api.store[CLAIM].get(f"default/{name}")
        return record.object if record else None

    def claims(self) -> list[Any]:
        return [record.object for record in self.api.store[CLAIM].scan("")]

    def pod(self, name: str) -> Any:
        record = self.api.store[POD].get(f"default/{name}")
        return record.object if record else None

    def events(self, name: str) -> list[Any]:
        """The Events about an object, oldest first, as core/v1 spells them."""
        found = [record.object for record in self.api.store[EVENT_KIND].scan("")]
        about = [event for event in found if event["involvedObject"]["name"] == name]
        return sorted(about, key=lambda event: event["eventTime"])

    def devices(self, name: str) -> list[str]:
        """The devices a claim holds, as `pool/device`."""
        allocation = (self.claim(name) or {}).get("status", {}).get("allocation", {})
        return [f"{r['pool']}/{r['device']}" for r in allocation.get("devices", {}).get("results", [])]

    def gated(self, name: str) -> bool:
        return bool(self.pod(name)["spec"].get("schedulingGates"))

    def phase(self, name: str) -> str:
        return self.pod(name).get("status", {}).get("phase", "")

    def edit(self, name: str, *, status: bool = False, **parts: Any) -> None:
        """Replace parts of a claim's metadata, or of its status; None removes one."""

        def changed(shown: Object) -> Object:
            part = "status" if status else "metadata"
            merged = {**shown.get(part, {}), **parts}
            return {**shown, part: {key: value for key, value in merged.items() if value is not None}}

        self.api.update(CLAIM, "default", name, changed, subresource="status" if status else "")

    def delete(self, name: str) -> None:
        self.api.delete(CLAIM, "default", name)

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until a condition on claims, pods and Events holds."""
        shelves = [self.api.store[kind] for kind in (CLAIM, POD, EVENT_KIND)]
        async with asyncio.timeout(PATIENCE):
            while not true():
                waits = [asyncio.ensure_future(shelf.wait(shelf.end)) for shelf in shelves]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()


@dataclass
class Running:
    """A reconciler at work."""

    faulty: Faulty
    stop: asyncio.Event
    done: asyncio.Event = field(default_factory=asyncio.Event)
    decisions: list[Decision] = field(default_factory=list)
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._heard.set()

    def of(self, kind: type[D]) -> list[D]:
        return [decision for decision in self.decisions if isinstance(decision, kind)]

    async def until_heard(self, true: Callable[[], object]) -> None:
        """Wait until something holds of what was decided."""
        async with asyncio.timeout(PATIENCE):
            while not true():
                self._heard.clear()
                await self._heard.wait()

    async def heard(
        self, kind: type[D], number: int = 1, *, counts: Callable[[D], bool] = lambda _: True
    ) -> list[D]:
        """Wait for so many decisions of a kind that count."""
        await self.until_heard(lambda: sum(map(counts, self.of(kind))) >= number)
        return self.of(kind)

    async def told(self, kind: type[D], **parts: Any) -> D:
        """Wait for a decision of a kind with these parts. Others of its kind may come before."""

        def fits(decision: D) -> bool:
            return all(getattr(decision, name) == value for name, value in parts.items())

        return next(filter(fits, await self.heard(kind, counts=fits)))

    def allocated(self) -> list[str]:
        """The claims that it allocated, in order."""
        return [one.claim.name for one in self.of(Allocated)]

    def waits(self, claim: str) -> list[str]:
        """The reasons told for a claim, in order."""
        return [w.reason for w in self.of(Waits) if any(key.name == claim for key in w.claims)]

    @asynccontextmanager
    async def at_work(self, settings: Settings, port: StatusPort | None = None) -> AsyncIterator[None]:
        """Run it beside the block."""

        async def run() -> None:
            await app.run(settings, self.faulty, stop=self.stop, on_decision=self.on_decision, port=port)
            self.done.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(run(), name="reconciler")
            try:
                yield
            finally:
                self.stop.set()


class Near(InMemory):
    """Each request takes a millisecond, in which others see what the one before did."""

    async def send(self, request: Request) -> Response:
        await asyncio.sleep(0.001)
        return await super().send(request)


@asynccontextmanager
async def reached(api: ApiServer) -> AsyncIterator[Transport]:
    """The way to the server by the clock of the test: function calls, or HTTP."""
    if isinstance(asyncio.get_running_loop(), VirtualLoop):
        yield Near(api)
        return
    async with serve(api) as url, connect(server=url) as transport:
        yield transport


@asynccontextmanager
async def reconciling(
    cluster: Cluster,
    *,
    controllers: bool = False,
    schedule: Schedule | None = None,
    prepare: Callable[[Faulty], None] = lambda _: None,
    **flags: Any,
) -> AsyncIterator[Running]:
    """Run a reconciler beside the block. Everything on the server is its own, unless flags say otherwise."""
    settings = tuned(**{"embedded": True, **flags})
    async with reached(cluster.api) as transport:
        running = Running(Faulty(transport), asyncio.Event())
        prepare(running.faulty)
        controlling = run_controllers(cluster.api, schedule) if controllers else nullcontext()
        async with running.at_work(settings), controlling:
            yield running
