"""Pods of one template that are decided and counted together, beside a twin in which each has its turn."""

from random import Random
from typing import Any

import pytest

from reconciler.api.objects.core import Pod
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.selectors import LabelSelector
from reconciler.control.copies import Copies
from reconciler.control.decider import Decider
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.planner import Decide, Planner
from reconciler.control.units import Unit
from reconciler.state.pods.terms import PodSet, Port, Scope
from tests.tools.examples import FACTOR
from tests.tools.small_fleet import Object, claim, device_class, devices, node, pod
from tests.tools.unit_pictures import intake, key, pod_unit, put, remove

OURS = Ownership(all_claims=True, alone=True)
NODES = ("n0", "n1", "n2")
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
SETS = [
    PodSet(((Scope(frozenset(["default"])), LabelSelector.model_validate(selector).parsed()),), terminating)
    for selector in ({}, LIKE_A)
    for terminating in (True, False)
]


class Side:
    """All that decides, over objects that it shares with its twin."""

    def __init__(self) -> None:
        self.intake: Intake = intake(ours=OURS)
        store = self.intake.store
        self.planner = Planner(store, self.intake.roster, self.intake.placement, OURS, self.intake.reclaimed)
        self.decider = Decider(OURS, steps=10_000)
        self.copies = Copies(store, self.planner, self.decider)

    def question(self, unit: Unit) -> Decide | None:
        found = self.planner.next(unit)
        return found if isinstance(found, Decide) else None

    def answer(self, question: Decide) -> Granted | None:
        found = self.decider.answer(question, self.intake.store.snapshot())
        return found if isinstance(found, Granted) else None


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


def picture(found: Intake, asked: str) -> dict[str, Any]:
    """What others see of the pods on nodes. Columns that nobody asked for are made when they are `asked`."""
    nodes = found.nodes
    seen: dict[str, Any] = {
        "serial": nodes.serial,
        "charges": {str(pod): nodes.room.charged(pod) for pod in found.store.pods},
        "free": nodes.room.free(frozenset(), but=()).tolist(),
        "unbound": [sorted(nodes.residents.unbound(gated=gated)) for gated in (True, False)],
        "ports": nodes.residents.using(Port("TCP", 80, ""), but=()).tolist(),
        "pods": {str(pod): (one and (one.pod, one.node)) for pod in found.store.pods
                 for one in [nodes.residents.get(pod)]},
        "assumed": sorted((plan.uid, plan.node) for plan in found.store.assumptions),
    }  # fmt: skip
    if "sets" in asked:
        seen["sets"] = [nodes.residents.belonging(one, but=()).tolist() for one in SETS]
    if "wishes" in asked:
        wishes = [nodes.residents.wishes(one, but=()) for one in found.store.pods.values()]
        seen["wishes"] = [{str(wish): column.tolist() for wish, column in one.items()} for one in wishes]
    return seen


def same(one: Side, other: Side, *, asked: str) -> None:
    assert picture(one.intake, asked) == picture(other.intake, asked)


@pytest.mark.parametrize("seed", range(60 * FACTOR))
async def test_copies_get_and_take_what_each_would_in_its_turn(seed: int):
    """Their claims, devices and room are those of a twin that decides one pod after the other."""
    random = Random(seed)
    together, alone = Side(), Side()
    objects = [device_class(), *machines(random), *burst(random)]
    for side in (together, alone):
        for raw in objects:
            raw["metadata"].setdefault("resourceVersion", "1")
            put(side.intake, raw)
    asked = random.choice(["", "sets", "wishes"])
    same(together, alone, asked=asked)
    units = [pod_unit(f"p{n}") for n in range(12)]
    held: list[Plan] = []
    while units:
        unit = units.pop(0)
        first, own = together.question(unit), alone.question(unit)
        assert first == own
        if first is None or own is None:
            continue
        granted = together.answer(first)
        assert granted == alone.answer(own)
        if granted is None:
            continue
        for plan in granted.plans:
            for side in (together, alone):
                side.intake.assume(plan)
            held.append(plan)
        found = together.copies.find(first, iter(units))
        for copy, question, copied in found:
            units.remove(copy)
            own = alone.question(copy)
            assert own is not None
            assert (question.claims, question.held, question.pod) == (own.claims, own.held, own.pod)
            assert own.together is None
            mine = alone.answer(own)
            assert mine is not None
            assert (copied.node, copied.plans) == (mine.node, mine.plans)
            alone.intake.assume(mine.plans[0])
        together.intake.assume_copies([(copied.plans[0], one.pod) for _, one, copied in found])
        held += [copied.plans[0] for _, _, copied in found]
        same(together, alone, asked=asked)
    for plan in random.sample(held, len(held)):
        end(together, alone, plan, random)
        same(together, alone, asked=asked)
    same(together, alone, asked="sets, wishes")


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


async def test_copies_are_found_at_all():
    """The test above would be empty without."""
    side = Side()
    random = Random(0)
    put(side.intake, device_class(), *machines(random))
    for n in range(4):
        put(side.intake, claim(f"c{n}"), pod(f"p{n}", f"c{n}"))
    first = side.question(pod_unit("p0"))
    assert first is not None
    granted = side.answer(first)
    assert granted is not None
    side.intake.assume(granted.plans[0])
    found = side.copies.find(first, iter([pod_unit(f"p{n}") for n in range(1, 4)]))
    assert [unit for unit, _, _ in found] == [pod_unit("p1"), pod_unit("p2"), pod_unit("p3")]


async def test_a_pod_that_counts_on_its_node_already_is_not_counted_again():
    side = Side()
    put(side.intake, device_class(), node("n1"), devices("n1", "d0", "d1", "d2", "d3"))
    for n in range(4):
        put(side.intake, claim(f"c{n}"), pod(f"p{n}", f"c{n}", **PINNED))
    first = side.question(pod_unit("p0"))
    assert first is not None
    granted = side.answer(first)
    assert granted is not None
    side.intake.assume(granted.plans[0])
    before = picture(side.intake, "sets")
    found = side.copies.find(first, iter([pod_unit(f"p{n}") for n in range(1, 4)]))
    assert len(found) == 3
    side.intake.assume_copies([(copied.plans[0], one.pod) for _, one, copied in found])
    assert picture(side.intake, "sets") == {
        **before,
        "assumed": sorted((f"uid of c{n}", "n1") for n in range(4)),
    }
