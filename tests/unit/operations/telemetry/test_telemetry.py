"""Telemetry before and after the parts of a process registered their signals."""

import asyncio
from datetime import UTC, datetime

from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import labelled
from reconciler.operations.telemetry import Signals, Telemetry
from reconciler.settings import Settings


def telemetry(stop: asyncio.Event) -> Telemetry:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return Telemetry(Settings(), stop=stop, now=lambda: now, lease="x")


def test_before_anything_registers_the_process_lives_and_is_not_ready():
    seen = telemetry(asyncio.Event())
    assert seen.live.problems() == {}
    assert seen.ready.problems() == {"discovery": "the API server has not answered yet"}


def test_a_process_that_ends_is_not_ready():
    stop = asyncio.Event()
    seen = telemetry(stop)
    seen.register(Signals(ready={"discovery": lambda: ""}))
    assert seen.ready.problems() == {}
    stop.set()
    assert seen.ready.problems() == {"shutdown": "the process is shutting down"}


def test_the_last_signal_of_a_name_counts():
    seen = telemetry(asyncio.Event())
    seen.register(
        Signals(live={"tasks": lambda: "ended: a"}, readings=[labelled(of.LEADER, lambda: {"x": 1.0})]),
        Signals(live={"tasks": lambda: "ended: b"}, readings=[labelled(of.LEADER, lambda: {"x": 2.0})]),
    )
    assert seen.live.problems() == {"tasks": "ended: b"}
    values = [sample.value for family in seen.readings.collect() for sample in family.samples]
    assert values.count(2.0) == 1
    assert 1.0 not in values
