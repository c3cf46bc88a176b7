"""A loss system of MIG partitions through the engine: arrivals at random, some time in use, refused if full.

104 A100 in nodes of eight. Durations are exponential with mean 1; the arrival rate follows from the load.
The first fifth of the arrivals is not counted.
"""

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from perf.deciding import read_claim
from perf.fleets import mig as fleet
from perf.fleets.objects import Json, claim, device_class, node, node_names, pool
from perf.workload import Progress
from reconciler.allocation.dra import allocate
from reconciler.allocation.dra.selector_masks import warm_up
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.named import FIRST_FIT, policy_named
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Plan
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.loading import store_of
from reconciler.state.store import Store

NODES = 13
GPUS = NODES * fleet.GPUS_A_NODE
SLICES = 7
"""Compute slices of a GPU"""
SLOTS = 8
RANDOM_NODE = "random-node"
"""How kube-scheduler behaves: it scores nodes without looking at devices, then takes the first that fits"""

COMPARED = (RANDOM_NODE, FIRST_FIT, "best-fit", "least-loss")


class Profile(NamedTuple):
    """What a partition takes, and where it may start."""

    slots: int
    slices: int
    starts: tuple[int, ...]

    @property
    def size(self) -> float:
        """The part of a GPU that it takes."""
        return max(self.slots / SLOTS, self.slices / SLICES)


PROFILES = {
    "7g.40gb": Profile(8, 7, (0,)),
    "4g.20gb": Profile(4, 4, (0,)),
    "3g.20gb": Profile(4, 3, (0, 4)),
    "2g.10gb": Profile(2, 2, (0, 2, 4)),
    "1g.10gb": Profile(2, 1, (0, 2, 4, 6)),
    "1g.5gb": Profile(1, 1, (0, 1, 2, 3, 4, 5, 6)),
}
MIXES: Mapping[str, tuple[int, ...]] = {
    "uniform": (1, 1, 1, 1, 1, 1),
    "small": (5, 10, 10, 20, 25, 30),
    "big": (30, 25, 20, 10, 10, 5),
    "bimodal": (30, 15, 5, 5, 15, 30),
    "mixed": (10, 0, 20, 30, 0, 40),
}
"""How often each profile is asked for, in the order of `PROFILES`"""


class Load(NamedTuple):
    """What arrives."""

    mix: str
    load: float
    arrivals: int
    seed: int


@dataclass(slots=True)
class Played:
    """What one run gives."""

    in_use: float = 0.0
    """Compute slices x time of what was accepted"""
    time: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of each decision"""

    def to_json(self) -> dict[str, Any]:
        """The figures of the run."""
        return {
            "slices_in_use": self.in_use / (SLICES * GPUS * self.time),
            "accepted": self.accepted.total() / self.asked.total(),
            "by_profile": {name: self.accepted[name] / asked for name, asked in self.asked.items() if asked},
            "p50_us": float(np.percentile(self.seconds, 50)) * 1e6,
            "p99_us": float(np.percentile(self.seconds, 99)) * 1e6,
        }


def objects() -> Iterator[Json]:
    """The fleet: every place of every profile is a device that draws memory slots and compute slices."""
    yield device_class(fleet.CLASS, f"device.driver == '{fleet.DRIVER}'")
    for name in node_names(NODES):
        yield node(name)
        devices, sets = [], []
        for gpu in range(fleet.GPUS_A_NODE):
            counters = {"slices": str(SLICES), **{f"slot-{slot}": "1" for slot in range(SLOTS)}}
            sets.append({"name": f"gpu-{gpu}", "counters": _values(counters)})
            for profile, shape in PROFILES.items():
                for start in shape.starts:
                    drawn = {f"slot-{slot}": "1" for slot in range(start, start + shape.slots)}
                    drawn["slices"] = str(shape.slices)
                    devices.append(
                        {
                            "name": f"gpu-{gpu}-{profile.replace('.', '-')}-{start}",
                            "attributes": {"profile": {"string": profile}, "start": {"int": start}},
                            "consumesCounters": [{"counterSet": f"gpu-{gpu}", "counters": _values(drawn)}],
                        }
                    )
        yield from pool(fleet.DRIVER, name, devices, reach={"nodeName": name}, counter_sets=sets)


def demand_of(mix: str) -> Demand:
    """The profiles that a mix asks for."""
    return Demand(
        tuple(
            Shape(read_claim(claim("shape", [fleet.partition("r", name)])).spec, 0, share)
            for name, share in zip(PROFILES, MIXES[mix], strict=True)
            if share
        )
    )


def play(load: Load, policy: str, progress: Progress) -> Played:
    """Play one run. `policy` is a policy's name, or `RANDOM_NODE`."""
    warm_up()
    return _System(load, policy).run(progress)


class _System:
    def __init__(self, load: Load, policy: str) -> None:
        self._load = load
        self._random_node = policy == RANDOM_NODE
        self._policy = None if self._random_node else policy_named(policy, demand_of(load.mix))
        self._store: Store = store_of(map(read, objects()), Semantics())
        self._random = np.random.default_rng(load.seed)
        self._nodes = list(node_names(NODES))
        self._leaving: list[tuple[float, int, Plan]] = []
        self._claims = {name: read_claim(claim("c", [fleet.partition("r", name)])) for name in PROFILES}

    def run(self, progress: Progress) -> Played:
        load, names = self._load, list(PROFILES)
        weights = np.array(MIXES[load.mix], dtype=np.float64)
        weights /= weights.sum()
        mean = float(sum(w * shape.size for w, shape in zip(weights, PROFILES.values(), strict=True)))
        gaps = self._random.exponential(mean / (load.load * GPUS), load.arrivals)
        profiles = self._random.choice(len(names), load.arrivals, p=weights).tolist()
        lasting = self._random.exponential(1.0, load.arrivals).tolist()
        times = np.cumsum(gaps)
        first = load.arrivals // 5
        done = Played(time=float(times[-1] - times[first]))
        for number, now in enumerate(times.tolist()):
            while self._leaving and self._leaving[0][0] <= now:
                self._store.forget(heapq.heappop(self._leaving)[2])
            name = names[profiles[number]]
            plan = self._decide(name, number, done)
            if plan is not None:
                heapq.heappush(self._leaving, (now + lasting[number], number, plan))
            if number >= first:
                done.asked[name] += 1
                done.accepted[name] += plan is not None
                done.in_use += PROFILES[name].slices * lasting[number] * (plan is not None)
            progress(number + 1, load.arrivals)
        return done

    def _decide(self, profile: str, number: int, done: Played) -> Plan | None:
        wanted = self._named(profile, number)
        began = perf_counter()
        if self._random_node:
            outcome = None
            for at in self._random.permutation(NODES).tolist():
                outcome = allocate([wanted], self._store.snapshot(), nodes=[self._nodes[at]])
                if isinstance(outcome, Granted):
                    break
        else:
            outcome = allocate([wanted], self._store.snapshot(), policy=self._policy)
        if isinstance(outcome, Granted):
            self._store.assume(outcome.plans[0])
        done.seconds.append(perf_counter() - began)
        return outcome.plans[0] if isinstance(outcome, Granted) else None

    def _named(self, profile: str, number: int) -> ResourceClaim:
        one = self._claims[profile]
        named = one.metadata.model_copy(update={"name": f"c{number}", "uid": f"c{number}"})
        return one.model_copy(update={"metadata": named})


def _values(amounts: Mapping[str, str]) -> Json:
    return {name: {"value": value} for name, value in amounts.items()}
