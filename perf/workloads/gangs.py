"""Gangs: pods that run together, in racks and blocks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, thread_time

import numpy as np
from numpy.random import default_rng

from perf.deciding import Decider, Wrong, audit
from perf.fleets import racks
from perf.fleets.objects import Json
from perf.workload import Figure, Outcome, Progress, Size, Workload
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import (
    AskedGroup,
    GangGranted,
    GangQuestion,
    GangUnsatisfied,
    Member,
)
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.plan import Granted
from reconciler.api.versions.reading import read
from reconciler.state.nodes.table import Nodes
from reconciler.state.trial import Trial

SEED = 16
STEPS = 10_000
FULL = 0.7
"""Share of the GPUs that are held before small gangs come"""
Make = Callable[[str, int], Json]


@dataclass(slots=True)
class Cluster:
    """A store, its nodes, and the time that each gang took."""

    decider: Decider
    nodes: Nodes
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    number: int = 0

    @classmethod
    def of(cls, size: Size) -> "Cluster":
        """A cluster in which all devices are free."""
        machines = racks.nodes(size["nodes"], size["racks"], size["blocks"])
        nodes = Nodes()
        for raw in machines:
            nodes.note(Changed("Node", Node.model_validate(raw)))
        return cls(Decider.over(racks.fleet(machines)), nodes)

    def fill(self, share: float) -> None:
        """Hold a share of the GPUs: whole nodes and parts of nodes, everywhere."""
        drawn = default_rng(SEED)
        for name in sorted(node.key.name for node in self.nodes.known):
            held = int(drawn.binomial(racks.GPUS_A_NODE // 4, share)) * 4
            if held:
                self._hold(name, held)

    def leave_groups(self, groups: int, pods: int) -> None:
        """Hold a node in each rack of so many whole nodes, but for one group too few in each block."""
        of_rack: dict[tuple[str, str], list[str]] = {}
        for node in self.nodes.known:
            labels = node.metadata.labels
            of_rack.setdefault((labels[racks.BLOCK], labels[racks.RACK]), []).append(node.key.name)
        left: dict[str, int] = {}
        for (block, _), names in sorted(of_rack.items()):
            left[block] = left.get(block, 0) + (len(names) >= pods)
            if len(names) >= pods and left[block] >= groups:
                for name in sorted(names)[: len(names) - pods + 1]:
                    self._hold(name, 1)

    def leave(self, pods: int, gpus: int) -> None:
        """Hold whole nodes, until so few are left in each block that one pod too few fits."""
        left: dict[str, int] = {}
        for node in sorted(self.nodes.known, key=lambda one: one.key.name):
            block = node.metadata.labels[racks.BLOCK]
            left[block] = left.get(block, 0) + racks.GPUS_A_NODE // gpus
            if left[block] >= pods:
                self._hold(node.key.name, 1)

    def _hold(self, node: str, gpus: int) -> None:
        (claim,) = [read(racks.gpu_claim(f"held-{node}", gpus))]
        assert isinstance(claim, ResourceClaim)
        outcome = allocate([claim], self.decider.store.snapshot(), nodes=[node])
        assert isinstance(outcome, Granted)
        for plan in outcome.plans:
            self.decider.store.assume(plan)
        self.decider.outcomes.append(outcome)

    def question(self, make: Make, pods: int, gpus: int, tiers: Sequence[Tier]) -> GangQuestion:
        """A new gang."""
        self.number += 1
        members = tuple(_member(make, f"gang-{self.number}-{n}", gpus) for n in range(pods))
        key = GangKey("default", GangSource.ANNOTATION, f"gang-{self.number}")
        return GangQuestion(key, members, pods, tuple(tiers))

    def tree(self, groups: int, pods: int, gpus: int) -> GangQuestion:
        """A new tree: a block for all of it, a rack for each of its groups."""
        asked = self.question(racks.gpu_claim, groups * pods, gpus, ())
        rack, block = Tier(racks.RACK, required=True), Tier(racks.BLOCK, required=True)
        inside = tuple(
            AskedGroup(f"group-{n}", pods, (rack,), members=tuple(range(n * pods, (n + 1) * pods)))
            for n in range(groups)
        )
        return replace(asked, tree=AskedGroup("tree", groups, (block,), groups=inside))

    def decide(self, question: GangQuestion, *, keep: bool) -> GangGranted | GangUnsatisfied:
        """Decide a gang as the controller does; from the question to the seats that are held is timed."""
        store = self.decider.store
        busy, began = thread_time(), perf_counter()
        with Trial(store, self.nodes, supposed=False) as trial:
            outcome = decide_gang(question, trial, steps=STEPS, budget=UNLIMITED)
            store.snapshot()
            self.seconds.append(perf_counter() - began)
            self.processor.append(thread_time() - busy)
            if keep:
                trial.keep()
        store.snapshot()
        return outcome


def _member(make: Make, name: str, gpus: int) -> Member:
    claim = read(make(name, gpus))
    pod = read(racks.pod(name))
    assert isinstance(claim, ResourceClaim)
    assert isinstance(pod, Pod)
    return Member(pod, (claim,))


def _figures(cluster: Cluster) -> Iterator[Figure]:
    for name, seconds in (("gang", cluster.seconds), ("gang, processor", cluster.processor)):
        p50, p99 = (np.percentile(seconds, [50, 99]) * 1e3).tolist()
        yield Figure(f"{name} p50", p50, "ms")
        yield Figure(f"{name} p99", p99, "ms")


def _seated(outcome: GangGranted | GangUnsatisfied, question: GangQuestion) -> GangGranted:
    if isinstance(outcome, GangUnsatisfied) or outcome.left_out:
        raise Wrong(f"gang {question.gang} must fit: {outcome}")
    return outcome


def _repeated(cluster: Cluster, size: Size, tiers: Sequence[Tier], progress: Progress) -> Outcome:
    """One gang after another on the same state: each is undone."""
    for number in range(size["gangs"]):
        question = cluster.question(racks.paired_claim, size["pods"], size["gpus"], tiers)
        _seated(cluster.decide(question, keep=False), question)
        progress(number + 1, size["gangs"])
    return Outcome(list(_figures(cluster)))


def large(size: Size, progress: Progress) -> Outcome:
    """A large gang in an empty fleet: block required, rack preferred."""
    tiers = Tier(racks.RACK, required=False), Tier(racks.BLOCK, required=True)
    return _repeated(Cluster.of(size), size, tiers, progress)


def full(size: Size, progress: Progress) -> Outcome:
    """A small gang in a full fleet: rack required."""
    cluster = Cluster.of(size)
    cluster.fill(FULL)
    return _repeated(cluster, size, (Tier(racks.RACK, required=True),), progress)


def impossible(size: Size, progress: Progress) -> Outcome:
    """A large gang for which each block has room for one pod too few."""
    cluster = Cluster.of(size)
    cluster.leave(size["pods"], size["gpus"])
    tiers = Tier(racks.RACK, required=False), Tier(racks.BLOCK, required=True)
    for number in range(size["gangs"]):
        question = cluster.question(racks.paired_claim, size["pods"], size["gpus"], tiers)
        outcome = cluster.decide(question, keep=False)
        if isinstance(outcome, GangGranted) or outcome.fits != size["pods"] - 1:
            raise Wrong(f"all but one must fit: {outcome}")
        progress(number + 1, size["gangs"])
    return Outcome(list(_figures(cluster)))


def sequence(size: Size, progress: Progress) -> Outcome:
    """Gangs of one pod up to a number of pods, one after another; all stay."""
    cluster, drawn, seats = Cluster.of(size), default_rng(SEED), 0
    tiers = Tier(racks.RACK, required=False), Tier(racks.BLOCK, required=False)
    for number in range(size["gangs"]):
        pods = int(drawn.integers(1, size["pods"] + 1))
        question = cluster.question(racks.gpu_claim, pods, size["gpus"], tiers)
        outcome = cluster.decide(question, keep=True)
        if isinstance(outcome, GangGranted):
            seats += len(outcome.seats)
            cluster.decider.outcomes += [Granted(one.node, one.plans, 0) for one in outcome.seats]
        progress(number + 1, size["gangs"])
    audit(cluster.decider.store, cluster.decider.granted)
    rates = [
        Figure("pods/s", seats / sum(cluster.seconds), "/s", "more"),
        Figure("pods/s of processor time", seats / sum(cluster.processor), "/s", "more"),
        Figure("pods with a place", seats, "pods", ""),
    ]
    return Outcome([*rates, *_figures(cluster)])


GROUPS = 8
"""In a tree"""


def tree(size: Size, progress: Progress) -> Outcome:
    """A tree of groups in an empty fleet; without room for one of its groups, if so asked."""
    cluster, groups = Cluster.of(size), GROUPS
    if size["case"] == 5:
        cluster.leave_groups(groups, size["pods"])
    for number in range(size["gangs"]):
        question = cluster.tree(groups, size["pods"], size["gpus"])
        outcome = cluster.decide(question, keep=False)
        if size["case"] == 4:
            _seated(outcome, question)
        elif isinstance(outcome, GangGranted) or f"{groups - 1} of {groups} groups" not in outcome.message:
            raise Wrong(f"all groups but one must fit: {outcome}")
        progress(number + 1, size["gangs"])
    return Outcome(list(_figures(cluster)))


def gang(size: Size, progress: Progress) -> Outcome:
    """One of the cases."""
    return (large, full, impossible, sequence, tree, tree)[size["case"]](size, progress)


_FLEET = {"nodes": 1250, "racks": 160, "blocks": 8}
WORKLOADS = [
    Workload(
        "gang",
        "gangs of pods with GPUs, or GPUs and NICs in pairs on PCIe switches, in racks and blocks",
        gang,
        {
            "64 pods of 8 pairs": {**_FLEET, "case": 0, "pods": 64, "gpus": 8, "gangs": 40},
            "8 pods in a rack, 70 % full": {**_FLEET, "case": 1, "pods": 8, "gpus": 4, "gangs": 100},
            "impossible by one pod": {**_FLEET, "case": 2, "pods": 64, "gpus": 8, "gangs": 40},
            "a tree of 8 groups of 8 pods": {
                **_FLEET,
                "case": 4,
                "pods": 8,
                "gpus": 8,
                "gangs": 40,
            },
            "a tree impossible by one group": {
                **_FLEET,
                "case": 5,
                "pods": 8,
                "gpus": 8,
                "gangs": 40,
            },
            "1 to 16 pods": {**_FLEET, "case": 3, "pods": 16, "gpus": 1, "gangs": 1000},
        },
        tiny={"nodes": 16, "racks": 4, "blocks": 2, "case": 0, "pods": 4, "gpus": 8, "gangs": 2},
    ),
]
