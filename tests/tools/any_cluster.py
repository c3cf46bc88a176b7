"""A cluster to try things on: the one that somebody lends us by name, or else the embedded server.

Everything that is made has names of its own, and is deleted at the end.
"""

import asyncio
import json
import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest

from reconciler import app
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import loaded
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover
from reconciler.cluster.http import connect
from reconciler.cluster.kinds import NAMESPACE, Resource
from reconciler.cluster.target import choose_target
from reconciler.cluster.transport import Request, Transport, refusal
from reconciler.control.decisions.declaration import Decision
from reconciler.embedded import run_controllers, serve
from reconciler.embedded.accounts import Account
from reconciler.embedded.guard import MASTERS
from reconciler.errors import Conflict, Gone
from tests.tools.patience import PATIENCE
from tests.tools.policed_server import Policed
from tests.tools.small_fleet import claim, device_class, devices, node, pod
from tests.tools.tuned import tuned

CONTEXT = "DRA_RECONCILER_TEST_CONTEXT"
"""Environment variable: the context of KUBECONFIG that is lent"""
INSECURE = "DRA_RECONCILER_TEST_INSECURE"
"""Environment variable: any value accepts any certificate of the lent cluster"""
RESTART = "DRA_RECONCILER_TEST_RESTART"
"""Environment variable: a command that kills the API server of the lent cluster and starts it again"""
LENT: Mapping[str, Any] = {
    "lease_seconds": 6.0,
    "renew_seconds": 4.0,
    "retry_seconds": 0.5,
    "write_seconds": 3.0,
}
EMBEDDED: Mapping[str, Any] = {
    "lease_seconds": 4.5,
    "renew_seconds": 3.0,
    "retry_seconds": 0.05,
    "write_seconds": 1.5,
}
"""Settings of leader election: a real server may be slow"""
CONTROLLERS = 60.0
"""Seconds for what a controller of a lent cluster does: it does not run if that takes longer"""
TOKEN = "a-token-of-an-administrator"
Object = dict[str, Any]


