"""Units that ask for the same are decided in one batch, and get what they would get one by one."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reconciler.allocation.policies.selection import parse_policies
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.control import claim_handler
from reconciler.control.claim_handler import ClaimHandler
from reconciler.control.decisions.allocating import Ungated, Waits
from reconciler.control.handler import Ask, Decide, Given
from reconciler.control.intake import Intake
from reconciler.control.units import Unit
from reconciler.errors import Conflict, Rejected, Retry
from reconciler.operations.journal.entries import Header
from reconciler.operations.journal.recording import Recorder
from reconciler.operations.journal.replaying import replay
from tests.tools.burst_loop import OURS, BurstStage, handler_of_claims
from tests.tools.examples import FACTOR, seeds
from tests.tools.scripted_loop import NoWriter
from tests.tools.small_fleet import Object, claim, device_class, devices, node, pod
from tests.tools.unit_pictures import claim_unit, intake, key, pod_unit, put, remove

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


async def test_units_whose_turns_come_together_are_answered_at_once_and_written_in_their_order():
    stage = stage_of(machine("n0"), machine("n1"))
    stage.news(*[claim(f"c{n}") for n in range(6)])
    async with stage.at_work(8):
        await asyncio.sleep(9)
    assert max(stage.batches) >= 5
    assert [unit for unit, _ in stage.written] == [claim_unit(f"c{n}") for n in range(6)]
    assert places(stage) == ["n0/d0", "n0/d1", "n0/d2", "n0/d3", "n1/d0", "n1/d1"]


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
    async with stage.at_work(16):
        await asyncio.sleep(20)
    assert max(stage.batches) >= 4
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
    for n in range(6):
        stage.news(claim(f"c{n}", managed=False), pod(f"p{n}", f"c{n}", **spec))
    async with stage.at_work(8):
        await asyncio.sleep(0.5)
    assert max(stage.batches, default=1) == 1


async def test_the_journal_decides_each_unit_of_a_batch_again_in_the_same_way(tmp_path: Path):
    recorder = Recorder(tmp_path, Header("test", Semantics(), OURS, 10_000))
    stage = BurstStage(quick, journal=recorder.note)
    stage.news(device_class(), *machine("n0"), *machine("n1"), *[claim(f"c{n}") for n in range(8)])
    async with stage.at_work(16):
        await asyncio.sleep(20)
    recorder.close()
    assert max(stage.batches) >= 5  # the first may wait until its selectors ran
    tally = replay(tmp_path)
    assert (tally.different, tally.unknown, tally.same) == ([], 0, 8)
    # By another policy they are decided one by one, each beside what was given to those before it.
    tally = replay(tmp_path, names=parse_policies(["best-fit"]))
    assert (tally.unknown, tally.same + len(tally.different)) == (0, 8)


@pytest.mark.parametrize("seed", seeds(40 * FACTOR))
async def test_every_grant_is_that_of_a_decision_of_its_own(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Claims and pods of a few templates come and go, nodes and slices change, writes are slow and fail.

    The stage compares each grant when its devices count as held.
    """
    random = Random(seed)

    def happens(_: ObjectKey) -> Exception | float:
        if random.random() < 0.1:
            return random.choice([Conflict("409"), Retry("503"), Rejected("422")])
        return random.random()

    monkeypatch.setattr(claim_handler, "FEWEST", random.choice((2, 5)))
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

    async with stage.at_work(random.randint(1, 12)):
        for _ in range(40):
            random.choice([burst, burst, burst, gone, gone, supply])()
            await asyncio.sleep(random.choice((0.0, 0.3, 3.0)))
        await asyncio.sleep(600)
    assert stage.reconciler.failures == 0


HOST, ZONE = "kubernetes.io/hostname", "zone"
LIKE_A = {"matchLabels": {"app": "a"}}
APART = {"topologyKey": HOST, "labelSelector": LIKE_A}
SPREAD = {
    "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": LIKE_A,
}  # fmt: skip
PREFERS: Object = {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
    {"weight": 1, "podAffinityTerm": APART}]}}}  # fmt: skip
