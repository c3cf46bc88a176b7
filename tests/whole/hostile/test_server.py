"""A server that misbehaves, and worse: each row of docs/hostile-servers.md, on the virtual clock.

`make soak` plays them in full size.
"""

import asyncio
import errno
import gzip
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import seed
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from structlog.testing import capture_logs

from reconciler import app
from reconciler.api.validation.served_kinds import CLAIM, NODE, SLICE
from reconciler.app import control, evicting, foundation, leadership, observing
from reconciler.cluster.http import LONGEST_LINE
from reconciler.control.decisions.allocating import HeldTwice
from reconciler.control.decisions.declaration import Decision
from reconciler.errors import Retry
from reconciler.operations.journal.entries import paths
from reconciler.operations.metrics.catalogue import CATALOGUE
from reconciler.operations.serving.access import local_only
from reconciler.operations.serving.port import StatusPort
from tests.tools.checkout import DOCS, ROOT
from tests.tools.hostile_server import Faults, Hostile
from tests.tools.running_reconciler import Cluster, Near
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.tuned import tuned
from tests.tools.virtual_time import VirtualLoop

FULL = os.environ.get("SIZE") == "full"
NODES, EACH = 4, 8
BUSIEST = 200
"""Requests in ten seconds, of ten watches and as many claims as a test makes: nothing is asked in a loop"""
WRITES = 10
"""Beside these, for one claim: two writes, and again what failed"""


@dataclass
class World:
    """A reconciler, the server that it meets, and what an operator sees."""

    cluster: Cluster
    hostile: Hostile
    port: StatusPort = field(default_factory=lambda: StatusPort(local_only))
    decisions: list[Decision] = field(default_factory=list)
    made: int = 0

    def claims(self, number: int) -> list[str]:
        names = [f"c{self.made + one}" for one in range(number)]
        self.made += number
        self.cluster.load(*map(claim, names))
        return names

    async def given(self, names: Iterable[str]) -> float:
        """Seconds until all of them have a device, and no device is given twice."""
        began = now()
        async with asyncio.timeout(3600):
            while not all(map(self.cluster.devices, names)):  # noqa: ASYNC110 - by the clock of the test
                await asyncio.sleep(0.1)
        held = [
            device
            for one in self.cluster.claims()
            for device in self.cluster.devices(one["metadata"]["name"])
        ]
        assert len(held) == len(set(held))
        assert not [one for one in self.decisions if isinstance(one, HeldTwice)]
        return now() - began

    async def ready(self) -> str:
        """What `/readyz` says does not hold; empty if it is ready."""
        request = make_mocked_request("GET", "/readyz?verbose", headers={"Host": "localhost"})
        answer = await self.port.handle(request)
        failed = re.findall(r"^\[-\](.*)$", str(getattr(answer, "text", "")), re.M)
        assert (answer.status == 200) == (not failed)
        return "; ".join(failed)

    def asked_calmly(self) -> None:
        assert self.hostile.busiest(10.0) <= BUSIEST + WRITES * self.made


def now() -> float:
    return asyncio.get_running_loop().time()


def fleet() -> list[Any]:
    names = [f"n{number}" for number in range(NODES)]
    return [
        device_class(),
        *map(node, names),
        *(devices(name, *(f"d{n}" for n in range(EACH))) for name in names),
    ]


@asynccontextmanager
async def world(
    faults: Faults | None = None, *, cluster: Cluster | None = None, **flags: Any
) -> AsyncIterator[World]:
    seed(1)  # as the faults: else one run in forty meets so much bad luck that bounds of time are missed
    found = cluster or Cluster(fleet())
    one = World(found, Hostile(Near(found.api), faults or Faults()))
    stop = asyncio.Event()
    settings = tuned(**{"embedded": True, "doctor_seconds": 0, **flags})
    async with asyncio.TaskGroup() as group:
        group.create_task(
            app.run(settings, one.hostile, stop=stop, on_decision=one.decisions.append, port=one.port)
        )
        try:
            yield one
        finally:
            one.hostile.faults = Faults()
            stop.set()
    one.asked_calmly()


TABLE = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \| [^|]+ \|$", (DOCS / "hostile-servers.md").read_text(), re.M
)[1:]
"""What is wrong, and what an operator sees"""


