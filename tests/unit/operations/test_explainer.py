"""Explaining beside the work: every refusal is passed on once, with an explanation where there is time."""

import asyncio
from collections.abc import Iterator
from itertools import count

from structlog.testing import capture_logs

from reconciler.allocation.explanation import Explanation
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.control.decisions.allocating import Waits
from reconciler.control.handler import Decide, Idle, Step
from reconciler.control.units import Kind, Unit
from reconciler.operations.events_recorder import SHARE, UNEXPLAINED, Explainer
from reconciler.state.store import Store
from reconciler.state.trial import store_of
from tests.tools.builders import claim, device_class, devices, node, request, resource_slice, typed

KEY = ObjectKey("default", "c")
WAITS = Waits((KEY,), None, "DevicesInUse", "the message", decision_id="d-1")


def store() -> Store:
    return store_of(
        map(typed, (node("n"), device_class(), resource_slice("s", devices("A"), nodeName="n"))), Semantics()
    )


def asked(wanted: int) -> Decide:
    thing = typed(claim("c", request("r", wanted)))
    assert isinstance(thing, ResourceClaim)
    return Decide((thing,), None)


class Listening:
    """Hears what is passed on."""

    def __init__(self, step: Step | Exception) -> None:
        self.heard: list[tuple[Waits, Explanation | None]] = []
        self.units: list[Unit] = []
        self._step = step
        self._ticks: Iterator[int] = count()
        self.explainer = Explainer(
            store(),
            self.step,
            clock=lambda: next(self._ticks) * 0.5,
            explained=self.explained,
        )

    def step(self, unit: Unit) -> Step:
        self.units.append(unit)
        if isinstance(self._step, Exception):
            raise self._step
        return self._step

    def explained(self, waits: Waits, explanation: Explanation | None) -> None:
        self.heard.append((waits, explanation))

    async def run(self, seconds: float) -> None:
        task = asyncio.create_task(self.explainer.run())
        await asyncio.sleep(seconds)
        task.cancel()


async def test_a_refusal_is_explained_with_the_reason_it_was_told_with():
    listening = Listening(asked(2))
    listening.explainer.add(WAITS)
    await listening.run(1)
    ((waits, explanation),) = listening.heard
    assert waits is WAITS
    assert explanation is not None
    assert (explanation.reason, explanation.message) == ("DevicesInUse", "the message")
    assert str(explanation.nearest[0]) == "n: 1 of 2 for request r; the node has no other device"


async def test_a_pod_is_explained_as_a_pod():
    listening = Listening(asked(2))
    listening.explainer.add(Waits((KEY,), ObjectKey("default", "p"), "DevicesInUse", ""))
    await listening.run(1)
    assert listening.units == [Unit(Kind.POD, ObjectKey("default", "p"))]


async def test_what_has_changed_since_is_passed_on_without():
    for step in (Idle(), asked(1)):
        listening = Listening(step)
        listening.explainer.add(WAITS)
        await listening.run(1)
        assert listening.heard == [(WAITS, None)]


async def test_each_explanation_is_paid_for_by_a_pause():
    """By the clock given, each takes half a second; by the loop's, nothing: only the pauses count."""
    listening = Listening(asked(2))
    for _ in range(3):
        listening.explainer.add(WAITS)
    pause = 0.5 / SHARE - 0.5
    await listening.run(2 * pause - 0.1)
    assert len(listening.heard) == 2


async def test_beyond_a_backlog_refusals_are_passed_on_at_once_without():
    listening = Listening(asked(2))
    for _ in range(UNEXPLAINED + 2):
        listening.explainer.add(WAITS)
    await listening.run(1)
    without = [one for one in listening.heard if one == (WAITS, None)]
    assert (len(without), len(listening.heard)) == (2, 3)


async def test_an_explanation_that_fails_is_logged_and_the_refusal_passed_on():
    listening = Listening(ZeroDivisionError())
    listening.explainer.add(WAITS)
    with capture_logs() as lines:
        await listening.run(1)
    assert listening.heard == [(WAITS, None)]
    (line,) = lines
    assert (line["event"], line["log_level"], line["decision_id"]) == ("explanation failed", "error", "d-1")
