"""What watches of pods and claims show of pods with one claim each, and when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import random
from time import perf_counter

from perf.live import Cluster
from reconciler.api.objects.changes import Changed, Notice, Replaced
from reconciler.api.objects.claims import FINALIZER, ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pods import claims_of
from reconciler.cluster.kinds import POD
from reconciler.cluster.watch import follow
from reconciler.control.decisions.allocating import Allocated
from reconciler.control.decisions.decision import Decision


class Sightings:
    """The moments of each pod by its name; see `perf.phases.PHASES`. Times are those of `perf_counter`."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, float]] = {}
        self._users: dict[ObjectKey, str] = {}
        """Claim -> the pod that names it"""
        self._news = asyncio.Event()

    def take(self, change: Notice) -> None:
        """Take note of a change that a watch tells."""
        changed = change.objects if isinstance(change, Replaced) else ()
        for thing in (change.object,) if isinstance(change, Changed) else changed:
            if isinstance(thing, Pod):
                self._pod(thing)
            elif isinstance(thing, ResourceClaim):
                self._claim(thing)
        self._news.set()

    def on_decision(self, decision: Decision) -> None:
        """Take note of when a decision began that was written by now."""
        if isinstance(decision, Allocated) and decision.pod is not None:
            self._note(decision.pod.name, "begun", perf_counter() - decision.seconds)

    @property
    def binds(self) -> bool:
        """Whether somebody has bound a pod yet."""
        return any("bound" in moments for moments in self.of.values())

    def sends(self, pod: str) -> None:
        """The request that creates a pod is sent now."""
        self._note(pod, "sent")

    async def wait(self, pod: str, moment: str, seconds: float) -> float:
        """When it happened to a pod. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while moment not in self.of.get(pod, {}):
                self._news.clear()
                await self._news.wait()
        return self.of[pod][moment]

    def _pod(self, pod: Pod) -> None:
        name = pod.key.name
        self._note(name, "shown")
        self._users.update(dict.fromkeys(claims_of(pod), name))
        if None not in pod.claim_names().values():
            self._note(name, "named")
        if not pod.gated:
            self._note(name, "ungated")
        if pod.spec.node_name:
            self._note(name, "bound")

    def _claim(self, claim: ResourceClaim) -> None:
        name = self._users.get(claim.key) or _owner(claim)
        if name is None:
            return
        if FINALIZER in claim.metadata.finalizers:
            self._note(name, "marked")
        if claim.allocation is not None:
            self._note(name, "allocated")
        if claim.status.reserved_for:
            self._note(name, "reserved")

    def _note(self, pod: str, moment: str, at: float | None = None) -> None:
        self.of.setdefault(pod, {}).setdefault(moment, perf_counter() if at is None else at)


def _owner(claim: ResourceClaim) -> str | None:
    """The pod that a claim was made for, from a template."""
    return next((owner.name for owner in claim.metadata.owner_references if owner.kind == "Pod"), None)


@asynccontextmanager
async def watching(made: Cluster) -> AsyncIterator[Sightings]:
    """Watches of all pods and claims, by the client of the cluster, while the block runs."""
    seen = Sightings()
    kinds = POD, made.served["ResourceClaim"]
    tasks = [
        asyncio.create_task(
            follow(made.client, kind, sink=seen.take, random=random), name=f"{kind.kind} watch"
        )
        for kind in kinds
    ]
    try:
        yield seen
    finally:
        for task in tasks:
            task.cancel()