@pytest.fixture(autouse=True)
def lines(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    """What is logged: all that the page says, where people look."""
    with capture_logs() as found:
        yield found
    events = {line["event"] for line in found if line["log_level"] != "debug"}
    for what, seen in TABLE:
        if what == request.function.__doc__:
            assert events >= set(re.findall(r"\*([^*]+)\*", seen))


async def churn(one: World, rounds: int, pause: float) -> list[str]:
    """Make two claims at a time, and delete one; returns those that are left."""
    left: list[str] = []
    for _ in range(rounds):
        left += one.claims(2)
        one.cluster.delete(left.pop(0))
        await asyncio.sleep(pause)
    return left


async def test_slow_answers():
    """Every answer takes 2 to 30 s"""
    async with world(Faults(slow=(2.0, 30.0))) as one:
        await asyncio.sleep(1)
        assert await one.ready()
        left = await churn(one, 6, 20.0)
        assert await one.given(left) < 1200
        assert await one.ready() == ""


async def test_too_many_requests():
    """429 with Retry-After, for a third of all requests"""
    async with world(Faults(busy=0.33, retry_after=5)) as one:
        left = await churn(one, 6, 2.0)
        assert await one.given(left) < 120


async def test_only_too_many_requests():
    """429 with Retry-After, for all requests for ten minutes"""
    async with world(Faults(busy=1.0)) as one:
        await asyncio.sleep(60)
        one.hostile.faults = Faults()
        await one.given(one.claims(1))
        one.hostile.faults = Faults(busy=1.0, watch_seconds=1.0)
        before = len(one.hostile.requests)
        names = one.claims(4)
        await asyncio.sleep(600)
        assert len(one.hostile.requests) - before < 600
        one.hostile.faults = Faults()
        assert await one.given(names) < 65


async def test_some_failures():
    """500 or 503 for 5 % of all requests, half of them after the write"""
    async with world(Faults(failing=0.05)) as one:
        left = await churn(one, 15, 2.0)
        assert await one.given(left) < 60


async def test_lines_cut():
    """Connections end in the middle of a line, at one line in three"""
    async with world(Faults(cut=0.33)) as one:
        left = await churn(one, 10, 2.0)
        assert await one.given(left) < 60


async def test_watches_closed():
    """Every watch ends after a second"""
    async with world(Faults(watch_seconds=1.0)) as one:
        left = await churn(one, 10, 2.0)
        assert await one.given(left) < 10
        await asyncio.sleep(600)
        assert await one.ready() == ""


async def test_no_bookmarks():
    """No bookmarks come"""
    async with world(Faults(bookmarks=False)) as one:
        await one.given(one.claims(2))
        before = len(one.hostile.requests)
        await asyncio.sleep(3600)
        assert len(one.hostile.requests) - before < 10 * 3600 / 90 * 2
        assert await one.ready() == ""
        assert await one.given(one.claims(2)) < 2


async def test_old_listings():
    """Listings are older than what watches have told"""
    cluster = Cluster(fleet())
    late = [f"late-{number}" for number in range(8)]
    cluster.load(*(claim(name, device_class="late") for name in late))
    async with world(cluster=cluster) as one:
        await asyncio.sleep(1)  # the first list has none of those that get devices
        names = one.claims(NODES * EACH - 4)
        await one.given(names)
        one.hostile.faults = Faults(away=True)
        await asyncio.sleep(5)
        cluster.delete(names.pop())
        cluster.api.store.compact()  # so that watches have to list again
        one.hostile.faults = Faults(stale=True)
        await asyncio.sleep(20)
        cluster.load(device_class("late"))  # by the old list all devices are free
        await asyncio.sleep(40)
        one.hostile.faults = Faults()
        await asyncio.sleep(60)
        await one.given(names)
        assert sum(bool(cluster.devices(name)) for name in late) == 5


@pytest.mark.parametrize(
    ("faults", "most"), [(Faults(), 240), (Faults(bookmarks=False, watch_seconds=30.0), 900)]
)
async def test_versions_that_go_back(faults: Faults, most: float):
    """The server is restored from a backup: versions go back, some claims are gone, others not allocated"""
    cluster = Cluster(fleet())
    async with world(Faults(watch_seconds=5.0), cluster=cluster) as one:
        early = one.claims(4)
        await one.given(early)
        backup = [record for kind in (CLAIM, NODE, SLICE) for record in cluster.api.store[kind].scan("")]
        await churn(one, 12, 1.0)
        restored = Cluster([device_class()])
        for record in backup:
            restored.api.store.put(record.kind, record.key, deepcopy(record.object))
        one.cluster = restored
        one.hostile.behind, one.hostile.faults = Near(restored.api), faults
        late = one.claims(4)
        assert await one.given([*early, *late]) < most
        assert await one.ready() == ""


async def test_large_objects():
    """Objects of 1.5 MiB, and one line of more than 16 MiB"""
    size, limit = (LONGEST_LINE, LONGEST_LINE) if FULL else (2**18, 2**18)
    async with world() as one:
        one.hostile.longest_line = limit
        await one.given(one.claims(1))
        for number, most in enumerate([*[3 * 2**19 if FULL else 2**17] * 10, size]):
            one.cluster.load(claim(f"large-{number}"))
            large = deepcopy(one.cluster.claim(f"large-{number}"))
            owned: dict[str, Any] = {"operation": "Apply", "apiVersion": "resource.k8s.io/v1"}
            owned |= {"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": {f"f:{'x' * most}": {}}}
            large["metadata"]["managedFields"] = [owned]
            one.cluster.api.store.put(CLAIM, f"default/large-{number}", large)
        names = [*one.claims(4), *(f"large-{number}" for number in range(11))]
        assert await one.given(names) < 60


async def test_invalid_slices(lines: list[Any]):
    """10,000 invalid slices at once"""
    number = 10_000 if FULL else 500
    async with world() as one:
        await one.given(one.claims(1))
        for at in range(number):
            broken = devices(f"bad-{at}", "d0")
            broken["metadata"]["uid"] = f"bad-{at}"
            broken["spec"]["devices"] = [{"name": "d0", "capacity": {"memory": {"value": "many"}}}]
            one.cluster.api.store.put(SLICE, f"bad-{at}-gpu", broken)
        names = one.claims(4)
        assert await one.given(names) < 30
        said = [line for line in lines if line["event"] == "invalid object ignored"]
        assert 0 < len(said) <= number
        assert await one.ready() == ""


async def test_many_claims():
    """A namespace with 50,000 claims, of which few fit"""
    number = 50_000 if FULL else 1_000
    cluster = Cluster(fleet())
    cluster.load(*(claim(f"old-{at}", 99) for at in range(number)))
    async with world(cluster=cluster) as one:
        names = one.claims(NODES * EACH // 2)
        assert await one.given(names) < 600
        assert await one.ready() == ""


async def test_no_name():
    """DNS comes and goes, for up to ten minutes"""
    with pytest.raises(ExceptionGroup) as raised:
        async with world(Faults(away=True)):
            await asyncio.sleep(60)
    assert raised.group_contains(Retry, match="no connection")
    async with world() as one:
        for gone in (1.0, 30.0, 600.0):
            one.hostile.faults = Faults()
            assert await one.given(one.claims(2)) < 65
            assert await one.ready() == ""
            one.hostile.faults = Faults(away=True)
            await asyncio.sleep(gone)
        assert "contact" in await one.ready()


@pytest.mark.parametrize("ours", [False, True])
async def test_clocks(ours: bool, monkeypatch: pytest.MonkeyPatch):
    """The clock of the server, or of the process, jumps by an hour, either way"""
    jump = timedelta()

    def jumping() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=now()) + jump

    for module in (control, evicting, foundation, leadership, observing) if ours else ():
        monkeypatch.setattr(module, "now", jumping)
    cluster = Cluster(fleet(), **({} if ours else {"now": jumping}))
    async with world(cluster=cluster, leader_elect=True) as one:
        await one.given(one.claims(1))
        for hours in (0, 1, 0, -1, 0):
            jump = timedelta(hours=hours)
            assert await one.given(one.claims(2)) < 5


async def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[Any]):
    """The disk under the journal is full"""
    write = gzip.GzipFile.write
    full = False

    def checked(self: gzip.GzipFile, data: Any) -> int:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, data)

    monkeypatch.setattr(gzip.GzipFile, "write", checked)
    async with world(journal=str(tmp_path)) as one:
        await one.given(one.claims(2))
        full = True
        await one.given(await churn(one, 4, 1.0))
        await asyncio.sleep(600)
        assert await one.ready() == ""
        full = False
        await asyncio.sleep(60)
        await one.given(one.claims(2))
    found = [line["event"] for line in lines if "journal" in line["event"]]
    assert found == ["journal stopped", "journal resumed"]
    assert len(paths(tmp_path)) > 1


async def test_stopped_process(lines: list[Any]):
    """The process is stopped for a minute (SIGSTOP), and goes on"""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with world(leader_elect=True) as one:
        await one.given(one.claims(2))
        for _ in range(3):
            loop._now += 60
            assert await one.given(one.claims(2)) < 30
        assert await one.ready() == ""
    assert sum(line["event"] == "lost leadership" for line in lines) == 3


def test_each_row_of_the_page_has_a_test():
    told = [test.__doc__ for name, test in globals().items() if name.startswith("test_") and test.__doc__]
    assert sorted(told) == sorted(what for what, _ in TABLE)


def test_alerts_and_metrics_of_the_page_exist():
    seen = " ".join(seen for _, seen in TABLE)
    rules = "".join(path.read_text() for path in (ROOT / "deploy").rglob("*alerts*.y*ml"))
    assert set(re.findall(r"DRA\w+", seen)) <= set(re.findall(r"alert: (\w+)", rules))
    assert {f"dra_reconciler_{name}" for name in re.findall(r"`([a-z_]+)`", seen)} <= {
        f"dra_reconciler_{spec.name}" for spec in CATALOGUE
    }