PINNED: Object = {"schedulingGates": [], "affinity": {"nodeAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}}  # fmt: skip
"""Counts on its node before it has devices"""
TWISTS: tuple[Object, ...] = (
    {"nodeSelector": {ZONE: "z1"}},
    {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    {"priority": 7},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}},
    {"topologySpreadConstraints": [SPREAD]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]},
    PREFERS,
    PINNED,
    {"nodeName": "n1"},
    {"schedulingGates": []},
    {"containers": [{"name": "main", "ports": [{"hostPort": 80, "containerPort": 80}]}]},
    {"containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]},
)  # fmt: skip
"""What a pod may have that its template has not"""


class Kept(ClaimHandler):
    """Keeps what it assumes."""

    granted: Granted | None = None

    def assume(self, asked: Decide, granted: Granted) -> None:
        super().assume(asked, granted)
        self.granted = granted


class Side:
    """All that decides, over objects that it shares with its twin."""

    def __init__(self) -> None:
        self.intake: Intake = intake(ours=OURS)
        self.handler = handler_of_claims(Kept, self.intake, NoWriter())

    def decide(self, units: Sequence[Unit]) -> list[Granted | None]:
        """The answers for the first of some units, of which the devices are counted as held."""
        needs = self.handler.next(units[0])
        if not isinstance(needs, Ask):
            return [None]
        found: list[Granted | None] = []
        for answer in needs.decide(iter(units[1:])):
            self.handler.granted = None
            if isinstance(answer, Given):
                answer.assume()
            found.append(self.handler.granted)
        return found


def machines(random: Random) -> list[Object]:
    made = []
    for at, name in enumerate(NODES):
        machine = node(name, **{HOST: name, ZONE: f"z{at % 2}"})
        machine["status"] = {"allocatable": {"cpu": random.choice("248"), "pods": "20"}}
        made += [machine, devices(name, *[f"d{n}" for n in range(random.randint(1, 6))])]
    return made


def burst(random: Random) -> list[Object]:
    """Claims, and pods of one template of which some differ."""
    made, twist = [], random.random() * 0.3
    template: Object = random.choice([{}, {}, {}, PREFERS, PREFERS, PINNED, {"schedulingGates": []}, *TWISTS])
    for n in range(12):
        shared = n and random.random() < twist / 3
        made.append(claim(f"c{n}", managed=random.random() < 0.7))
        spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}], **template}
        if random.random() < twist:
            spec |= random.choice(TWISTS)
        one = pod(f"p{n}", f"c{n - 1 if shared else n}", **spec)
        labels = {"app": random.choice("aab"), **({"number": str(n)} if random.random() < 0.5 else {})}
        one["metadata"]["labels"] = labels
        if random.random() < twist / 3:
            one["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if random.random() < twist / 3:
            one["status"] = {"nominatedNodeName": random.choice(NODES)}
        made.append(one)
    if random.random() < 0.5:
        other = pod("other", gates=(), nodeName="n0", **random.choice(TWISTS[3:5]))
        other["metadata"]["labels"] = {"app": random.choice("ab")}
        made.append(other)
    if random.random() < 0.5:  # its node is decided with the claim, too
        made.append(pod("beside", f"c{random.randrange(12)}", gates=()))
    return made


@pytest.mark.parametrize("seed", seeds(120 * FACTOR))
async def test_a_batch_gets_what_each_would_get_in_its_turn(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Beside a twin that decides one pod after the other."""
    monkeypatch.setattr(claim_handler, "FEWEST", 2)
    random = Random(seed)
    together, alone = Side(), Side()
    objects = [device_class(), *machines(random), *burst(random)]
    for side in (together, alone):
        for raw in objects:
            raw["metadata"].setdefault("resourceVersion", "1")
            put(side.intake, raw)
        side.decide([pod_unit("p0")])  # from now on the selectors have run
        await asyncio.sleep(0.1)
    units = [pod_unit(f"p{n}") for n in range(12)]
    held: list[Plan] = []
    while units:
        for found in together.decide(units):
            (own,) = alone.decide([units.pop(0)])
            assert (found and (found.node, found.plans)) == (own and (own.node, own.plans))
            held += found.plans if found is not None else ()
    for plan in random.sample(held, len(held)):
        end(together, alone, plan, random)
        free = [side.intake.nodes.room.free(frozenset(), but=()).tolist() for side in (together, alone)]
        assert free[0] == free[1]
    together.handler.close()
    alone.handler.close()


def end(together: Side, alone: Side, plan: Plan, random: Random) -> None:
    """The same happens to the pod of a plan on both sides: it is taken back, deleted, bound, or has ended."""
    name = f"p{plan.claim.name[1:]}"
    happens = random.choice(["taken back", "deleted", "bound", "ended"])
    for side in (together, alone):
        known = side.intake.store.pods.get(key(name))
        if happens == "taken back" or known is None:
            side.intake.forget(plan)
            continue
        if happens == "deleted":
            remove(side.intake, "Pod", name)
            continue
        side.intake.observe_pod(changed(known, plan, bound=happens == "bound"))


def changed(known: Pod, plan: Plan, *, bound: bool) -> Pod:
    metadata = known.metadata.model_copy(update={"resource_version": "9"})
    spec, status = known.spec, known.status
    if bound:
        spec = spec.model_copy(update={"node_name": plan.node, "scheduling_gates": ()})
    else:
        status = status.model_copy(update={"phase": "Succeeded"})
    return known.model_copy(update={"metadata": metadata, "spec": spec, "status": status})


async def test_what_would_be_refused_for_the_same_reason_is_not_decided_again():
    """The state is that of the last refusal: no decision is named, and the unit backs off."""
    stage = stage_of(machine("n0", gpus=1))
    stage.news(claim("c0"), claim("c1"))
    async with stage.at_work(1):
        await asyncio.sleep(5000)
    waits = [one for one in stage.told if isinstance(one, Waits)]
    assert len(waits) == 1
    assert stage.reconciler.reconciles > 4
    assert len(stage.answered) == 2
