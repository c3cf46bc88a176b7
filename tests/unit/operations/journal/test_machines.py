"""Koordinator's devices in a journal: a run, and histories of all that can happen, decided again."""

import gzip
import re
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import main
from reconciler.cluster.pod_writer import PodWriter
from reconciler.control import handler
from reconciler.control.decisions.allocating import DevicesGiven, Waits
from reconciler.control.handler import Ask, Given
from reconciler.control.inputs import Answered
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.units import Kind, Unit
from reconciler.operations.journal.entries import Header, decode, lines, paths
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import NoQueue, replay
from reconciler.plugins.koordinator import vocabulary
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.handler import KoordinatorHandler
from reconciler.plugins.koordinator.pods import DeviceIntake, KoordinatorState
from reconciler.plugins.koordinator.vocabulary import Rules
from reconciler.state.store import Store
from tests.tools.koordinator_builders import device, gpu, nic
from tests.tools.koordinator_cluster import KoordinatorCluster, machine, node, running, wants

HEADER = Header(
    "test",
    Semantics(),
    Ownership(alone=True),
    1000,
    settings={"koordinator": True, "koordinator_semantics": "proposal"},
)
GPU = {"nvidia.com/gpu": 1}
HOPPER = {vocabulary.GPU_MODEL: "H100", vocabulary.PARTITION_POLICY: "Honor"}
ASKS = ({"nvidia.com/gpu": 2}, GPU, {"gpu-core": 30, "gpu-memory-ratio": 30}, {"rdma": 5})
ALONE = {vocabulary.ALLOCATE_HINT: {"rdma": {"exclusivePolicy": "DeviceLevel"}}}


async def test_a_run_is_decided_again_in_the_same_way(tmp_path: Path):
    both = [machine(name, gpu(0, (0, "x")), nic(0, (0, "x"), vfs=2)) for name in ("a", "b")]
    cluster = KoordinatorCluster([node("a"), node("b"), *both])
    joint = {vocabulary.JOINT_ALLOCATE: {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}}
    cluster.load(wants("first", {**GPU, "rdma": 1}, annotations=joint), wants("other", {}, gates=()))
    async with running(cluster, journal=str(tmp_path)) as run:
        await run.heard(DevicesGiven)
        cluster.load(wants("second", GPU, nodeSelector={"nowhere": "x"}))
        await run.heard(Waits)
        cluster.load(wants("third", GPU))
        await run.heard(DevicesGiven, 2)
        cluster.load(wants("fourth", GPU))
        fourth = ObjectKey("default", "fourth")
        await run.heard(Waits, counts=lambda one: one.pod == fourth)  # the second may have another reason now
        cluster.remove("first")
        await run.heard(DevicesGiven, 3)
    tally = replay(tmp_path)
    assert tally.different == []
    assert tally.unknown == 0
    told = {one.decision_id for one in (*run.of(DevicesGiven), *run.of(Waits))}
    answers = [
        one for path in paths(tmp_path) for line in lines(path) if isinstance(one := decode(line), Answered)
    ]
    assert told <= {one.id for one in answers}
    assert tally.same == len(answers)
    (refused,) = [one.decision_id for one in run.of(Waits) if one.pod == fourth]
    result = CliRunner().invoke(main, ["replay", str(tmp_path), "--explain", "--until", refused])
    assert result.exit_code == 0, result.output
    assert "InsufficientDevices" in result.output
    assert "free amounts" in result.output