@dataclass
class Run:
    """One reconciler."""

    stop: asyncio.Event
    decisions: list[Decision] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None
    _heard: asyncio.Event = field(default_factory=asyncio.Event)

    def on_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self._heard.set()

    async def heard(self, kind: type[Decision], about: Callable[[Any], bool]) -> Any:
        """The first decision of a kind that is meant; waits for it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for one in self.decisions:
                    if isinstance(one, kind) and about(one):
                        return one
                self._heard.clear()
                await self._heard.wait()


class Lent:
    """A namespace, a driver, a class and two nodes with two devices each."""

    def __init__(
        self,
        transport: Transport,
        connection: Mapping[str, Any],
        restart: Callable[[], Awaitable[None]],
        folder: Path,
    ) -> None:
        self.client, self.restart = Client(transport), restart
        self._transport, self._connection, self._folder = transport, connection, folder
        self.name = f"drt-{uuid4().hex[:8]}"
        self.driver = f"{self.name}.example.com"
        self._kinds: dict[str, Resource] = {"Namespace": NAMESPACE}
        self._made: list[tuple[Resource, str]] = []

    async def prepare(self) -> None:
        found = await discover(self.client, also=("ResourceClaimTemplate",))
        self._kinds |= found.resources
        await self.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        await self.make(device_class(self.name, self.driver))
        for letter in "ab":
            name = f"{self.name}-{letter}"
            await self.make(node(name))
            ready = {
                "conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "8", "pods": "9"},
            }
            key = self.key(self._kinds["Node"], name)
            await self.client.patch(self._kinds["Node"], key, {"status": ready}, subresource="status")
            await self.client.patch(self._kinds["Node"], key, {"spec": {"taints": None}})
            await self.make(devices(name, "d0", "d1", driver=self.driver))

    def know(self, *kinds: Resource) -> None:
        """More kinds that are made here."""
        self._kinds |= {kind.kind: kind for kind in kinds}

    def kind(self, name: str) -> Resource:
        """A kind that is known here."""
        return self._kinds[name]

    def key(self, kind: Resource, name: str) -> ObjectKey:
        return ObjectKey(self.name if kind.namespaced else "", name)

    async def make(self, raw: Object) -> Object:
        """Create an object, in our namespace if its kind has one."""
        kind, body = self._kinds[raw["kind"]], self._placed(raw)
        name = body["metadata"]["name"]
        if not kind.namespaced:
            self._made.append((kind, name))
        try:
            return await self.client.create(kind, body)
        except Conflict:  # it is somebody else's, and stays
            if not kind.namespaced:
                self._made.remove((kind, name))
            raise

    async def tried(self, raw: Object) -> Object:
        """What the server would create. It keeps nothing. Raises the errors of `Client`."""
        return await dry_run(self._transport, self._kinds[raw["kind"]], self._placed(raw))

    def _placed(self, raw: Object) -> Object:
        kind = self._kinds[raw["kind"]]
        metadata = {key: value for key, value in raw["metadata"].items() if key != "namespace"}
        if kind.namespaced:
            metadata["namespace"] = self.name
        return {**raw, "apiVersion": kind.api_version, "metadata": metadata}

    @asynccontextmanager
    async def acting_as(self, account: Account) -> AsyncIterator[Transport]:
        """A transport whose requests are judged as another account's: what a kubeconfig's `as` is for."""
        target = choose_target(
            server=None, kubeconfig=self._connection["kubeconfig"], context=self._connection["context"]
        )
        assert target.kubeconfig is not None
        value = deepcopy(target.kubeconfig.value)
        for one in value["users"]:
            if one["name"] == target.user:
                one["user"] |= {"as": account.name, "as-groups": sorted(account.groups)}
        path = self._folder / account.name.replace(":", "-")
        path.write_text(json.dumps(value))
        path.chmod(0o600)
        async with connect(**{**self._connection, "kubeconfig": str(path)}) as transport:
            yield transport

    async def claim(self, name: str, count: int = 1, *, managed: bool = True) -> Object:
        return await self.make(claim(name, count, device_class=self.name, managed=managed))

    async def pod(self, name: str, *claims: str, **spec: Any) -> Object:
        # No kubelet ends what a scheduler binds to our nodes.
        ours = {"tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0}
        return await self.make(pod(name, *claims, **{**ours, **spec}))

    async def until(self, true: Callable[[], Awaitable[bool]], *, otherwise: str) -> None:
        """Wait for what others do. If they do not, the test fails with `otherwise`, which names them."""
        try:
            async with asyncio.timeout(CONTROLLERS if is_lent() else PATIENCE):
                while not await true():  # noqa: ASYNC110  there is no event to wait for
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(otherwise, pytrace=False)

    async def read(self, kind: str, name: str) -> Object:
        found = self._kinds[kind]
        return await self.client.get(found, self.key(found, name))

    async def held(self, name: str) -> list[tuple[str, str, str]]:
        """Driver, pool and device of what a claim holds."""
        status = (await self.read("ResourceClaim", name)).get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        return [(one["driver"], one["pool"], one["device"]) for one in results]

    async def allocate(self, name: str, pool: str, device: str) -> None:
        """Allocate a claim as another allocator would."""
        kind = self._kinds["ResourceClaim"]
        result = {"request": "r", "driver": self.driver, "pool": pool, "device": device}
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pool]}]}]
        allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}}
        patch: Object = {"status": {"allocation": allocation}}
        await self.client.patch(kind, self.key(kind, name), patch, subresource="status")

    @asynccontextmanager
    async def reconciling(self, **flags: Any) -> AsyncIterator[Run]:
        """A reconciler that owns our driver."""
        run = Run(asyncio.Event())
        quick = LENT if is_lent() else EMBEDDED
        settings = tuned(
            **{**quick, "backoff_base_seconds": 0.05, "own_drivers": {self.driver}, "events": False, **flags}
        )
        async with connect(**self._connection) as transport:
            run.task = asyncio.create_task(
                app.run(settings, transport, stop=run.stop, on_decision=run.on_decision)
            )
            try:
                yield run
            finally:
                run.stop.set()
                await asyncio.wait([run.task])
                if not run.task.cancelled():
                    run.task.result()

    async def clean(self) -> None:
        """Delete what was made. Claims and pods go with their namespace."""
        claims = self._kinds.get("ResourceClaim")
        if claims is not None:
            async for page in self.client.list_pages(claims, limit=500):
                for item in page.items:
                    await self._forget(claims, item)
        for kind, name in reversed(self._made):
            try:
                await self.client.delete(kind, self.key(kind, name))
            except Gone:
                continue

    async def _forget(self, claims: Resource, item: bytes) -> None:
        """Remove the finalizers of a claim of ours: nobody else might free it."""
        metadata = loaded(item)[0]["metadata"]
        if metadata.get("namespace") == self.name:
            key = self.key(claims, metadata["name"])
            # kube-scheduler may have reserved it.
            freed = {"status": {"allocation": None, "reservedFor": None}}
            await self.client.patch(claims, key, freed, subresource="status")
            await self.client.patch(claims, key, {"metadata": {"finalizers": None}})


async def dry_run(transport: Transport, kind: Resource, body: Object) -> Object:
    """What the server would create. Raises the errors of `Client`."""
    path = kind.within(body["metadata"].get("namespace", ""))
    query = (("dryRun", "All"),)
    request = Request("POST", path, query=query, body=body, timeout=PATIENCE)
    response = await transport.send(request)
    if response.status >= 300:
        raise refusal(request.method, request.path, response)
    found: Object = loaded(response.body)[0]
    return found


class _Restarting:
    """The embedded server, which can be killed and started again on its port."""

    def __init__(self) -> None:
        self.api = Policed({TOKEN: Account("admin", frozenset({MASTERS}))})
        self.url = ""
        self._up = AsyncExitStack()

    async def start(self, port: int = 0) -> None:
        self.url = await self._up.enter_async_context(serve(self.api, port=port))

    async def stop(self) -> None:
        await self._up.aclose()

    async def restart(self) -> None:
        port = int(self.url.rpartition(":")[2])
        await self.stop()
        self._up = AsyncExitStack()
        await self.start(port)

    def kubeconfig(self) -> Object:
        return {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }


def is_lent() -> bool:
    """Whether somebody lends a cluster."""
    return bool(os.environ.get(CONTEXT))


@asynccontextmanager
async def lent_or_embedded() -> AsyncIterator[Lent]:
    """The lent cluster, or else the embedded server; what the block makes is deleted."""
    async with AsyncExitStack() as around:
        folder = Path(around.enter_context(TemporaryDirectory()))
        if is_lent():
            kubeconfig, context = None, os.environ[CONTEXT]
            restart = _by_command
        else:
            server = _Restarting()
            await server.start()
            around.push_async_callback(server.stop)
            await around.enter_async_context(run_controllers(server.api))
            (folder / "config").write_text(json.dumps(server.kubeconfig()))
            kubeconfig, context, restart = str(folder / "config"), None, server.restart
        insecure = INSECURE in os.environ
        connection: dict[str, Any] = {"kubeconfig": kubeconfig, "context": context, "insecure": insecure}
        transport = await around.enter_async_context(connect(**connection))
        found = Lent(transport, connection, restart, folder)
        around.push_async_callback(found.clean)
        await found.prepare()
        yield found


async def _by_command() -> None:
    command = os.environ.get(RESTART)
    if not command:
        pytest.skip(f"kills the API server: name a command that does so and starts it again in {RESTART}")
    made = await asyncio.create_subprocess_exec(*shlex.split(command))
    assert await made.wait() == 0
