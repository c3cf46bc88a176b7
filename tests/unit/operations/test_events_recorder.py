"""Which Events are written about decisions, when, and with which text."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.api.objects.claims import Allocation
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.cluster.kinds import POD, Resource, Served
from reconciler.control.decisions.allocating import (
    Allocated,
    DevicesGiven,
    ExclusionViolated,
    HeldTwice,
    Ungated,
    Waits,
)
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Evicted, MoveEvicted, MovesAborted
from reconciler.control.handler import Idle
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending
from reconciler.operations.events_recorder import (
    BACKLOG,
    EventInbox,
    EventRecorder,
    LastingRefusals,
    allocated_note,
)
from reconciler.operations.events_writer import Events
from reconciler.state.nominations import of_pod
from tests.tools.small_fleet import DRIVER, claim, held, pod
from tests.tools.unit_pictures import intake, key, pod_unit, put, remove

SECONDS = 10.0
CLAIM = Resource("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims", namespaced=True)
DEVICE = DeviceID(DRIVER, "n", "d0")


@dataclass
class Picture:
    """A recorder with its inbox, and the Events that it writes, as `object reason`."""

    written: list[str] = field(default_factory=list)
    leads: asyncio.Event = field(default_factory=asyncio.Event)
    still_leads: bool = True
    pending: Pending = field(default_factory=Pending)

    def __post_init__(self) -> None:
        clock = asyncio.get_running_loop().time
        self.intake = intake()
        self.inbox = EventInbox(LastingRefusals(self.pending, seconds=SECONDS, clock=clock))
        events = Events(self, instance="i", clock=clock, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
        served = Served({one.kind: one for one in (CLAIM, POD)})
        self.recorder = EventRecorder(
            self.inbox,
            events,
            served,
            self.intake.store,
            step=lambda _: Idle(),
            leads=self.leads,
            still_leads=lambda: self.still_leads,
            clock=clock,
        )
        self.task = asyncio.create_task(self.recorder.run())

    async def create(self, event: dict[str, Any]) -> None:
        self.written.append(f"{event['regarding']['name']} {event['reason']}")

    async def repeat(self, name: ObjectKey, series: dict[str, Any]) -> None:
        raise NotImplementedError

    async def told(self, *decisions: Decision, after: float = 1.0) -> list[str]:
        for decision in decisions:
            self.inbox.on_decision(decision)
        await asyncio.sleep(after)
        return self.written

    def refuse(self, unit: Unit, *claims: str) -> Waits:
        self.pending.note(unit, "DevicesInUse", [key(name) for name in claims])
        on = unit.key if unit.kind is Kind.POD else None
        return Waits(tuple(key(name) for name in claims), on, "DevicesInUse", "words")


@pytest.fixture
async def picture() -> AsyncIterator[Picture]:
    found = Picture()
    found.leads.set()
    yield found
    found.task.cancel()


async def test_a_pod_and_those_of_its_claims_that_are_not_allocated(picture: Picture):
    done = {**claim("done"), "status": held(DRIVER, "n", "d0")}
    put(picture.intake, done, claim("todo"), pod("p", "done", "todo"))
    refusal = picture.refuse(pod_unit("p"), "done", "todo")
    assert await picture.told(refusal, after=SECONDS - 1) == []
    assert await picture.told(after=2) == ["todo DevicesInUse", "p DevicesInUse"]


async def test_none_while_a_claim_of_the_pod_is_written_for_another_pod(picture: Picture):
    put(picture.intake, claim("shared"), claim("own"), pod("p", "shared", "own"))
    store = picture.intake.store
    shared = store.claims[key("shared")]
    plan = Plan(shared.key, shared.metadata.uid, shared.metadata.resource_version, "n", Allocation())
    picture.intake.assume(plan)
    assert await picture.told(picture.refuse(pod_unit("p"), "own"), after=SECONDS + 5) == []
    picture.intake.forget(plan)
    assert await picture.told(after=SECONDS) == ["own DevicesInUse", "p DevicesInUse"]


async def test_what_was_allocated_and_ungated(picture: Picture):
    put(picture.intake, claim("c"), pod("p", "c"), pod("equipped"))
    found = await picture.told(
        Allocated(key("c"), key("p"), (DEVICE,), "n", 0.1, 1),
        Ungated(key("p")),
        DevicesGiven(key("equipped"), (DEVICE,), "n", 0.1),
        Allocated(key("gone"), key("gone"), (DEVICE,), "n", 0.1, 1),
        Ungated(key("gone")),
    )
    assert found == ["c Allocated", "p Ungated", "equipped Allocated"]


async def test_what_was_decided_last_is_told_when_the_process_stops(picture: Picture):
    put(picture.intake, claim("c"), pod("p", "c"))
    await picture.told()
    picture.task.cancel()
    await picture.told(Allocated(key("c"), key("p"), (DEVICE,), "n", 0.1, 1), Ungated(key("p")))
    assert picture.written == []
    await picture.recorder.finish()
    assert picture.written == ["c Allocated", "p Ungated"]


@pytest.mark.parametrize(("leads", "wanted"), [(True, ["c DeviceHeldTwice"]), (False, [])])
async def test_a_standby_that_stops_does_not_try_to_write_what_it_found(
    picture: Picture, leads: bool, wanted: list[str]
):
    """The stop wakes all that wait to lead, as if they did."""
    put(picture.intake, {**claim("c"), "status": held(DRIVER, "n", "d0")})
    picture.leads.clear()
    picture.still_leads = leads
    picture.task.cancel()
    await picture.told(HeldTwice(DEVICE, (key("c"), key("gone"))))
    picture.leads.set()
    await picture.recorder.finish()
    assert picture.written == wanted


async def test_pods_that_leave_are_told_why_also_when_they_are_gone(picture: Picture):
    nominee = of_pod(key("important"))
    found = await picture.told(
        Evicted(key("low"), "u", nominee),
        MoveEvicted(key("web"), "v", "n", "m", (DEVICE,), "device of whole", "n/gpu-0"),
        MovesAborted("whole=2", key("web"), "v", (), "it is gone"),
    )
    assert found == ["low Preempted", "web Moved", "web MovesDropped"]


async def test_of_devices_in_conflict_only_the_claims_that_still_hold_some_are_told(picture: Picture):
    picture.leads.clear()
    for name in "abc":
        put(picture.intake, {**claim(name), "status": held(DRIVER, "n", "d0")})
    twice = HeldTwice(DEVICE, (key("a"), key("b")))
    assert await picture.told(twice, ExclusionViolated("words", (key("b"), key("c")))) == []
    remove(picture.intake, "ResourceClaim", "a")
    picture.leads.set()
    assert await picture.told() == ["b DeviceHeldTwice", "b IncompatibleDevices", "c IncompatibleDevices"]


async def test_a_flood_of_allocations_does_not_grow_without_bounds(picture: Picture):
    put(picture.intake, claim("c"))
    flood = Allocated(key("c"), None, (DEVICE,), "n", 0.1, 1)
    for _ in range(2 * BACKLOG):
        picture.inbox.on_decision(flood)
    assert picture.inbox.outcomes.qsize() == BACKLOG


def on(pool: str, number: int, driver: str = "gpu.example.com") -> list[DeviceID]:
    return [DeviceID(driver, pool, f"d{at}") for at in range(number)]


@pytest.mark.parametrize(
    ("devices", "node", "text"),
    [
        (on("n", 1), "n", "Allocated 1 device on node n: gpu.example.com/n: d0."),
        (on("far", 2), "", "Allocated 2 devices: gpu.example.com/far: d0, d1."),
        (
            [*on("n", 2), *on("n", 1, "nic.example.com")],
            "n",
            "Allocated 3 devices on node n: gpu.example.com/n: d0, d1; nic.example.com/n: d0.",
        ),
        (
            on("n", 8),
            "n",
            "Allocated 8 devices on node n: gpu.example.com/n: d0, d1, d2, d3, d4, d5, d6, d7.",
        ),
        (
            on("n", 64),
            "n",
            "Allocated 64 devices on node n: gpu.example.com/n: d0, d1, d2, d3, d4, d5, d6, d7 and 56 more.",
        ),
    ],
)
def test_devices_are_named_by_pool_and_many_are_counted(devices: list[DeviceID], node: str, text: str):
    assert allocated_note(devices, node) == text


@dataclass
class Loop:
    """Notes and drops refusals as the loop does, and keeps what is passed on, and when."""

    pending: Pending = field(default_factory=Pending)
    told: list[tuple[float, str, str]] = field(default_factory=list)
    in_flight: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        clock = asyncio.get_running_loop().time
        self.lasting = LastingRefusals(self.pending, seconds=SECONDS, clock=clock)
        self.task = asyncio.create_task(self.lasting.run(self.is_in_flight, self.take))

    def is_in_flight(self, waits: Waits) -> bool:
        return waits.claims[0].name in self.in_flight

    def take(self, waits: Waits) -> None:
        self.told.append((asyncio.get_running_loop().time(), waits.claims[0].name, waits.reason))

    def refuse(self, name: str, reason: str) -> None:
        if self.pending.note(Unit(Kind.CLAIM, key(name)), reason, [key(name)]):
            self.lasting.add(Waits((key(name),), None, reason, "because"))

    def done(self, name: str) -> None:
        self.pending.drop(Unit(Kind.CLAIM, key(name)))


@pytest.fixture
async def loop() -> AsyncIterator[Loop]:
    found = Loop()
    yield found
    found.task.cancel()


async def test_a_refusal_is_told_once_it_has_lasted(loop: Loop):
    loop.refuse("a", "DevicesInUse")
    await asyncio.sleep(3)
    loop.refuse("b", "DevicesInUse")
    await asyncio.sleep(60)
    assert loop.told == [(10.0, "a", "DevicesInUse"), (13.0, "b", "DevicesInUse")]


async def test_one_that_ends_before_is_not(loop: Loop):
    loop.refuse("a", "ClaimNotMade")
    await asyncio.sleep(9)
    loop.done("a")
    await asyncio.sleep(60)
    assert loop.told == []


async def test_one_that_begins_anew_lasts_from_then_on(loop: Loop):
    loop.refuse("a", "DevicesInUse")
    await asyncio.sleep(9)
    loop.done("a")
    loop.refuse("a", "DevicesInUse")
    await asyncio.sleep(60)
    assert loop.told == [(19.0, "a", "DevicesInUse")]


async def test_reasons_that_take_turns_do_not_hide_that_it_is_pending(loop: Loop):
    for second in range(25):
        loop.refuse("a", ("DevicesInUse", "CountersExhausted")[second % 2])
        await asyncio.sleep(1)
    assert [time for time, _, _ in loop.told] == [10.0, 20.0]


async def test_of_several_reasons_the_present_one_is_told(loop: Loop):
    loop.refuse("a", "ClaimNotMade")
    await asyncio.sleep(1)
    loop.refuse("a", "DevicesInUse")
    await asyncio.sleep(60)
    assert loop.told == [(10.0, "a", "DevicesInUse")]


async def test_a_claim_in_flight_is_looked_at_again_later(loop: Loop):
    loop.refuse("a", "DevicesInUse")
    loop.in_flight = {"a"}
    await asyncio.sleep(15)
    loop.in_flight = set()
    await asyncio.sleep(60)
    assert loop.told == [(20.0, "a", "DevicesInUse")]


async def test_a_claim_that_was_in_flight_and_was_written_is_never_told(loop: Loop):
    loop.refuse("a", "DevicesInUse")
    loop.in_flight = {"a"}
    await asyncio.sleep(15)
    loop.done("a")
    await asyncio.sleep(60)
    assert loop.told == []
