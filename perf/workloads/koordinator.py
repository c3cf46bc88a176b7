"""Koordinator's devices: GPUs with a virtual function of a NIC beside them, on the same PCIe switch."""

import gc
import json
from collections import Counter, deque
from dataclasses import dataclass, field
from time import perf_counter, thread_time

from numpy.random import default_rng

from perf.deciding import Wrong
from perf.fleets import koordinator as fleets
from perf.workload import Figure, Outcome, Progress, Size, Workload, filling, latencies, rate
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.demand import Demand
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.holdings import Allocation, Grant
from reconciler.plugins.koordinator.refusals import Unserved
from reconciler.plugins.koordinator.vocabulary import (
    ALLOCATE_HINT,
    GPU_CORE,
    GPU_MEMORY_RATIO,
    JOINT_ALLOCATE,
    KOORD_RDMA,
    Rules,
)

SEED = 1024
GPUS = (1, 2, 4, 8)
SHARES = (0.4, 0.3, 0.2, 0.1)
"""How often pods ask for so many GPUs"""
_SAID = {
    JOINT_ALLOCATE: json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}),
    ALLOCATE_HINT: json.dumps({"rdma": {"vfSelector": {}}}),
}


def pod(number: int, gpus: int, *, functions: bool = True, unlike: int = 0) -> Pod:
    """A pod that wants GPUs, and a virtual function on each of their switches, or a whole NIC.

    `unlike` makes its demand another than others', though it asks for the same.
    """
    requests = {"nvidia.com/gpu": str(gpus), "koordinator.sh/rdma": "1" if functions else "100"}
    said = _SAID if functions else {JOINT_ALLOCATE: _SAID[JOINT_ALLOCATE] + " " * unlike}
    return Pod.model_validate(
        {
            "metadata": {"name": f"pod-{number:06}", "namespace": "default", "annotations": said},
            "spec": {"containers": [{"resources": {"requests": requests}}]},
        }
    )


