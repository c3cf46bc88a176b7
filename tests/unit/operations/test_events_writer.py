"""How Events are written: once per object and reason, in turn, in bounds, and never twice at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import random
from typing import Any

import pytest

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.units import Unit
from reconciler.errors import Gone, ReconcilerError, Rejected, Retry
from reconciler.operations.events_writer import (
    BACKOFF_SECONDS,
    BURST,
    FLUSH_SECONDS,
    MAX_BYTES,
    MAX_QUEUED,
    PER_SECOND,
    SERIES_SECONDS,
    Events,
    Notice,
    Regarding,
    cut,
)
from reconciler.operations.findings import UnmanagedClaims
from reconciler.state.store import Store
from tests.tools.builders import Object, claim, request


@dataclass
class Server:
    """Keeps what it is sent, and fails when told to."""

    created: list[dict[str, Any]] = field(default_factory=list)
    repeated: list[tuple[str, int]] = field(default_factory=list)
    failures: list[ReconcilerError] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def create(self, event: dict[str, Any]) -> None:
        self._fail()
        self.created.append(event)

    async def repeat(self, key: ObjectKey, series: dict[str, Any]) -> None:
        self._fail()
        self.repeated.append((key.name, series["count"]))

    def _fail(self) -> None:
        self.times.append(asyncio.get_running_loop().time())
        if self.failures:
            raise self.failures.pop(0)


def regarding(name: str = "c", kind: str = "ResourceClaim") -> Regarding:
    return Regarding("resource.k8s.io/v1", kind, ObjectKey("default", name), f"uid-{name}")


def notice(name: str = "c", reason: str = "DevicesInUse", note: str = "because") -> Notice:
    return Notice(regarding(name), reason, note, "q7xkd-1")


def allocated(name: str = "c", note: str = "Allocated d0.") -> Notice:
    return Notice(regarding(name), "Allocated", note, "q7xkd-2", "Normal", related=regarding("p", "Pod"))


@asynccontextmanager
async def writing(server: Server) -> AsyncIterator[Events]:
    loop = asyncio.get_running_loop()

    def now() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=loop.time())

    events = Events(server, instance="pod-0", clock=loop.time, now=now)
    task = asyncio.create_task(events.run())
    try:
        yield events
    finally:
        task.cancel()


async def test_an_event_has_the_fields_that_the_api_wants():
    server = Server()
    async with writing(server) as events:
        events.record([notice()])
        await asyncio.sleep(1)
    (event,) = server.created
    assert event["metadata"].pop("name").startswith("c.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default", "annotations": {"dra-reconciler.io/decision-id": "q7xkd-1"}},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "dra-reconciler.io/reconciler",
        "reportingInstance": "pod-0",
        "action": "Allocating",
        "reason": "DevicesInUse",
        "type": "Warning",
        "note": "because",
        "regarding": {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "namespace": "default",
            "name": "c",
            "uid": "uid-c",
        },
    }


async def test_what_is_queued_when_the_process_stops_is_written_without_delay():
    server = Server()
    async with writing(server) as events:
        pass
    began = asyncio.get_running_loop().time()
    events.record([allocated("a"), allocated("b"), notice("c")])
    await events.flush()
    assert [event["regarding"]["name"] for event in server.created] == ["c", "a", "b"]
    assert asyncio.get_running_loop().time() == began
    assert (events.written, events.dropped) == (3, 0)


async def test_a_stop_does_not_wait_long_for_events():
    """Neither for a server that does not answer, nor for more Events than may be written by then."""
    server = Server()
    async with writing(server) as events:
        pass
    events.record(allocated(str(number)) for number in range(MAX_QUEUED))
    began = asyncio.get_running_loop().time()
    await events.flush()
    assert asyncio.get_running_loop().time() == began + FLUSH_SECONDS
    assert events.written == len(server.created) >= BURST
    assert events.written + events.dropped == MAX_QUEUED


class Hanging(Server):
    """Answers nothing."""

    async def create(self, event: dict[str, Any]) -> None:  # noqa: ARG002
        await asyncio.Event().wait()


async def test_an_event_without_an_answer_when_the_process_stops_is_counted_as_dropped():
    async with writing(Hanging()) as events:
        events.record([notice(), allocated("a"), allocated("b")])
        await asyncio.sleep(1)
    began = asyncio.get_running_loop().time()
    await events.flush()
    assert asyncio.get_running_loop().time() == began + FLUSH_SECONDS
    assert (events.written, events.dropped) == (0, 3)


async def test_other_devices_are_another_event():
    """A series keeps the note of its first Event, which would name devices that are free again."""
    server = Server()
    async with writing(server) as events:
        events.record([allocated(), allocated(note="Allocated d1."), allocated(note="Allocated d1.")])
        await asyncio.sleep(1)
    assert [event["note"] for event in server.created] == ["Allocated d0.", "Allocated d1."]
    assert [count for _, count in server.repeated] == [2]
    (first, _) = server.created
    assert (first["type"], first["reason"], first["related"]["name"]) == ("Normal", "Allocated", "p")


async def test_allocations_neither_delay_nor_displace_warnings():
    server = Server()
    async with writing(server) as events:
        events.record(allocated(str(number)) for number in range(MAX_QUEUED + 1))
        assert events.dropped == 1
        events.record([notice()])
        assert events.dropped == 1
        await asyncio.sleep(120)
    assert server.created[0]["type"] == "Warning"
    assert (len(server.created), events.written) == (MAX_QUEUED + 1, MAX_QUEUED + 1)


async def test_the_same_again_is_a_series_until_it_is_too_long_ago():
    server = Server()
    async with writing(server) as events:
        for pause in (1.0, SERIES_SECONDS - 1, SERIES_SECONDS - 1, SERIES_SECONDS + 1):
            events.record([notice()])
            await asyncio.sleep(pause)
        events.record([notice()])
        await asyncio.sleep(1)
    assert [count for _, count in server.repeated] == [2, 3, 4]
    assert len(server.created) == 2
    assert {name for name, _ in server.repeated} == {server.created[0]["metadata"]["name"]}


async def test_another_reason_or_another_object_is_another_event():
    server = Server()
    async with writing(server) as events:
        events.record([notice("a"), notice("b"), notice("a", "CountersExhausted")])
        await asyncio.sleep(1)
    found = [f"{e['regarding']['name']} {e['reason']}" for e in server.created]
    assert found == ["a DevicesInUse", "b DevicesInUse", "a CountersExhausted"]


async def test_an_event_that_the_server_forgot_is_written_anew():
    server = Server()
    async with writing(server) as events:
        events.record([notice()])
        await asyncio.sleep(1)
        server.failures.append(Gone("it expired"))
        events.record([notice()])
        await asyncio.sleep(1)
    assert (len(server.created), server.repeated) == (2, [])


async def test_after_a_burst_the_rate_is_limited():
    server = Server()
    async with writing(server) as events:
        events.record(notice(str(number)) for number in range(BURST + 20))
        await asyncio.sleep(60)
    assert [time for time in server.times[:BURST] if time > 0] == []
    assert server.times[-1] == pytest.approx(20 / PER_SECOND)


async def test_one_that_fails_is_dropped_and_the_next_is_written():
    server = Server(failures=[Retry("busy")])
    async with writing(server) as events:
        events.record([notice("a"), notice("b")])
        await asyncio.sleep(1)
    assert [event["regarding"]["name"] for event in server.created] == ["b"]
    assert (events.written, events.dropped) == (1, 1)


async def test_a_rejected_event_pauses_the_writes():
    server = Server(failures=[Rejected("403")])
    async with writing(server) as events:
        events.record([notice("a"), notice("b")])
        await asyncio.sleep(BACKOFF_SECONDS + 1)
        events.record([notice("c")])
        await asyncio.sleep(1)
    assert len(server.times) == 2
    assert [event["regarding"]["name"] for event in server.created] == ["c"]


@pytest.mark.parametrize("letter", ["a", "ü", "語", "🛠"])
def test_a_note_is_cut_between_characters(letter: str):
    long = letter * 2000
    note = cut(long)
    assert len(note.encode()) <= MAX_BYTES
    assert note.endswith(" ...")
    assert long.startswith(note.removesuffix(" ..."))
    assert cut("short") == "short"


def test_a_name_that_is_as_long_as_names_can_be_still_makes_a_name():
    loop_time = [0.0]
    events = Events(
        Server(), instance="i", clock=lambda: loop_time[0], now=lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )
    event = events._event(notice("n" * 253))
    assert len(event["metadata"]["name"]) == 253


# -- Claims that nobody allocates on the embedded server get one Event each.


LABEL = {"dra-reconciler.io/managed": "true"}
GATE = {"schedulingGates": [{"name": "dra-reconciler.io/allocation"}]}


def plain(name: str = "c", **metadata: Any) -> Object:
    made = claim(name, request())
    made["metadata"] = {"name": name, "namespace": "default", "uid": name, **metadata}
    return made


def pod(**spec: Any) -> Object:
    entry = {"name": "r", "resourceClaimName": "c"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": [], "resourceClaims": [entry], **spec},
    }


class World:
    def __init__(self, *objects: Object, all_claims: bool = False) -> None:
        queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=random)
        self.intake = Intake(Store(Semantics()), queue, ("ResourceClaim", "Pod"), lambda _: None)
        self.notices: list[Notice] = []
        ours = Ownership(all_claims=all_claims, alone=True)
        self.checked = UnmanagedClaims(
            self.intake, ours, record=self.notices.extend, version="resource.k8s.io/v1"
        )
        self.load(*objects)

    def load(self, *objects: Object) -> None:
        for raw in objects:
            self.intake.take(Changed(raw["kind"], read(raw)))

    def reported(self, checks: int) -> list[str]:
        for _ in range(checks):
            self.checked.check()
        return [str(notice.regarding.key) for notice in self.notices]


async def test_a_claim_without_label_and_gated_pod_is_reported_once_with_the_remedy():
    world = World(plain())
    assert world.reported(checks=1) == []
    assert world.reported(checks=3) == ["default/c"]
    (notice,) = world.notices
    assert notice.reason == "NotManaged"
    for part in ("dra-reconciler.io/managed=true", "dra-reconciler.io/allocation", "--all-claims"):
        assert part in notice.note
    assert len(notice.note) < 1024


@pytest.mark.parametrize(
    ("objects", "all_claims", "count"),
    [
        pytest.param([plain(labels=LABEL)], False, 0, id="with the label"),
        pytest.param(
            [plain(labels={**LABEL, "dra-reconciler.io/managed": "yes"})], False, 1, id="a wrong label"
        ),
        pytest.param([plain()], True, 0, id="all claims are ours"),
        pytest.param([plain(), pod(**GATE)], False, 0, id="a gated pod"),
        pytest.param([plain(), pod()], False, 1, id="a pod without the gate"),
        pytest.param(
            [plain(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x"])], False, 0, id="being deleted"
        ),
        pytest.param(
            [{**plain(), "status": {"allocation": {"devices": {"results": []}}}}], False, 0, id="allocated"
        ),
    ],
)
async def test_only_claims_that_stay_pending_are_reported(
    objects: list[Object], all_claims: bool, count: int
):
    assert len(World(*objects, all_claims=all_claims).reported(checks=3)) == count


async def test_a_claim_whose_gated_pod_follows_is_not_reported():
    world = World(plain())
    world.reported(checks=1)
    world.load(pod(**GATE))
    assert world.reported(checks=2) == []


async def test_a_claim_that_is_created_again_is_reported_again():
    world = World(plain())
    world.reported(checks=2)
    world.intake.take(Removed("ResourceClaim", ObjectKey("default", "c")))
    world.load(plain(uid="another"))
    assert world.reported(checks=3) == ["default/c", "default/c"]
