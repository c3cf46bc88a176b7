"""The role grants the requests that the reconciler makes, both ways."""

import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import pytest

from reconciler.cluster.transport import Query, Response, Transport
from reconciler.embedded.builtin import DEVICE_CLASS
from reconciler.errors import Undecided
from reconciler.reconcile.decisions import Allocated, Freed, Ungated
from tests.deploy.test_manifests import documents, environment
from tests.end_to_end.faults import Faulty, Send
from tests.end_to_end.objects import claim, device_class, devices, node, pod
from tests.end_to_end.running import Cluster, reconciling
from tests.koordinator.builders import gpu
from tests.koordinator.live import machine, wants

pytestmark = pytest.mark.loopback

_PATH = re.compile(
    r"/apis?(/[a-z0-9.]+)?/v[0-9a-z]+(/namespaces/[^/]+)?/(?P<plural>[a-z]+)(/(?P<name>[^/]+)(/(?P<sub>[a-z]+))?)?"
)
_EVERYBODY = re.compile(r"/version|/apis/[a-z0-9.]+(/v[0-9a-z]+)?")
"""Discovery, which every account may read"""
_DOCTOR = ("list", "resourceclaimtemplates")
"""Asked for by the doctor on its rounds, in a process of its own"""
_BINDING = ("patch", "resourceclaims/binding")
"""Asked for by the server when an allocation changes; there is no such path"""


async def lost_request(_: Send) -> Response:
    """It never reached the server, but who sent it cannot know."""
    raise Undecided("the request got lost")


@dataclass
class Recording:
    """Notes what is asked of the server, as its authorizer would see it."""

    behind: Transport
    seen: set[tuple[str, str]] = field(default_factory=set)

    def note(self, verb: str, path: str) -> None:
        if _EVERYBODY.fullmatch(path):
            return
        match = _PATH.fullmatch(path)
        assert match is not None, path
        resource = match["plural"] + (f"/{match['sub']}" if match["sub"] else "")
        self.seen.add(("get" if verb == "list" and match["name"] else verb, resource))

    async def request(self, method: str, path: str, *, query: Query = (), **rest: Any) -> Response:
        self.note({"GET": "list", "POST": "create"}.get(method, method.lower()), path)
        return await self.behind.request(method, path, query=query, **rest)

    def stream(
        self, path: str, *, query: Query, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.note("watch", path)
        return self.behind.stream(path, query=query, idle=idle)


async def test_the_role_grants_what_was_asked_for_and_nothing_else():
    recording: list[Recording] = []

    def record(faulty: Faulty) -> None:
        recording.append(Recording(faulty.behind))
        faulty.behind = recording[0]
        faulty.on("PATCH", "/status", lost_request)  # so that a claim has to be read
        faulty.on("PATCH", "/equipped", lost_request)  # and a pod

    cluster = Cluster([device_class(), node("a"), devices("a", "d0", "d1")])
    cluster.load(claim("alone", 1), claim("shared", 1, managed=False), pod("p", "shared"))
    cluster.load(machine("a", gpu(0)), wants("equipped", {"nvidia.com/gpu": 1}))
    switch = environment()["DRA_RECONCILER_PAUSE_CONFIG_MAP"]
    flags: dict[str, Any] = {
        "backoff_base_seconds": 0.01,
        "koordinator": True,
        "pause_config_map": switch,
    }
    async with reconciling(cluster, prepare=record, **flags) as running:
        await running.heard(Ungated, 2)
        await cluster.until(lambda: cluster.devices("alone") and cluster.devices("shared"))
        cluster.delete("alone")
        await running.heard(Freed)
        cluster.load(claim("waits", 1, device_class="none"))
        await cluster.until(lambda: cluster.events("waits"))
        cluster.load(device_class("none", "nobody.example.com"))
        await cluster.until(lambda: len(cluster.events("waits")) > 1)
        cluster.api.delete(DEVICE_CLASS, "", "none")
        await cluster.until(lambda: any("series" in event for event in cluster.events("waits")))
    granted = {
        (verb, resource)
        for role in documents()
        if role["kind"] in ("ClusterRole", "Role")
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert recording[0].seen | {_BINDING, _DOCTOR} == granted
    assert running.of(Allocated)
