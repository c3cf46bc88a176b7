"""Unanswered writes of Koordinator's devices: settled whatever became of the pod, and reported once."""

from collections import deque
from typing import Any

import pytest

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import GATE, Pod
from reconciler.cluster.pod_writer import PodWriter
from reconciler.control.decisions.allocating import DevicesGiven, Ungated
from reconciler.control.decisions.declaration import Decision
from reconciler.control.handler import Ask, Decided, Given, Idle
from reconciler.errors import Undecided
from reconciler.plugins.koordinator import names
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.handler import KoordinatorHandler
from reconciler.plugins.koordinator.pods import DeviceIntake, KoordinatorState
from reconciler.plugins.koordinator.rules import Rules
from tests.tools.koordinator_builders import device, gpu
from tests.tools.koordinator_cluster import wants
from tests.tools.small_fleet import node
from tests.tools.unit_pictures import intake, pod_unit

UNIT = pod_unit("p")


class NoAnswer(PodWriter):
    """Answers no write; reads give the pod as it is told to be on the server."""

    def __init__(self) -> None:
        self.server: Pod | None = None
        self.patches = 0
        self.answers: deque[Pod] = deque()

    async def read(self, _key: Any) -> Pod | None:
        return self.server

    async def patch(self, pod: Pod, _steps: Any) -> Pod:  # noqa: ARG002
        self.patches += 1
        if not self.answers:
            raise Undecided("no answer")
        return self.answers.popleft()


def pod(version: int, *, gated: bool = True, **annotations: str) -> Pod:
    raw = wants("p", {"nvidia.com/gpu": 1}, gates=(GATE,) if gated else ())
    raw["metadata"] |= {"resourceVersion": str(version), "uid": "u"}
    raw["metadata"]["annotations"] = annotations
    if names.ALLOCATED in annotations:
        raw["spec"]["nodeName"] = "n"
    return Pod.model_validate(raw)


class Stage:
    """A machine with one GPU, and a pod for which it was decided, by a write without an answer."""

    def __init__(self) -> None:
        self.told: list[Decision] = []
        self.writer = NoAnswer()
        self.picture = KoordinatorState(Fleet(Rules()), self.told.append)
        whole = intake(node("n"))
        self.below = whole.take
        self.devices = DeviceIntake(self.picture, whole)
        self.handler = KoordinatorHandler(
            self.picture, self.devices, whole, self.writer, clock=lambda: 7.0, report=self.told.append
        )
        self.picture.apply(Changed("Device", device(gpu(0), name="n")))
        self.news(pod(1))

    def news(self, found: Pod) -> None:
        """The watch tells of the pod, and so does the server from now on."""
        self.writer.server = found
        self.devices.take(Changed("Pod", found), self.below)

    async def write(self) -> str:
        """Decide, assume and write. Returns the annotation."""
        asked = self.handler.next(UNIT)
        assert isinstance(asked, Ask)
        (answer,) = self.handler.decide(asked.question, ())
        assert isinstance(answer, Given)
        self.handler.assume(answer.grant)
        with pytest.raises(Undecided):
            await self.handler.write(answer.grant, Decided("d-1", 5.0))
        return answer.grant.grant.text

    @property
    def held(self) -> bool:
        return bool(self.picture.fleet.holders("n"))


async def test_a_write_that_the_watch_shows_first_is_reported_once_under_its_name():
    stage = Stage()
    text = await stage.write()
    stage.news(pod(2, gated=False, **{names.ALLOCATED: text}))
    for _ in range(2):
        await stage.handler.resolve(UNIT)
        assert stage.handler.next(UNIT) == Idle()
    (equipped, ungated) = stage.told
    assert isinstance(equipped, DevicesGiven)
    assert (equipped.node, equipped.seconds, equipped.decision_id) == ("n", 2.0, "d-1")
    assert ungated == Ungated(UNIT.key)
    assert stage.held


async def test_a_write_that_reading_shows_is_reported_without_writing_again():
    stage = Stage()
    text = await stage.write()
    stage.writer.server = pod(2, gated=False, **{names.ALLOCATED: text})
    await stage.handler.resolve(UNIT)
    assert [type(decision) for decision in stage.told] == [DevicesGiven, Ungated]
    assert stage.writer.patches == 1
    assert stage.handler.next(UNIT) == Idle()


async def test_a_write_that_did_not_arrive_is_sent_again():
    stage = Stage()
    text = await stage.write()
    stage.writer.answers.append(pod(2, gated=False, **{names.ALLOCATED: text}))
    await stage.handler.resolve(UNIT)
    assert stage.writer.patches == 2
    assert [type(decision) for decision in stage.told] == [DevicesGiven, Ungated]
    assert stage.held


async def test_a_write_to_a_pod_that_changed_is_given_up_and_the_pod_asks_again():
    stage = Stage()
    await stage.write()
    stage.news(pod(2, edited="yes"))
    assert stage.held
    await stage.handler.resolve(UNIT)
    assert not stage.held
    assert isinstance(stage.handler.next(UNIT), Ask)
    assert stage.told == []


async def test_devices_come_back_from_a_pod_that_lost_its_gate_to_somebody_else():
    """Nothing is decided for it any more, and its devices would be missing until it ends."""
    stage = Stage()
    await stage.write()
    stage.news(pod(2, gated=False))
    assert stage.held
    await stage.handler.resolve(UNIT)
    assert not stage.held
    assert stage.handler.next(UNIT) is None
    assert stage.told == []
