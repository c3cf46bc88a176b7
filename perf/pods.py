"""Gated pods with a claim each, one by one: how long our gate stays, and how long until they are bound."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from perf import phases
from perf.announcing import in_namespace
from perf.fleets import mig
from perf.fleets.objects import Json, claim
from perf.live import KUBECONFIG, Cluster, labelled
from perf.phases import Moments
from perf.sightings import Sightings
from perf.workload import Figure, latencies
from reconciler.api.objects.core import GATE
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.kinds import TEMPLATE
from reconciler.control.ownership import MANAGED

CLAIM = "of-pod-"
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
        raw = claim(f"{CLAIM}{number}", [mig.partition("partition", profile)])
        del raw["metadata"]["uid"]
        await made.create(raw)
        pods.append(await _one(made, seen, f"pod-{number}", {"resourceClaimName": f"{CLAIM}{number}"}))
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
