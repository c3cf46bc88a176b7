"""Samples decisions and repeats them with every placement policy, in a thread. Nothing waits for it."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from reconciler.aio.worker_thread import Closed, ShouldContinue, WorkerThread
from reconciler.allocation.dra.budget import Unfinished, WhileWanted
from reconciler.allocation.policies.names import FIRST_FIT, POLICIES
from reconciler.allocation.policies.selection import Policies
from reconciler.analysis.policy_comparison import Alternative, Choice, Sample, compare, shares
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Refusal
from reconciler.control.demand import PoliciesInUse
from reconciler.control.steps import Decide
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import Reading, single
from reconciler.operations.page.sources import Fact, PlacementView, PolicyRow
from reconciler.operations.telemetry import Signals
from reconciler.state.store import Store
from reconciler.state.trial import Forked

log = structlog.get_logger()

SHARE = 0.02
"""Maximum share of the time that comparisons take"""
CHECK_EVERY = 64
"""Nodes or devices between two checks for the end of the process"""
SHOWN = 12
"""Shapes of the demand on the page"""


class PolicyComparison:
    """The standing comparison of all policies with the decisions that are made."""

    def __init__(
        self, store: Store, policies: PoliciesInUse, *, seconds: float, clock: Callable[[], float]
    ) -> None:
        """`seconds` are between two samples at least."""
        self._store = store
        self._policies = policies
        self._seconds = seconds
        self._clock = clock
        self._due = 0.0
        self._sample: Sample | None = None
        self._offered = asyncio.Event()
        self._worker = WorkerThread("policies")
        self.samples = 0
        """Decisions that were compared"""
        self.choices: Counter[tuple[str, str]] = Counter()
        """(policy, choice) -> decisions"""
        self.lost: dict[str, float] = dict.fromkeys(POLICIES, 0.0)
        """Policy -> places that its choices cost the demand"""

    def offer(self, asked: Decide, answer: Granted | Refusal) -> None:
        """Take a decision from the present state as a sample if one is due, before it is assumed."""
        if self._clock() < self._due or self._sample is not None:
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
        began = self._clock()
        try:
            self._count(await self._worker.run(partial(_compare, self._sample, self._policies())))
        except (Unfinished, Closed):
            pass
        except Exception:
            # A missing comparison must not stop the reconciler.
            log.exception("policy comparison failed")
        finally:
            self._due = self._clock() + max(self._seconds, (self._clock() - began) / SHARE)
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
