"""Gated pods with a claim each, one by one: how long our gate stays, and how long until they are bound."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import random
from statistics import median
from time import perf_counter

from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.live import KUBECONFIG, Cluster
from perf.workload import Figure, latencies
from reconciler.api.objects.changes import Changed, Notice, Replaced
from reconciler.api.objects.core import GATE, Pod
from reconciler.cluster.kinds import POD
from reconciler.cluster.watch import follow

CLAIM = "of-pod-"
"""How names of their claims start"""
BINDS_WITHIN = 30.0
"""Seconds that the first pod has to be bound; if it is not, nobody binds pods here"""
PATIENCE = 300.0
"""Seconds after which a pod that still has our gate fails the run"""


class PodWatch:
    """When a watch first showed each pod, when without our gate, and when bound."""

    def __init__(self) -> None:
        self.known: dict[str, float] = {}
        self.ungated: dict[str, float] = {}
        self.bound: dict[str, float] = {}
        self._news = asyncio.Event()

    def take(self, change: Notice) -> None:
        """Take note of a change that the watch tells."""
        changed = change.objects if isinstance(change, Replaced) else ()
        for pod in (change.object,) if isinstance(change, Changed) else changed:
            if isinstance(pod, Pod):
                name, now = pod.key.name, perf_counter()
                self.known.setdefault(name, now)
                if not pod.gated:
                    self.ungated.setdefault(name, now)
                if pod.spec.node_name:
                    self.bound.setdefault(name, now)
        self._news.set()

    async def wait(self, times: dict[str, float], name: str, seconds: float) -> float:
        """When it happened to this pod. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while name not in times:
                self._news.clear()
                await self._news.wait()
        return times[name]


@asynccontextmanager
async def watching(made: Cluster) -> AsyncIterator[PodWatch]:
    """A watch of all pods, by the client of the cluster."""
    seen = PodWatch()
    task = asyncio.create_task(follow(made.client, POD, sink=seen.take, random=random), name="pod watch")
    try:
        yield seen
    finally:
        task.cancel()


async def one_by_one(made: Cluster, profiles: Sequence[str]) -> list[Figure]:
    """Create a claim and a gated pod for each profile, and wait until the pod is bound, if somebody binds.

    Our time begins when a watch shows the pod, that of bound pods when its creation is sent.
    """
    gate: list[float] = []
    bound: list[float] = []
    binds = bool(os.environ.get(KUBECONFIG))  # the embedded server has no scheduler here
    async with watching(made) as seen:
        for number, profile in enumerate(profiles):
            await made.create(_claim(number, profile))
            sent = perf_counter()
            await made.create(gated_pod(number))
            name = f"pod-{number}"
            ungated = await seen.wait(seen.ungated, name, PATIENCE)
            gate.append(ungated - seen.known[name])
            try:
                if binds:
                    bound.append(
                        await seen.wait(seen.bound, name, PATIENCE if bound else BINDS_WITHIN) - sent
                    )
            except TimeoutError:
                if bound:
                    raise
                binds = False
    figures = latencies(gate, "gate to ungate")
    if bound:
        share = [ours / whole * 100 for ours, whole in zip(gate, bound, strict=True)]
        figures += latencies(bound, "pod to bound")
        figures.append(Figure("our share of the time to bound pods", median(share), "%"))
    return figures


def gated_pod(number: int) -> Json:
    """A pod with our gate that uses a claim of its own. It tolerates nodes without a kubelet."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": f"{CLAIM}{number}"}],
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    }


def _claim(number: int, profile: str) -> Json:
    raw = claim(f"{CLAIM}{number}", [mig.partition("partition", profile)])
    del raw["metadata"]["uid"]
    return raw
