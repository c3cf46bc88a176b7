"""Koordinator's devices: GPUs with a virtual function of a NIC beside them, on the same PCIe switch."""

import gc
import json
from collections import Counter
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
from reconciler.plugins.koordinator.refusals import Unserved
from reconciler.plugins.koordinator.vocabulary import (
    ALLOCATE_HINT,
    JOINT_ALLOCATE,
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


def pod(number: int, gpus: int) -> Pod:
    """A pod that wants GPUs, and a virtual function on each of their switches."""
    requests = {"nvidia.com/gpu": str(gpus), "koordinator.sh/rdma": "1"}
    return Pod.model_validate(
        {
            "metadata": {"name": f"pod-{number:06}", "namespace": "default", "annotations": _SAID},
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


WORKLOADS = [
    Workload(
        "koordinator",
        "Koordinator: 8 GPUs and 4 NICs with VFs a node, given together on one switch",
        fill,
        {"": {"nodes": 1024}},
        tiny={"nodes": 4},
    ),
]
