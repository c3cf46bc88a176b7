"""Unanswered writes of Koordinator's devices: settled whatever became of the pod, and reported once."""

from collections import deque
from typing import Any

import pytest

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import GATE, Pod
from reconciler.cluster.pod_writer import PodWriter
from reconciler.control.decisions.allocating import DevicesGiven, Ungated
from reconciler.control.decisions.declaration import Decision
from reconciler.control.handler import Ask, Decided, Given
from reconciler.errors import Undecided
from reconciler.plugins.koordinator import vocabulary
from reconciler.plugins.koordinator.choice import Takeover
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.handler import KoordinatorHandler
from reconciler.plugins.koordinator.holdings import Grant
from reconciler.plugins.koordinator.pods import DeviceIntake, KoordinatorState
from reconciler.plugins.koordinator.vocabulary import GPU_CORE, GPU_MEMORY_RATIO, KOORD_RDMA, Rules, Semantics
from tests.tools.koordinator_builders import decide, device, gpu, holding, machine, minors, nic
from tests.tools.koordinator_builders import pod as asking
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
    if vocabulary.ALLOCATED in annotations:
        raw["spec"]["nodeName"] = "n"
    return Pod.model_validate(raw)


class Stage:
    """A machine with one GPU, and a pod for which it was decided, by a write without an answer."""

    def __init__(self) -> None:
        self.told: list[Decision] = []
        self.writer = NoAnswer()
        self.picture = KoordinatorState(Fleet(Rules()), self.told.append)
        whole = intake(node("n"))
        self.intake = whole
        self.devices = DeviceIntake(self.picture, whole)
        self.handler = KoordinatorHandler(
            self.picture, self.devices, whole, self.writer, clock=lambda: 7.0, report=self.told.append
        )
        self.picture.apply(Changed("Device", device(gpu(0), name="n")))
        self.news(pod(1))

    def news(self, found: Pod) -> None:
        """The watch tells of the pod, and so does the server from now on."""
        self.writer.server = found
        self.intake.take(Changed("Pod", found))

    async def write(self) -> str:
        """Decide, assume and write. Returns the annotation."""
        asked = self.handler.next(UNIT)
        assert isinstance(asked, Ask)
        (answer,) = asked.decide(())
        assert isinstance(answer, Given)
        answer.assume()
        with pytest.raises(Undecided):
            await answer.write(Decided("d-1", 5.0))
        return answer.outcome().devices[0][0]

    @property
    def held(self) -> bool:
        return bool(self.picture.fleet.holders("n"))


async def test_a_write_that_the_watch_shows_first_is_reported_once_under_its_name():
    stage = Stage()
    text = await stage.write()
    stage.news(pod(2, gated=False, **{vocabulary.ALLOCATED: text}))
    for _ in range(2):
        await stage.handler.resolve(UNIT)
        assert stage.handler.next(UNIT) is None
    (equipped, ungated) = stage.told
    assert isinstance(equipped, DevicesGiven)
    assert (equipped.node, equipped.seconds, equipped.decision_id) == ("n", 2.0, "d-1")
    assert ungated == Ungated(UNIT.key)
    assert stage.held


async def test_a_write_that_reading_shows_is_reported_without_writing_again():
    stage = Stage()
    text = await stage.write()
    stage.writer.server = pod(2, gated=False, **{vocabulary.ALLOCATED: text})
    await stage.handler.resolve(UNIT)
    assert [type(decision) for decision in stage.told] == [DevicesGiven, Ungated]
    assert stage.writer.patches == 1
    assert stage.handler.next(UNIT) is None


async def test_a_write_that_did_not_arrive_is_sent_again():
    stage = Stage()
    text = await stage.write()
    stage.writer.answers.append(pod(2, gated=False, **{vocabulary.ALLOCATED: text}))
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


FULL = {GPU_CORE: 100, GPU_MEMORY_RATIO: 100, "koordinator.sh/gpu-memory": 80 * 2**30}


@pytest.mark.parametrize("semantics", Semantics)
@pytest.mark.parametrize(
    ("name", "takeover", "expected"),
    [
        ("nothing is given up", Takeover(), "insufficient-devices:gpu"),
        ("one GPU is", Takeover({"gpu": {1: FULL}}), {"gpu": [1]}),
        ("half of one is not enough", Takeover({"gpu": {1: {GPU_CORE: 50}}}), "insufficient-devices:gpu"),
    ],
)
def test_what_holders_give_up_counts_as_free(
    semantics: Semantics, name: str, takeover: Takeover, expected: Any
):
    on = machine(gpu(0), gpu(1), semantics=semantics)
    wants = asking({"gpu-core": 80, "gpu-memory-ratio": 80})
    found = decide(wants, on, holding(gpus=[0, 1]), semantics, takeover=takeover)
    assert minors(found) == expected


def test_who_gives_way_keeps_nobody_out():
    on = machine(gpu(0, (0, "0")), gpu(1, (0, "0")))
    held = holding(gpus=[0], hints={"gpu": {"exclusivePolicy": "PCIeLevel"}})
    wants = asking({"nvidia.com/gpu": 2})
    assert minors(decide(wants, on, held)) == "insufficient-devices:gpu"
    assert minors(decide(wants, on, held, takeover=Takeover({"gpu": {0: FULL}}))) == {"gpu": [0, 1]}


@pytest.mark.parametrize("semantics", Semantics)
def test_named_devices_are_the_only_ones(semantics: Semantics):
    on = machine(nic(0), nic(1), semantics=semantics)
    back = Takeover(designated={"rdma": (Grant(1, {KOORD_RDMA: 50}),)})
    assert minors(decide(asking({"rdma": 50}), on, semantics=semantics, takeover=back)) == {"rdma": [1]}
    more = decide(asking({"rdma": 60}), on, semantics=semantics, takeover=back)
    assert minors(more) == "insufficient-devices:rdma"


def test_preferred_devices_come_first():
    on = machine(nic(0), nic(1), nic(2))
    preferred = Takeover(preferred={"rdma": frozenset({2})})
    assert minors(decide(asking({"rdma": 200}), on, takeover=preferred)) == {"rdma": [0, 2]}