class History:
    """Something happens to machines and pods, again and again; now and then devices are given."""

    def __init__(self, folder: Path, seed: int, *, full: int) -> None:
        self.random = Random(seed)
        self.recorder = Recorder(folder, HEADER, full=full, files=1_000_000)
        self.intake = Intake(Store(Semantics()), NoQueue(), (), lambda _: None, journal=self.recorder.note)
        self.picture = KoordinatorState(Fleet(Rules()), lambda _: None)
        self.recorder.add(self.picture.beginning)
        self.devices = DeviceIntake(self.picture, self.intake)
        self.handler = KoordinatorHandler(
            self.picture,
            self.devices,
            self.intake,
            cast("PodWriter", None),
            clock=lambda: 0.0,
            report=lambda _: None,
        )
        self.version = 0
        self.made = 0

    def play(self, steps: int) -> None:
        acts = (self.describe, self.describe, self.label, self.arrive, self.arrive, self.decide, self.decide)
        rare = (self.vanish, self.leave, self.spoil, self.relist, self.settle, self.settle)
        for _ in range(steps):
            self.random.choice((*acts, *rare))()
        self.recorder.close()

    def describe(self) -> None:
        name, count = self.random.choice("abc"), self.random.randint(1, 4)
        cards = [gpu(n, (0, f"x{n // 2}"), health=self.random.random() < 0.9) for n in range(count)]
        nics = [nic(n, (0, f"x{n}"), vfs=self.random.randint(0, 2)) for n in range(self.random.randint(0, 2))]
        said = {vocabulary.PARTITION_POLICY: "Honor"} if self.random.random() < 0.2 else {}
        self.intake.take(Changed("Device", device(*cards, *nics, name=name, labels=said)))

    def vanish(self) -> None:
        key = ObjectKey("", self.random.choice("abc"))
        gone = Removed("Device", key) if self.random.random() < 0.5 else Refused("Device", key, "why")
        self.intake.take(gone)

    def label(self) -> None:
        """A node comes, has other labels, or takes no pods."""
        metadata = {"name": self.random.choice("abc"), "labels": HOPPER if self.random.random() < 0.3 else {}}
        spec = {"unschedulable": self.random.random() < 0.2}
        self.intake.take(Changed("Node", Node.model_validate({"metadata": metadata, "spec": spec})))

    def pod(self, name: str) -> Pod:
        requests: Any = self.random.choice(ASKS)
        raw = wants(name, requests, annotations=self.random.choice(({}, ALONE)))
        self.version += 1
        raw["metadata"] |= {
            "uid": f"{name}-{self.random.randint(0, 1)}",
            "resourceVersion": str(self.version),
        }
        return Pod.model_validate(raw)

    def arrive(self) -> None:
        self.intake.take(Changed("Pod", self.pod(f"p{self.random.randint(0, 5)}")))

    def known(self) -> list[Pod]:
        keys = [ObjectKey("default", f"p{n}") for n in range(6)]
        return [pod for key in keys if (pod := self.picture.pod(key)) is not None]

    def leave(self) -> None:
        self.intake.take(Removed("Pod", ObjectKey("default", f"p{self.random.randint(0, 5)}")))

    def decide(self) -> None:
        units = [Unit(Kind.POD, pod.key) for pod in self.known() if self.picture.assumed(pod.key) is None]
        asked = [(unit, needs) for unit in units if isinstance(needs := self.handler.next(unit), Ask)]
        if not asked:
            return
        unit, needs = self.random.choice(asked)
        (answer,) = needs.decide(())
        assert isinstance(answer, Given | handler.Refused)
        self.made += 1
        self.intake.note(Answered(f"id-{self.made}", unit, answer.outcome()))
        if isinstance(answer, Given):
            answer.assume()

    def settle(self) -> None:
        """An assumed pod is written, and seen with its annotation; or it is not, and forgotten."""
        for pod in self.known():
            grant = self.picture.assumed(pod.key)
            if grant is None:
                continue
            if self.random.random() < 0.7:
                self.intake.observe_pod(self.written(pod, grant.held.node, grant.text))
            self.devices.forget(grant)
            return

    def written(self, pod: Pod, on: str, text: str) -> Pod:
        raw = pod.to_json()
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        raw["metadata"].setdefault("annotations", {})[vocabulary.ALLOCATED] = text
        raw["spec"] |= {"nodeName": on, "schedulingGates": []}
        return Pod.model_validate(raw)

    def spoil(self) -> None:
        """Somebody makes the annotation of a pod unreadable; it goes on holding what it held."""
        holders = [pod for pod in self.known() if vocabulary.ALLOCATED in pod.metadata.annotations]
        if holders:
            pod = self.random.choice(holders)
            self.intake.take(Changed("Pod", self.written(pod, pod.spec.node_name, "{")))

    def relist(self) -> None:
        kept = tuple(pod for pod in self.known() if self.random.random() < 0.8)
        self.intake.take(Replaced("Pod", kept, (), afresh=self.random.random() < 0.3))


@given(seed=st.integers(0, 10_000), full=st.sampled_from([1, 2_000, 10_000_000]))
def test_every_history_is_decided_again_in_the_same_way(
    tmp_path_factory: pytest.TempPathFactory, seed: int, full: int
):
    folder = tmp_path_factory.mktemp("journal")
    history = History(folder, seed, full=full)
    history.play(60)
    if not history.made:
        return
    tally = replay(folder)
    assert tally.different == []
    assert (tally.same, tally.unknown) == (history.made, 0)


@pytest.mark.parametrize("seed", range(8))
def test_each_file_alone_is_decided_again_in_the_same_way(seed: int, tmp_path: Path):
    """A file that begins in the middle says all that decisions were made from by then."""
    history = History(tmp_path, seed, full=3_000)
    history.play(150)
    assert history.made > 10
    files = paths(tmp_path)
    assert len(files) > 3
    for path in files[1:]:
        tally = replay(path)
        assert tally.different == []
        assert tally.unknown == 0


def test_another_answer_is_seen(tmp_path: Path):
    history = History(tmp_path, 1, full=10_000_000)
    history.play(150)
    (path,) = paths(tmp_path)
    text = gzip.decompress(path.read_bytes())
    changed = re.sub(rb'"reason":"","node":"."', b'"reason":"","node":"elsewhere"', text)
    assert changed != text
    path.write_bytes(gzip.compress(changed))
    assert replay(tmp_path).different
    result = CliRunner().invoke(main, ["replay", str(tmp_path)])
    assert result.exit_code == 1
    assert "for pod default/p" in result.stdout
    assert "invalid Koordinator devices ignored" not in result.stdout, "log lines go to standard error"


def test_a_file_says_what_a_pod_holds_that_cannot_be_read_any_more(tmp_path: Path):
    history = History(tmp_path, 1, full=1)
    history.intake.take(Changed("Node", Node.model_validate({"metadata": {"name": "a"}})))
    history.intake.take(Changed("Device", device(gpu(0), name="a")))
    history.intake.take(Changed("Pod", Pod.model_validate(wants("p0", GPU))))
    history.decide()
    (pod,) = history.known()
    grant = history.picture.assumed(pod.key)
    assert grant is not None
    history.intake.observe_pod(history.written(pod, "a", grant.text))
    history.intake.take(Refused("Pod", pod.key, "why"))
    history.intake.take(Changed("Pod", Pod.model_validate(wants("p1", GPU))))
    history.decide()
    history.recorder.close()
    *_, last = paths(tmp_path)
    tally = replay(last)
    assert (tally.same, tally.different, tally.unknown) == (1, [], 0)
