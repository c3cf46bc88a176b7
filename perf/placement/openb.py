"""Plays the trace openb through the engine: GPUs are shared devices, a claim asks for thousandths of some.

Arrivals only. A pod without GPUs has no claim; the policy still chooses its node.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, thread_time
from typing import NamedTuple

import numpy as np

from kernels.types import Amounts, Mask, Rows
from perf.deciding import read_claim
from perf.fleets.objects import Json, claim, device_class, exactly, node, pool
from perf.placement.cluster import Times
from perf.workload import Progress
from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.dra.selector_masks import warm_up
from reconciler.allocation.policies.demand import NO_DEMAND, Demand, Shape
from reconciler.allocation.policies.policy import PodRoom, Policy, PolicyQuestion
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot import NodeSubset, Snapshot
from reconciler.state.trial import store_of

NODES = "openb_node_list_gpu_node.csv"
PUBLISHED = Path("expected_results") / "analysis_allo_discrete.csv"


class TraceNode(NamedTuple):
    """A node."""

    cores: int
    """Thousandths of a CPU"""
    memory: int
    """MiB"""
    gpus: int
    model: str
    rank: int
    """Place by name"""


class TracePod(NamedTuple):
    """A pod. Equal pods compare equal."""

    cores: int
    memory: int
    gpus: int
    milli: int
    """Thousandths of each GPU"""
    models: tuple[str, ...]
    """Models that it may use; empty for all"""


class Arrivals(NamedTuple):
    """One run: the nodes in order of their names, and the pods in order of arrival."""

    nodes: tuple[TraceNode, ...]
    pods: tuple[TracePod, ...]
    """The pods of the trace, in order of their names"""
    order: Rows
    """Positions in `pods`"""


def variants(path: Path) -> tuple[str, ...]:
    """The variants that a file of arrival orders has."""
    return tuple(dict.fromkeys(name.split("/")[0] for name in _orders(path)))


def seeds(path: Path, variant: str) -> tuple[int, ...]:
    """The seeds of a variant in a file of arrival orders."""
    found = (name.split("/") for name in _orders(path))
    return tuple(dict.fromkeys(int(seed) for name, seed, _ in found if name == variant))


def read_arrivals(trace: Path, orders: Path, variant: str, seed: int) -> Arrivals:
    """One run. Raises Malformed if a file does not have it."""
    recorded = _orders(orders)
    where = f"{variant}/{seed}"
    if f"{where}/order" not in recorded:
        raise Malformed(str(orders), where, "is not recorded; choose another variant or seed")
    rank, order = recorded[f"{where}/rank"], recorded[f"{where}/order"]
    nodes = [
        TraceNode(
            int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"], int(rank[number])
        )
        for number, row in enumerate(_rows(trace / NODES, "sn"))
    ]
    pods = tuple(map(_pod, _rows(trace / f"openb_pod_list_{variant}.csv", "name")))
    return Arrivals(tuple(sorted(nodes, key=lambda node: node.rank)), pods, order.astype(np.intp))


def published(trace: Path, variant: str, seed: int) -> dict[str, tuple[float, float]]:
    """Policy -> per cent in use at 100 and at 130 per cent arrived, as published. Empty without the file."""
    path = trace / PUBLISHED
    if not path.exists():
        return {}
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["workload"] == f"openb_pod_list_{variant}" and row["seed"] == str(seed):
                found[row["sc_policy"].partition("-")[2]] = float(row["100"]), float(row["130"])
    return found


def _pod(row: dict[str, str]) -> TracePod:
    gpus = int(row["num_gpu"])
    return TracePod(
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        gpus,
        int(row["gpu_milli"]) if gpus else 0,
        tuple(sorted({model for model in (row.get("gpu_spec") or "").split("|") if model})),
    )


def _rows(path: Path, name: str) -> Iterator[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            yield from sorted(csv.DictReader(file), key=lambda row: row[name])
    except (OSError, KeyError) as exc:
        raise Malformed(str(path), name, f"cannot be read: {exc}") from exc


def _orders(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path) as file:
            return dict(file)
    except (OSError, ValueError) as exc:
        raise Malformed(str(path), "", f"cannot be read: {exc}") from exc


DRIVER = "gpu.example.com"
CLASS = "gpu"
WHOLE = 1000
LEARN_AT = (100, 200, 400, 800)
LEARN_EVERY = 500
NewPolicy = Callable[[Demand], Policy | None]
NO_CLAIM = ParsedClaims((), ())


def fleet(arrivals: Arrivals) -> Iterator[Json]:
    """Nodes named by rank, the class, and a slice for each node."""
    yield device_class(CLASS, f"device.driver == '{DRIVER}'")
    for number, one in enumerate(arrivals.nodes):
        name = f"node-{number:04}"
        yield node(name)
        devices = [
            {
                "name": f"gpu-{at}",
                "allowMultipleAllocations": True,
                "attributes": {"model": {"string": one.model}},
                "capacity": {"milli": {"value": str(WHOLE)}},
            }
            for at in range(one.gpus)
        ]
        yield from pool(DRIVER, name, devices, reach={"nodeName": name})


def claim_of(pod: TracePod, name: str) -> ResourceClaim:
    """The claim of a pod with GPUs."""
    models = f"device.attributes['{DRIVER}'].model in {list(pod.models)}"
    wanted = {"milli": str(pod.milli)}
    request = exactly("gpus", CLASS, *([models] if pod.models else []), count=pod.gpus, capacity=wanted)
    return read_claim(claim(name, [request]))


def demand_of(pods: Iterable[TracePod]) -> Demand:
    """The pods by their distinct needs. Memory does not count."""
    counted = Counter(pod._replace(memory=0) for pod in pods)
    return Demand(
        tuple(
            Shape(claim_of(pod, "shape").spec if pod.gpus else None, pod.cores, times)
            for pod, times in sorted(counted.items())
        )
    )


@dataclass(slots=True)
class Filled:
    """What one run gives."""

    arrived: list[int] = field(default_factory=list)
    """Thousandths of GPUs that arrived, after each pod"""
    used: list[int] = field(default_factory=list)
    """Thousandths in use, after each pod"""
    times: Times = field(default_factory=Times)
    """Of each decision"""
    failed: int = 0
    capacity: int = 0
    """Thousandths of all GPUs"""

    def at(self, percent: int) -> float:
        """Per cent in use, averaged over the pods at which so many per cent arrived."""
        share = np.round(np.array(self.arrived) / self.capacity * 100)
        used = np.array(self.used)[share == percent]
        return round(float(used.mean()) / self.capacity * 100, 2) if len(used) else float("nan")


class Replay:
    """One run. The engine decides pods with claims; CPU and memory are counted here, as a kubelet would."""

    def __init__(self, arrivals: Arrivals, new_policy: NewPolicy, *, learn: bool) -> None:
        """`learn` starts with no demand and learns it from the pods that arrived; else all is known."""
        self._arrivals = arrivals
        self._new_policy = new_policy
        self._learn = learn
        warm_up()
        self._store = store_of(map(read, fleet(arrivals)), Semantics())
        self._order = self._store.snapshot().topology.order
        self._place_of = {name: place for place, name in enumerate(self._order)}
        self._cores: Amounts = np.array([one.cores for one in arrivals.nodes], dtype=np.int64)
        self._memory: Amounts = np.array([one.memory for one in arrivals.nodes], dtype=np.int64)
        self._claims: dict[TracePod, ResourceClaim] = {}
        self.filled = Filled(capacity=WHOLE * sum(one.gpus for one in arrivals.nodes))

    def run(self, progress: Progress) -> Filled:
        """Play all arrivals."""
        pods, order = self._arrivals.pods, self._arrivals.order.tolist()
        policy = self._new_policy(NO_DEMAND if self._learn else demand_of(pods))
        arrived = used = 0
        seen: list[TracePod] = []
        for number, at in enumerate(order):
            pod = pods[at]
            if self._learn and (number in LEARN_AT or (number > LEARN_AT[-1] and number % LEARN_EVERY == 0)):
                policy = self._new_policy(demand_of(seen))
            seen.append(pod)
            arrived += pod.gpus * pod.milli
            if self._place(pod, f"pod-{number}", policy):
                used += pod.gpus * pod.milli
            else:
                self.filled.failed += 1
            self.filled.arrived.append(arrived)
            self.filled.used.append(used)
            progress(number + 1, len(order))
        return self.filled

    def _place(self, pod: TracePod, name: str, policy: Policy | None) -> bool:
        clock, processor = perf_counter(), thread_time()
        fits = (self._cores >= pod.cores) & (self._memory >= pod.memory)
        room = PodRoom(pod.cores, self._cores)
        snapshot = self._store.snapshot()
        place = self._with_claim(pod, name, fits, snapshot, policy, room) if pod.gpus else None
        if not pod.gpus:
            place = _first(fits, policy, snapshot, room)
        self.filled.times.processor.append(thread_time() - processor)
        self.filled.times.clock.append(perf_counter() - clock)
        if place is None:
            return False
        self._cores[place] -= pod.cores
        self._memory[place] -= pod.memory
        return True

    def _with_claim(
        self,
        pod: TracePod,
        name: str,
        fits: Mask,
        snapshot: Snapshot,
        policy: Policy | None,
        room: PodRoom,
    ) -> int | None:
        known = self._claims.get(pod)
        if known is None:
            known = self._claims[pod] = claim_of(pod, "claim")
        named = known.metadata.model_copy(update={"name": name, "uid": name})
        one = known.model_copy(update={"metadata": named})
        outcome = allocate([one], snapshot, nodes=NodeSubset(self._order, fits), policy=policy, pod=room)
        if not isinstance(outcome, Granted):
            return None
        self._store.assume(outcome.plans[0])
        return self._place_of[outcome.node]


def _first(fits: Mask, policy: Policy | None, snapshot: Snapshot, room: PodRoom) -> int | None:
    """The node that the policy prefers for a pod without claims."""
    if not fits.any():
        return None
    keys = policy.nodes(PolicyQuestion(NO_CLAIM, snapshot, room), fits) if policy is not None else None
    if keys is None:
        return int(fits.argmax())
    places = np.flatnonzero(fits)
    return int(places[keys[places].argmin()])
