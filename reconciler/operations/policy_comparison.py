"""Samples decisions and repeats them with every placement policy, in a thread. Nothing waits for it."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial

import numpy as np
import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.aio.tasks import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.budget import Budget, Unfinished, WhileWanted
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.names import FIRST_FIT, POLICIES
from reconciler.allocation.policies.policy import PodRoom
from reconciler.allocation.policies.selection import OTHERS, Policies
from reconciler.api.objects.claims import ALL, ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Refusal
from reconciler.control.demand import PoliciesInUse
from reconciler.control.handler import Decide
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import Reading, single
from reconciler.operations.page.sources import Fact, PlacementView, PolicyRow
from reconciler.operations.telemetry import Signals
from reconciler.state.devices.snapshot import NodeSubset, Snapshot
from reconciler.state.store import Store
from reconciler.state.trial import Fork, Forked

STEPS = 2_000
"""Step limit of one decision on one node"""


class Choice(StrEnum):
    """How the choice of a policy relates to the decision that was made."""

    SAME = "same"
    OTHER_DEVICES = "other devices"
    OTHER_NODE = "other node"


class Sample(Struct, frozen=True):
    """A decision, and the state from which it was made."""

    claims: tuple[ResourceClaim, ...]
    nodes: NodeSubset | None
    room: PodRoom | None
    granted: Granted
    fork: Fork


class Alternative(Struct, frozen=True):
    """What a policy would have done."""

    choice: Choice
    lost: float
    """Places: so many fewer claims of the demand fit afterwards, each shape alone, as their weighted mean"""


def compare(sample: Sample, policies: Policies, budget: Budget) -> Mapping[str, Alternative]:
    """Policy -> what it would have done with the same demand. A policy that finds nothing is left out.

    `policies` gives the demand and the seed. For the calling thread: nothing of the fork is shared. Raises
    Unfinished as `budget` does.
    """
    store = sample.fork.store()
    snapshot, demand = store.snapshot(), policies.demand
    before = places(demand, snapshot)
    costs: dict[object, float] = {}
    found: dict[str, Alternative] = {}
    for name in POLICIES:
        one = replace(policies, names=((OTHERS, name),))
        granted = decide(
            sample.claims,
            snapshot,
            nodes=sample.nodes,
            steps=STEPS,
            budget=budget,
            policy=one.of(sample.claims, snapshot),
            pod=sample.room,
        )
        if not isinstance(granted, Granted):
            continue
        chosen = _devices(granted)
        if chosen not in costs:
            costs[chosen] = before - _places_after(granted, demand, store)
        found[name] = Alternative(_choice(granted, sample.granted), costs[chosen])
    return found


def places(demand: Demand, snapshot: Snapshot) -> float:
    """How many claims fit, each shape alone, as the mean over the demand.

    Devices are counted: constraints, and what excludes devices from each other, may allow fewer.
    """
    total = sum(shape.weight for shape in demand.shapes)
    weighted = sum(shape.weight * _places_of(shape, snapshot) for shape in demand.shapes)
    return weighted / total if total else 0.0


def _places_of(shape: Shape, snapshot: Snapshot) -> int:
    """Claims of one shape that fit: on each node as many as its scarcest request allows by any option."""
    slots = [
        [(available(option, snapshot), max(option.source.wanted, 1)) for option in slot.options]
        for slot in shape.slots(snapshot)
    ]
    if not slots:
        return 0
    if all(one.local for slot in slots for one, _ in slot):
        of_slots = [np.max([one.per_node // wanted for one, wanted in slot], axis=0) for slot in slots]
        return int(np.min(of_slots, axis=0).sum())
    return min(max(int(one.mask.sum()) // wanted for one, wanted in slot) for slot in slots)


def _places_after(granted: Granted, demand: Demand, store: Store) -> float:
    for plan in granted.plans:
        store.assume(plan)
    try:
        return places(demand, store.snapshot())
    finally:
        for plan in granted.plans:
            store.forget(plan)


def _choice(one: Granted, made: Granted) -> Choice:
    if _devices(one) == _devices(made):
        return Choice.SAME
    return Choice.OTHER_DEVICES if one.node == made.node else Choice.OTHER_NODE


def _devices(granted: Granted) -> tuple[object, ...]:
    return tuple(
        (plan.claim, result.request, result.id)
        for plan in granted.plans
        for result in plan.allocation.devices.results
    )


MOST_REQUESTS = 3
"""Requests of one shape that are named"""


def shares(demand: Demand) -> list[tuple[str, float]]:
    """Each shape in words, with its part of all claims, the most frequent first."""
    total = sum(shape.weight for shape in demand.shapes)
    ordered = sorted(demand.shapes, key=lambda shape: -shape.weight)
    return [(in_words(shape), shape.weight / total) for shape in ordered]


def in_words(shape: Shape) -> str:
    """Such as `2 of class gpu, 1 of class nic; CPU 500m`."""
    requests = () if shape.spec is None else shape.spec.devices.requests
    parts = []
    for request in requests[:MOST_REQUESTS]:
        one = request.exactly or request.first_available[0]
        count = "all" if one.allocation_mode == ALL else str(max(one.count or 1, 1))
        more = "" if request.exactly is not None else ", or an alternative"
        selected = " with selectors" if one.selectors else ""
        parts.append(f"{count} of class {one.device_class_name}{selected}{more}")
    if len(requests) > MOST_REQUESTS:
        parts.append(f"{len(requests) - MOST_REQUESTS} more requests")
    devices = ", ".join(parts) or "no devices"
    return f"{devices}; CPU {shape.cores}m" if shape.cores else devices


log = structlog.get_logger()

SHARE = 0.02
"""Maximum share of the time that comparisons take"""
CHECK_EVERY = 64
"""Nodes or devices between two checks for the end of the process"""
SHOWN = 12
"""Shapes of the demand on the page"""


class PolicyComparison(Struct, eq=False):
    """The standing comparison of all policies with the decisions that are made.

    `seconds` are between two samples at least.
    """

    _store: Store
    _policies: PoliciesInUse
    seconds: float
    clock: Callable[[], float]
    _due: float = 0.0
    _sample: Sample | None = None
    _offered: asyncio.Event = field(default_factory=asyncio.Event)
    _worker: WorkerThread = field(default_factory=lambda: WorkerThread("policies"))
    samples: int = 0
    """Decisions that were compared"""
    choices: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(policy, choice) -> decisions"""
    lost: dict[str, float] = field(default_factory=lambda: dict.fromkeys(POLICIES, 0.0))
    """Policy -> places that its choices cost the demand"""

    def offer(self, asked: Decide, answer: Granted | Refusal) -> None:
        """Take a decision from the present state as a sample if one is due, before it is assumed."""
        if self.clock() < self._due or self._sample is not None:
            return
        if not isinstance(answer, Granted) or asked.together is not None:
            return
        fork = Forked.fork_of(self._store)
        self._sample = Sample(asked.claims, asked.nodes, asked.room, answer, fork)
        self._offered.set()

    async def run(self) -> None:
        """Compare samples until cancelled."""
        try:
            while True:
                await self.compare_one()
        finally:
            self._worker.close()

    async def compare_one(self) -> None:
        """Wait for a sample, and compare it."""
        await self._offered.wait()
        self._offered.clear()
        assert self._sample is not None
        began = self.clock()
        try:
            self._count(await self._worker.run(partial(_compare, self._sample, self._policies())))
        except (Unfinished, Closed):
            pass
        except Exception:
            # A missing comparison must not stop the reconciler.
            log.exception("policy comparison failed")
        finally:
            self._due = self.clock() + max(self.seconds, (self.clock() - began) / SHARE)
            self._sample = None

    def signals(self) -> Signals:
        """Metrics, and a line on the status page."""
        return Signals(
            readings=[
                Reading(of.POLICY_CHOICES, lambda: [(at, float(n)) for at, n in self.choices.items()]),
                Reading(of.POLICY_PLACES_LOST, lambda: [((name,), lost) for name, lost in self.lost.items()]),
                single(of.DEMAND_SHAPES, lambda: len(self._policies().demand.shapes)),
            ],
            facts=[self._fact],
        )

    def view(self) -> PlacementView:
        """For the status page."""
        policies = self._policies()
        rows = tuple(
            PolicyRow(
                name,
                name in {used for _, used in policies.names},
                self.choices[name, Choice.SAME],
                self.choices[name, Choice.OTHER_DEVICES],
                self.choices[name, Choice.OTHER_NODE],
                self.lost[name] / max(self.samples, 1),
            )
            for name in POLICIES
        )
        demand = shares(policies.demand)
        return PlacementView(self.samples, rows, tuple(demand[:SHOWN]), max(len(demand) - SHOWN, 0))

    def to_json(self) -> str:
        """For people who read the ConfigMap with the demand; see `read_comparison`."""
        view = self.view()
        rows = [[*row] for row in view.policies]
        return json.dumps({"samples": view.samples, "policies": rows}) if view.samples else ""

    def _fact(self) -> Fact:
        policies = self._policies()
        names = ", ".join(name if at == "*" else f"{at}={name}" for at, name in policies.names)
        shapes = len(policies.demand.shapes)
        demand = f"demand of {shapes} {'shape' if shapes == 1 else 'shapes'}"
        return Fact("Placement", f"{names or FIRST_FIT}; {demand}; {self.samples} compared")

    def _count(self, found: Mapping[str, Alternative]) -> None:
        self.samples += 1
        for name, one in found.items():
            self.choices[name, one.choice] += 1
            self.lost[name] += max(one.lost, 0.0)


def read_comparison(text: str) -> tuple[int, tuple[PolicyRow, ...]]:
    """The samples and the rows of `PolicyComparison.to_json`. Raises ValueError for other texts."""
    try:
        raw = json.loads(text)
        return int(raw["samples"]), tuple(
            PolicyRow(str(name), bool(used), int(same), int(devices), int(node), float(lost))
            for name, used, same, devices, node, lost in raw["policies"]
        )
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not a comparison: {text[:80]}") from exc


def _compare(sample: Sample, policies: Policies, wanted: ShouldContinue) -> Mapping[str, Alternative]:
    return compare(sample, policies, WhileWanted(wanted, CHECK_EVERY))
