"""A store whose claims a policy places, and that forgets them when they end. Counts CPU as a kubelet does."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from kernels.types import Amounts
from perf.fleets.objects import Json
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.selector_masks import warm_up
from reconciler.allocation.policies.policy import PodRoom, Policy
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.model import value
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.devices.snapshot import NodeSubset
from reconciler.state.trial import store_of


@value(eq=False)
class Kind:
    """Claims that are alike, and the CPU of their pods."""

    name: str
    claim: ResourceClaim
    worth: float
    """What one counts for while it runs, such as compute slices"""
    cores: int = 0
    """Thousandths of a CPU; 0 for claims without a pod"""


@value(eq=False)
class Running:
    """A claim that was placed."""

    kind: Kind
    plan: Plan
    place: int
    """The node, as a position in the order of names"""


@dataclass(slots=True)
class Times:
    """How long decisions took."""

    clock: list[float] = field(default_factory=list)
    """Seconds of each"""
    processor: list[float] = field(default_factory=list)
    """Seconds of processor time: what is left of them on a machine that others use too"""

    def to_json(self) -> dict[str, Any]:
        """Percentiles in milliseconds."""
        return {
            f"p{percent}_{name}": round(float(np.percentile(seconds, percent)) * 1000, 4)
            for name, seconds in (("ms", self.clock), ("processor_ms", self.processor))
            if seconds
            for percent in (50, 99)
        }


class Cluster:
    """Decides claims one after the other."""

    def __init__(
        self, objects: Iterable[Json], policy: Policy | None, cores: Mapping[str, int] | None = None
    ) -> None:
        """`cores` are the thousandths of a CPU of each node; without it CPU is never short."""
        warm_up()
        self._policy = policy
        self._store = store_of(map(read, objects), Semantics())
        self._order = self._store.snapshot().topology.order
        self._place_of = {name: place for place, name in enumerate(self._order)}
        self._cores: Amounts | None = None
        if cores is not None:
            self._cores = np.array([cores[name] for name in self._order], dtype=np.int64)
        self.times = Times()

    def place(self, kind: Kind, name: str) -> Running | None:
        """Decide one claim; None if nothing fits."""
        named = kind.claim.metadata.model_copy(update={"name": name, "uid": name})
        one = kind.claim.model_copy(update={"metadata": named})
        clock, processor = perf_counter(), thread_time()
        nodes = room = None
        if self._cores is not None:
            nodes, room = NodeSubset(self._order, self._cores >= kind.cores), PodRoom(kind.cores, self._cores)
        outcome = allocate([one], self._store.snapshot(), nodes=nodes, policy=self._policy, pod=room)
        if isinstance(outcome, Granted):
            self._store.assume(outcome.plans[0])
        self.times.processor.append(thread_time() - processor)
        self.times.clock.append(perf_counter() - clock)
        if not isinstance(outcome, Granted):
            return None
        place = self._place_of[outcome.node]
        if self._cores is not None:
            self._cores[place] -= kind.cores
        return Running(kind, outcome.plans[0], place)

    def end(self, running: Running) -> None:
        """Give back what a claim holds."""
        self._store.forget(running.plan)
        if self._cores is not None:
            self._cores[running.place] += running.kind.cores
