"""Gated pods with a claim each, one by one: how long our gate stays, and how long until they are bound."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from time import perf_counter

import msgspec
import numpy as np

from perf import phases
from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.live import KUBECONFIG, Cluster, in_namespace, labelled
from perf.phases import Moments
from perf.workload import Figure, latencies
from reconciler.api.objects.claims import FINALIZER
from reconciler.api.objects.core import GATE
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.discovery import CLAIM
from reconciler.cluster.kinds import POD, TEMPLATE, Resource
from reconciler.control.ownership import MANAGED

IDLE = 90.0
"""Seconds of silence after which a watch counts as broken: servers send a bookmark about every minute"""


class Sightings:
    """The moments of each pod by its name; see `perf.phases.PHASES`. Times are those of `perf_counter`."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, float]] = {}
        self.devices: dict[ObjectKey, list[str]] = {}
        """What each claim was seen to have"""
        self._users: dict[ObjectKey, str] = {}
        """Claim -> the pod that names it"""
        self._news = asyncio.Event()

    async def follow(self, made: Cluster, resource: Resource) -> None:
        """Take note of all pods or claims, and of what a watch shows from now on. Raises Wrong if it ends."""
        take = self._pod if resource.kind == POD.kind else self._claim
        listed = await made.client.fetch(resource.everywhere)
        for item in listed["items"]:
            take(item)
        query = [("resourceVersion", listed["metadata"]["resourceVersion"]), ("allowWatchBookmarks", "true")]
        async with made.client.watch(resource, query=query, idle=IDLE) as lines:
            async for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] in ("ADDED", "MODIFIED"):
                    take(event["object"])
                    self._news.set()
        raise Wrong(f"the watch of {resource.plural} ended")

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

    async def allocated(self, claim: ObjectKey, seconds: float) -> None:
        """Wait until a claim has devices. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while claim not in self.devices:
                self._news.clear()
                await self._news.wait()

    def _pod(self, pod: Json) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"].get("namespace", "")
        self._note(name, "shown")
        statuses = pod.get("status", {}).get("resourceClaimStatuses", ())
        made = {used["name"]: used.get("resourceClaimName") for used in statuses}
        uses = pod["spec"].get("resourceClaims", ())
        names = [used.get("resourceClaimName") or made.get(used["name"]) for used in uses]
        claims = [ObjectKey(namespace, claim) for claim in names if claim]
        self._users.update(dict.fromkeys(claims, name))
        if all(names):
            self._note(name, "named")
        if all(names) and all(claim in self.devices for claim in claims):  # they had them before
            self._note(name, "marked")
            self._note(name, "allocated")
        if all(gate["name"] != GATE for gate in pod["spec"].get("schedulingGates", ())):
            self._note(name, "ungated")
        if pod["spec"].get("nodeName"):
            self._note(name, "bound")

    def _claim(self, claim: Json) -> None:
        metadata, status = claim["metadata"], claim.get("status", {})
        allocation = status.get("allocation")
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        if allocation is not None:
            results = allocation.get("devices", {}).get("results", ())
            self.devices[key] = [f"{one['driver']}/{one['pool']}/{one['device']}" for one in results]
        # A claim that was made from a template is shown before its pod names it.
        owners = metadata.get("ownerReferences", ())
        owner = next((owner["name"] for owner in owners if owner["kind"] == POD.kind), None)
        name = self._users.get(key) or owner
        if name is None:
            return
        if FINALIZER in metadata.get("finalizers", ()):
            self._note(name, "marked")
        if allocation is not None:
            self._note(name, "allocated")
        if status.get("reservedFor"):
            self._note(name, "reserved")

    def _note(self, pod: str, moment: str) -> None:
        self.of.setdefault(pod, {}).setdefault(moment, perf_counter())


@asynccontextmanager
async def watching(made: Cluster) -> AsyncIterator[Sightings]:
    """Watches of all pods and claims, by the client of the cluster, while the block runs."""
    seen = Sightings()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(seen.follow(made, kind), name=f"{kind.kind} watch")
            for kind in (POD, made.served[CLAIM.kind])
        ]
        yield seen
        for task in tasks:
            task.cancel()


NAMED_CLAIM = "of-pod-"
"""How names of their claims start"""
KEPT = "kept-"
"""How names of claims start that are allocated before a pod uses them"""
BINDS_WITHIN = 30.0
"""Seconds that the first pod has to be bound; if it is not, nobody binds pods here"""
PATIENCE = 300.0
"""Seconds after which a pod that still has our gate fails the run"""


async def with_claims(made: Cluster, seen: Sightings, profiles: Sequence[str]) -> list[Figure]:
    """Pods that name a claim that exists."""
    pods = []
    for number, profile in enumerate(profiles):
        raw = claim(f"{NAMED_CLAIM}{number}", [mig.partition("partition", profile)])
        del raw["metadata"]["uid"]
        await made.create(raw)
        pods.append(await _one(made, seen, f"pod-{number}", {"resourceClaimName": f"{NAMED_CLAIM}{number}"}))
    return _figures(pods, "gate to ungate", "pod to bound", "our share of the time to bound pods")


async def with_allocated_claims(made: Cluster, seen: Sightings, profiles: Sequence[str]) -> list[Figure]:
    """Pods whose claim has its devices, as one that outlives its pods. None where nobody binds pods."""
    if not seen.binds:
        return []
    pods = []
    for number, profile in enumerate(profiles):
        name = f"{KEPT}{number}"
        raw = claim(name, [mig.partition("partition", profile)])
        del raw["metadata"]["uid"]
        raw["metadata"]["labels"] = {MANAGED: "true"}
        await made.create(raw)
        await seen.allocated(ObjectKey("default", name), PATIENCE)
        pods.append(await _one(made, seen, f"again-{number}", {"resourceClaimName": name}))
    about = ", claim allocated before"
    return _figures(pods, f"gate to ungate{about}", f"pod to bound{about}", f"our share of that time{about}")


async def from_templates(made: Cluster, seen: Sightings, profiles: Sequence[str]) -> list[Figure]:
    """Pods whose claims kube-controller-manager makes. None where nobody binds pods."""
    if not seen.binds:
        return []
    pods = await _from_templates(made, seen, "made", profiles)
    figures = _figures(
        pods,
        "claim from a template to ungate",
        "pod with a template to bound",
        "our share of that time",
    )
    return figures + phases.figures(pods)


async def announced(made: Cluster, seen: Sightings, namespace: str, profiles: Sequence[str]) -> list[Figure]:
    """Pods with templates whose claims are announced (CO-14). None where nobody binds pods or announces."""
    if not seen.binds or not namespace:
        return []
    pods = await _from_templates(made, seen, "announced", profiles, namespace)
    about = ", claim announced"
    return _figures(pods, f"gate to ungate{about}", f"pod to bound{about}", f"our share of that time{about}")


async def _from_templates(
    made: Cluster, seen: Sightings, name: str, profiles: Sequence[str], namespace: str = "default"
) -> list[Moments]:
    for profile in dict.fromkeys(profiles):
        await made.create(in_namespace(_template(profile), namespace))
    pods = []
    for number, profile in enumerate(profiles):
        source = {"resourceClaimTemplateName": _template_name(profile)}
        pods.append(await _one(made, seen, f"{name}-{number}", source, namespace))
    return pods


async def _one(
    made: Cluster, seen: Sightings, name: str, source: Mapping[str, str], namespace: str = "default"
) -> Moments:
    """Create a pod and wait until it is bound, or only for its gate if nobody binds pods here."""
    first = len(seen.of) == 0
    seen.sends(name)
    await made.create(in_namespace(gated_pod(name, source), namespace))
    await seen.wait(name, "ungated", PATIENCE)
    if os.environ.get(KUBECONFIG) and (first or seen.binds):  # the embedded server has no scheduler here
        try:
            await seen.wait(name, "bound", BINDS_WITHIN if first else PATIENCE)
        except TimeoutError:
            if not first:
                raise
    return seen.of[name]


def _figures(pods: Sequence[Moments], gate: str, bound: str, share: str) -> list[Figure]:
    """Our time begins when a watch shows the pod and its claim, that of bound pods when the pod is sent."""
    figures = latencies([max(pod["ungated"] - pod["named"], 0.0) for pod in pods], gate)
    whole = [pod for pod in pods if "bound" in pod]
    if whole:
        ours = float(np.median(phases.shares(whole))) * 100
        figures += latencies([pod["bound"] - pod["sent"] for pod in whole], bound)
        figures.append(Figure(share, ours, "%"))
    return figures


def gated_pod(name: str, source: Mapping[str, str]) -> Json:
    """A pod with our gate that uses one claim. It tolerates nodes without a kubelet."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "tolerations": [{"operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", **source}],
            "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
        },
    }


def _template_name(profile: str) -> str:
    return f"one-{profile.replace('.', '-').replace('+', '-')}"


def _template(profile: str) -> Json:
    """A template of claims of one partition."""
    spec = claim("", [mig.partition("partition", profile)])["spec"]
    return {
        "apiVersion": TEMPLATE.api_version,
        "kind": TEMPLATE.kind,
        "metadata": {"name": _template_name(profile), "namespace": "default"},
        "spec": labelled({"spec": spec}),
    }
