"""Bursts: many claims of one template, decided one by one, and by the loop of the process."""

import json
from collections.abc import Callable, Iterable, Sequence

from perf.deciding import Decider, Wrong, audit, devices_of
from perf.fleets import gpus
from perf.fleets.objects import Json, claim, exactly
from perf.turns import take_turns
from perf.workload import Figure, Outcome, Progress, Size, Workload
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import GATE, Pod
from reconciler.api.versions.reading import decode


def whole(size: Size, progress: Progress) -> Outcome:
    """Pods of one template with one GPU each."""
    return _burst(lambda: gpus.fleet(size["nodes"]), _alike(size), progress)


def pods(size: Size, progress: Progress) -> Outcome:
    """Pods of one template with one GPU each, and CPU and memory of their node."""

    def fleet() -> Iterable[Json]:
        return map(_with_room, gpus.fleet(size["nodes"]))

    raws = _alike(size)
    for number, raw in enumerate(raws):
        raw["metadata"]["ownerReferences"] = [_owner(number)]
    return _burst(fleet, raws, progress, of_pods=True)


def _alike(size: Size) -> list[Json]:
    """Claims of one template."""
    return [claim(f"claim-{number:05}", [exactly("gpu", gpus.CLASS)]) for number in range(size["claims"])]


def _burst(
    fleet: Callable[[], Iterable[Json]], raws: Sequence[Json], progress: Progress, *, of_pods: bool = False
) -> Outcome:
    """The same claims one by one, and as the process decides them. Raises Wrong if they get other devices.

    The fleet is made twice: as JSON it takes more memory than what is measured.
    """
    claims = [*map(_watched, raws)]
    alone = Decider.over(fleet())
    for one in claims:
        alone.store.apply(Changed("ResourceClaim", one))
    alone.grant(claims[0])  # selectors run once, whatever decides the others
    alone.seconds.clear()
    alone.processor = 0.0
    for one in claims[1:]:
        alone.grant(one)
    progress(1, 2)
    made = [_pod(number, one.key.name) for number, one in enumerate(claims)] if of_pods else []
    turns = take_turns(fleet(), claims, made)
    progress(2, 2)
    granted = alone.granted
    answers = {one.plans[0].claim.name: tuple(devices_of(one)) for one in granted}
    if turns.devices != answers:
        raise Wrong("claims that are decided together must get the devices that they get one by one")
    audit(alone.store, granted)
    count = len(claims) - 1
    one_by_one, deciding = alone.processor / count, turns.deciding / count
    return Outcome([
        Figure("in the process, claims/s of processor time", 1 / deciding, "/s", "more"),
        Figure("one by one, claims/s of processor time", 1 / one_by_one, "/s", "more"),
        Figure("times as fast", one_by_one / deciding, "x", "more"),
        Figure("whole turns, claims/s of processor time", count / turns.whole, "/s", "more"),
        Figure("longest pass", turns.longest * 1e3, "ms"),
    ])  # fmt: skip


def _watched(raw: Json) -> ResourceClaim:
    """A claim as a watch reads it: claims of one template share their spec."""
    found = decode("ResourceClaim", "resource.k8s.io/v1", json.dumps(raw).encode())
    assert isinstance(found, ResourceClaim)
    return found


def _with_room(raw: Json) -> Json:
    """A node that says what it offers."""
    if raw["kind"] != "Node":
        return raw
    return {**raw, "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"}}}


def _owner(number: int) -> Json:
    """The pod that a claim is made for."""
    name, uid = f"pod-{number:05}", f"pod-{number}"
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": True}


def _pod(number: int, claim: str) -> Pod:
    """A pod of a template with our gate, as a watch reads it once its claim was made: with a token of its
    own.
    """
    token = f"kube-api-access-{number:05}"
    requests = {"requests": {"cpu": "2", "memory": "8Gi"}}
    main = {
        "name": "main",
        "image": "none",
        "resources": requests,
        "volumeMounts": [{"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
    }
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number:05}", "namespace": "default", "uid": f"pod-{number}"},
        "spec": {
            "schedulingGates": [{"name": GATE}],
            "containers": [main],
            "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {}}]}}],
            "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": "devices"}],
        },
        "status": {
            "phase": "Pending",
            "resourceClaimStatuses": [{"name": "devices", "resourceClaimName": claim}],
        },
    }
    found = decode("Pod", "v1", json.dumps(raw).encode())
    assert isinstance(found, Pod)
    return found


WORKLOADS = [
    Workload(
        "burst",
        "claims of one GPU each of one template, as the process decides them, beside one by one",
        whole,
        {"": {"nodes": 1250, "claims": 1001}},
        tiny={"nodes": 4, "claims": 9},
    ),
    Workload(
        "burst-pods",
        "the same for pods with one GPU each",
        pods,
        {"": {"nodes": 1250, "claims": 1001}},
        tiny={"nodes": 4, "claims": 9},
    ),
]
