"""Units of one template are decided together, and get what they would get one by one."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.control import decided_ahead
from reconciler.control.claim_handler import ClaimHandler
from reconciler.control.copies import Copies
from reconciler.control.decided_ahead import AGAIN, FIRST, GROWTH
from reconciler.control.decisions.allocating import Ungated
from reconciler.errors import Conflict, Rejected, Retry
from reconciler.operations.journal.entries import Header
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import replay
from tests.tools.burst_loop import OURS, BurstStage
from tests.tools.examples import FACTOR
from tests.tools.small_fleet import Object, claim, device_class, devices, node, pod
from tests.tools.unit_pictures import claim_unit, pod_unit, remove

NODES = ("n0", "n1", "n2", "n3")


def quick(_: ObjectKey) -> float:
    """Every write takes a second."""
    return 1.0


def machine(name: str, cpu: str = "8", gpus: int = 4, *, cordoned: bool = False) -> list[Object]:
    made = node(name)
    made["status"] = {"allocatable": {"cpu": cpu, "pods": "20"}}
    made["spec"] = {"unschedulable": cordoned}
    return [made, devices(name, *[f"d{n}" for n in range(gpus)])]


def worker(name: str, claim: str, cpu: str = "1", **spec: Any) -> Object:
    """A pod that needs CPU besides its claim."""
    made = pod(name, claim, **spec)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def stage_of(*machines: list[Object]) -> BurstStage:
    stage = BurstStage(quick)
    stage.news(device_class(), *[made for machine in machines for made in machine])
    return stage


def places(stage: BurstStage) -> list[str]:
    """`node/device` of each claim that was written, in the order of the writes."""
    return [
        f"{plan.node}/{result.device}"
        for _, granted in stage.written
        for plan in granted.plans
        for result in plan.allocation.devices.results
    ]


async def test_claims_of_one_spec_are_decided_together_and_written_in_their_order():
    stage = stage_of(machine("n0"), machine("n1"))
    stage.news(*[claim(f"c{n}") for n in range(6)])
    async with stage.at_work(1):
        await asyncio.sleep(1.5)
        waiting = [one.grant.question.unit for one in stage.reconciler.ahead]
        await asyncio.sleep(9)
    assert waiting == [claim_unit(f"c{n}") for n in (2, 3, 4, 5)]
    assert [unit for unit, _ in stage.written] == [claim_unit(f"c{n}") for n in range(6)]
    assert places(stage) == ["n0/d0", "n0/d1", "n0/d2", "n0/d3", "n1/d0", "n1/d1"]


async def test_passes_grow_while_all_is_written_and_begin_small_after_one_in_vain(
    monkeypatch: pytest.MonkeyPatch,
):
    first = 8
    monkeypatch.setattr(decided_ahead, "FIRST", first)
    stage = stage_of(machine("n0", gpus=80))
    stage.news(*[claim(f"c{n}") for n in range(80)])
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert len(list(stage.reconciler.ahead)) == first
        await asyncio.sleep(first + 1)
        assert len(list(stage.reconciler.ahead)) == first * GROWTH
        remove(stage.intake, "ResourceClaim", "c0")
        await asyncio.sleep(1)
        assert not stage.reconciler.ahead
        await asyncio.sleep(1)
        assert len(list(stage.reconciler.ahead)) == AGAIN


async def test_a_pod_has_one_turn_for_its_devices_and_one_for_its_gate():
    """The second one comes when the watch of claims had time to show the devices to kube-scheduler."""
    stage = stage_of(machine("n0"), machine("n1"))
    for n in range(4):
        stage.news(claim(f"c{n}", managed=False), worker(f"p{n}", f"c{n}"))
    async with stage.at_work(2):
        await asyncio.sleep(20)
    ungated = [one.pod.name for one in stage.told if isinstance(one, Ungated)]
    assert sorted(ungated) == ["p0", "p1", "p2", "p3"]
    assert stage.reconciler.reconciles == 4 + 2 * 4  # a claim of a pod has a turn in which nothing is done


async def test_pods_of_one_template_go_on_when_a_node_has_devices_but_no_cpu_left():
    stage = stage_of(machine("n0", cpu="2"), machine("n1"))
    for n in range(5):
        stage.news(claim(f"c{n}", managed=False), worker(f"p{n}", f"c{n}"))
    async with stage.at_work(1):
        await asyncio.sleep(2.5)
        assert len(list(stage.reconciler.ahead)) == 3
        await asyncio.sleep(20)
    assert places(stage) == ["n0/d0", "n0/d1", "n1/d0", "n1/d1", "n1/d2"]


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}]}}},
        {"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]},
    ],
    ids=["anti-affinity", "port", "volume"],
)  # fmt: skip
async def test_pods_that_keep_others_away_are_decided_one_by_one(spec: Object):
    stage = stage_of(machine("n0"), machine("n1"))
    for n in range(4):
        stage.news(claim(f"c{n}", managed=False), pod(f"p{n}", f"c{n}", **spec))
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert not stage.reconciler.ahead


async def test_a_more_urgent_pod_gets_the_devices_that_were_found_for_units_after_it():
    stage = stage_of(machine("n0"))
    stage.news(*[claim(f"c{n}") for n in range(4)])
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert [one.grant.question.unit for one in stage.reconciler.ahead] == [
            claim_unit(f"c{n}") for n in (1, 2, 3)
        ]
        stage.news(claim("first", managed=False), worker("urgent", "first", priority=5))
        await asyncio.sleep(20)
    assert [unit for unit, _ in stage.written] == [
        claim_unit("c0"), pod_unit("urgent"), claim_unit("c1"), claim_unit("c2"),
    ]  # fmt: skip
    assert places(stage) == ["n0/d0", "n0/d1", "n0/d2", "n0/d3"]


@pytest.mark.parametrize("what", ["freed", "deleted", "cordoned", "slice", "pod", "paused"])
async def test_after_a_change_the_rest_is_decided_in_its_turn(what: str):
    stage = stage_of(machine("n0", gpus=3), machine("n1"))
    stage.news(*[claim(f"c{n}") for n in range(5)])
    async with stage.at_work(1):
        await asyncio.sleep(1.5)
        assert len(list(stage.reconciler.ahead)) == 3
        match what:
            case "freed":
                remove(stage.intake, "ResourceClaim", "c0")
            case "deleted":
                remove(stage.intake, "ResourceClaim", "c3")
            case "cordoned":
                stage.news(*machine("n1", cordoned=True)[:1])
            case "slice":
                stage.news(*machine("n0", gpus=2)[1:])
            case "pod":
                stage.news(worker("p3", "c3"))
            case "paused":
                stage.intake.pause.set("test", "people look")
        await asyncio.sleep(1)
        if what != "pod":
            assert not stage.reconciler.ahead
        stage.intake.pause.set("test", "")
        await asyncio.sleep(20)
    expected = {
        "freed": ["n0/d0", "n0/d1", "n0/d0", "n0/d2", "n1/d0"],
        "deleted": ["n0/d0", "n0/d1", "n0/d2", "n1/d0"],
        "cordoned": ["n0/d0", "n0/d1", "n0/d2"],
        "slice": ["n0/d0", "n0/d1", "n1/d0", "n1/d1", "n1/d2"],
    }
    assert places(stage) == expected.get(what, ["n0/d0", "n0/d1", "n0/d2", "n1/d0", "n1/d1"])


async def test_another_turn_about_a_claim_leaves_what_was_decided_ahead_alone():
    """A unit of the claim itself would take it for a write without an answer, and withdraw it."""
    stage = stage_of(machine("n0"), machine("n1"))
    for n in range(4):
        stage.news(claim(f"c{n}"), worker(f"p{n}", f"c{n}"))
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        ahead = [one.grant.question.unit for one in stage.reconciler.ahead]
        assert ahead == [pod_unit(f"p{n}") for n in (1, 2, 3)]
        for n in range(4):
            stage.intake.put(claim_unit(f"c{n}"))
        await asyncio.sleep(30)
    assert [unit for unit, _ in stage.written] == [pod_unit(f"p{n}") for n in range(4)]
    assert stage.writer.withdrawn == []


async def test_the_journal_decides_each_unit_again_in_the_same_way(tmp_path: Path):
    recorder = Recorder(tmp_path, Header("test", Semantics(), OURS, 10_000))
    stage = BurstStage(quick, journal=recorder.decided, store=recorder.store)
    stage.news(device_class(), *machine("n0"), *machine("n1"), *[claim(f"c{n}") for n in range(8)])
    async with stage.at_work(1):
        await asyncio.sleep(2.5)
        assert len(list(stage.reconciler.ahead)) == 5
        remove(stage.intake, "ResourceClaim", "c0")
        await asyncio.sleep(20)
    recorder.close()
    tally = replay(tmp_path)
    assert (tally.different, tally.unknown) == ([], 0)
    assert tally.same >= 8 + 5  # five were taken back and decided again


async def test_an_internal_error_ahead_does_not_keep_a_unit_from_its_own_devices(
    monkeypatch: pytest.MonkeyPatch,
):
    def find(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Copies, "find", find)
    stage = stage_of(machine("n0"))
    stage.news(*[claim(f"c{n}") for n in range(3)])
    async with stage.at_work(1):
        await asyncio.sleep(5)
    assert places(stage) == ["n0/d0", "n0/d1", "n0/d2"]
    assert stage.reconciler.failures == 3


async def test_a_lowered_fence_takes_back_what_was_decided_ahead():
    stage = stage_of(machine("n0"))
    stage.news(*[claim(f"c{n}") for n in range(4)])
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert stage.reconciler.ahead
        stage.fence.lower()
        await asyncio.sleep(1)
        assert not stage.reconciler.ahead
        assert list(stage.intake.store.assumptions) == []
        stage.fence.up.set()
        await asyncio.sleep(5)
    assert len(stage.written) == 4


async def test_nothing_is_decided_ahead_of_a_unit_that_still_has_no_answer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ClaimHandler, "undecided", property(lambda _: True))
    stage = stage_of(machine("n0"))
    stage.news(*[claim(f"c{n}") for n in range(4)])
    async with stage.at_work(1):
        await asyncio.sleep(0.5)
        assert not stage.reconciler.ahead
        await asyncio.sleep(20)
    assert places(stage) == ["n0/d0", "n0/d1", "n0/d2", "n0/d3"]


@pytest.mark.parametrize("seed", range(20 * FACTOR))
async def test_every_grant_is_that_of_a_decision_of_its_own(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Claims and pods of a few templates come and go, nodes and slices change, writes are slow and fail.

    The stage compares each grant when its write begins.
    """
    random = Random(seed)

    def happens(_: ObjectKey) -> Exception | float:
        if random.random() < 0.1:
            return random.choice([Conflict("409"), Retry("503"), Rejected("422")])
        return random.random()

    monkeypatch.setattr(decided_ahead, "FIRST", random.choice((4, FIRST)))  # more passes, or longer ones
    stage = BurstStage(happens)
    stage.news(device_class(), *[made for name in NODES for made in machine(name)])
    made: list[str] = []

    def burst() -> None:
        specs = random.choice([(1,), (2,), (1, 2), (1, 2, 3)])
        pods = random.random() < 0.5
        cpu, priority = random.choice("12"), random.randint(0, 1)
        for _ in range(random.randint(1, 7)):
            name = f"c{len(made)}"
            made.append(name)
            stage.news(claim(name, random.choice(specs), managed=not pods))
            if pods:
                stage.news(worker(f"p-{name}", name, cpu, priority=priority))

    def gone() -> None:
        for name in random.sample(made, min(len(made), random.randint(1, 5))):
            remove(stage.intake, "Pod", f"p-{name}")
            remove(stage.intake, "ResourceClaim", name)

    def supply() -> None:
        name = random.choice(NODES)
        changed = machine(name, random.choice("248"), random.randint(2, 5), cordoned=random.random() < 0.2)
        stage.news(random.choice(changed))

    async with stage.at_work(random.randint(1, 4)):
        for _ in range(40):
            random.choice([burst, burst, burst, gone, gone, supply])()
            await asyncio.sleep(random.choice((0.0, 0.3, 3.0)))
        await asyncio.sleep(600)
    assert stage.reconciler.failures == 0
    assert not stage.reconciler.ahead
