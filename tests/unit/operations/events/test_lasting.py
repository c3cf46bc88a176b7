"""Which refusals last long enough to be told."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from reconciler.control.decisions.allocating import Waits
from reconciler.control.units import Kind, Unit
from reconciler.control.waiting import Pending
from reconciler.operations.events.recorder import LastingRefusals
from tests.tools.unit_pictures import key

SECONDS = 10.0


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