@dataclass(slots=True)
class Decider:
    """Decides pods one after the other, as the controller does: demand, answer, assumption."""

    fleet: Fleet
    load_seconds: float
    seconds: list[float] = field(default_factory=list)
    held: dict[ObjectKey, Placed] = field(default_factory=dict)
    refused: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    """Seconds of processor time of each decision, whatever it was"""

    @classmethod
    def over(cls, nodes: int) -> "Decider":
        """A decider over machines that are listed completely. Reading JSON is not counted."""
        listed = list(fleets.machines(nodes))
        fleet = Fleet(Rules())
        began = perf_counter()
        for device in listed:
            fleet.put(device, {})
        seconds = perf_counter() - began
        gc.collect()
        gc.freeze()
        return cls(fleet, seconds)

    def decide(self, wants: Pod) -> bool:
        """Decide a pod; from its requests to the assumed devices is timed. Whether it got them."""
        busy, began = thread_time(), perf_counter()
        demand = self.fleet.demands.of(wants)
        assert isinstance(demand, Demand)
        found = self.fleet.first(demand, _anywhere)
        if isinstance(found, Placed):
            self.fleet.hold(wants.key, found.node, found.allocation, demand.hints)
        seconds = perf_counter() - began
        self.busy.append(thread_time() - busy)
        if isinstance(found, Unserved):
            self.refused.append(seconds)
            return False
        assert found is not None
        self.seconds.append(seconds)
        self.held[wants.key] = found
        return True

    def release(self, key: ObjectKey) -> float:
        """A pod ends. Returns the seconds that took."""
        del self.held[key]
        began = perf_counter()
        self.fleet.release(key)
        return perf_counter() - began

    def audit(self) -> None:
        """Raise Wrong unless every device is given once, and every GPU has a function on its switch."""
        given: Counter[tuple[str, str, object]] = Counter()
        for found in self.held.values():
            gpus = {grant.minor for grant in found.allocation["gpu"]}
            given.update((found.node, "gpu", minor) for minor in gpus)
            functions = [vf for grant in found.allocation["rdma"] for vf in grant.vfs]
            given.update((found.node, "vf", vf.bus_id) for vf in functions)
            switches = {minor * fleets.SWITCHES // fleets.GPUS_A_NODE for minor in gpus}
            if {grant.minor for grant in found.allocation["rdma"]} != switches:
                raise Wrong(f"{found.node}: NICs are not on the switches of GPUs {sorted(gpus)}")
        twice = [key for key, count in given.items() if count > 1]
        if twice:
            raise Wrong(f"given out twice: {twice[:3]}")


def _anywhere(_: str) -> bool:
    return True


def _drawn(count: int) -> list[int]:
    return [int(gpus) for gpus in default_rng(SEED).choice(GPUS, size=count, p=SHARES)]


def fill(size: Size, progress: Progress) -> Outcome:
    """Pods of several sizes until no GPU is left."""
    decider = Decider.over(size["nodes"])
    free, number = size["nodes"] * fleets.GPUS_A_NODE, 0
    for gpus in _drawn(size["nodes"] * fleets.GPUS_A_NODE):
        if not free:
            break
        free -= gpus if decider.decide(pod(number, gpus)) else 0
        number += 1
        progress(size["nodes"] * fleets.GPUS_A_NODE - free, size["nodes"] * fleets.GPUS_A_NODE)
    decider.audit()
    return Outcome(
        figures=[
            rate("pods/s", decider.seconds),
            Figure("decisions/s of processor time", number / sum(decider.busy), "/s", "more"),
            *latencies(decider.busy, "processor time of a decision"),
            *latencies(decider.seconds, "pod"),
            *(latencies(decider.refused, "refusal") if decider.refused else ()),
            Figure("served", len(decider.held), "pods", ""),
            Figure("refused", len(decider.refused), "pods", ""),
            Figure("GPUs left", free, "GPUs", ""),
            Figure("load", decider.load_seconds, "s"),
        ],
        curves=[filling(decider.seconds)],
    )


def churn(size: Size, progress: Progress) -> Outcome:
    """Fill to 90 %, then let a pod end and serve another, again and again."""
    decider = Decider.over(size["nodes"])
    wanted = size["nodes"] * fleets.GPUS_A_NODE * 9 // 10
    drawn = deque(_drawn(size["nodes"] * fleets.GPUS_A_NODE + size["turns"]))
    number = used = 0
    while used < wanted:
        gpus = drawn.popleft()
        used += gpus if decider.decide(pod(number, gpus)) else 0
        number += 1
    decider.seconds.clear()
    decider.refused.clear()
    decider.busy.clear()
    releases: list[float] = []
    leaving = default_rng(SEED)
    for turn in range(size["turns"]):
        keys = list(decider.held)
        releases.append(decider.release(keys[int(leaving.integers(len(keys)))]))
        decider.decide(pod(number + turn, drawn.popleft()))
        progress(turn + 1, size["turns"])
    decider.audit()
    decisions = [*decider.seconds, *decider.refused]
    return Outcome(
        figures=[
            Figure("turns/s", size["turns"] / (sum(releases) + sum(decisions)), "/s", "more"),
            *latencies(decider.busy, "processor time of a decision"),
            *latencies(decider.seconds, "pod"),
            *(latencies(decider.refused, "refusal") if decider.refused else ()),
            *latencies(releases, "release"),
            Figure("refused", len(decider.refused), "pods", ""),
            Figure("held", len(decider.held), "pods", ""),
        ]
    )


def scattered(size: Size, progress: Progress) -> Outcome:
    """GPUs are left on some switches and NICs on others: only by amounts is there room everywhere.

    Each turn a pod that is unlike those before asks for a GPU and a whole NIC on one switch, is refused, and
    something else changes on a machine. Now and then one machine has both, the last by name.
    """
    decider = Decider.over(size["nodes"])
    fleet, names = decider.fleet, sorted(decider.fleet.machines)
    for name in names:
        fleet.hold(ObjectKey("cards", name), name, _cards(fleets.GPUS_A_NODE // 2), {})
        fleet.hold(ObjectKey("nics", name), name, _nics(), {})
    changing = default_rng(SEED)
    for turn in range(size["turns"]):
        last = turn % 8 == 7
        changed = names[-1] if last else names[int(changing.integers(len(names) - 1))]
        fleet.release(ObjectKey("nics", changed))
        if not last:
            fleet.hold(ObjectKey("nics", changed), changed, _nics(), {})
        asking = pod(turn, GPUS[turn % 3], functions=False, unlike=turn)
        if decider.decide(asking) != last:
            raise Wrong(f"{asking.key} was {'refused' if last else 'served'}")
        if last:
            decider.release(asking.key)
            fleet.hold(ObjectKey("nics", changed), changed, _nics(), {})
        progress(turn + 1, size["turns"])
    return Outcome(
        figures=[
            *latencies(decider.busy, "processor time of a decision"),
            *latencies(decider.seconds, "pod"),
            *latencies(decider.refused, "refusal"),
            Figure("served", len(decider.seconds), "pods", ""),
            Figure("refused", len(decider.refused), "pods", ""),
        ]
    )


def _cards(count: int) -> Allocation:
    whole = {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}
    return {"gpu": tuple(Grant(minor, whole) for minor in range(count))}


def _nics() -> Allocation:
    others = range(fleets.SWITCHES // 2, fleets.SWITCHES)
    return {"rdma": tuple(Grant(minor, {KOORD_RDMA: 100}) for minor in others)}


WORKLOADS = [
    Workload(
        "koordinator",
        "Koordinator: 8 GPUs and 4 NICs with VFs a node, given together on one switch",
        fill,
        {"": {"nodes": 1024}},
        tiny={"nodes": 4},
    ),
    Workload(
        "koordinator-churn",
        "the same at 90 %: one pod ends, another is served",
        churn,
        {"": {"nodes": 1024, "turns": 2000}},
        tiny={"nodes": 4, "turns": 8},
    ),
    Workload(
        "koordinator-scattered",
        "GPUs left on some switches, NICs on others: refused where amounts look good",
        scattered,
        {"": {"nodes": 1024, "turns": 400}},
        tiny={"nodes": 4, "turns": 8},
    ),
]
