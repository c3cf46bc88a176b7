"""The special claim: what kube-scheduler makes for extended resources of a pod that classes serve.

Source: EXT-1 to EXT-4. Only kube-scheduler can make it: it deletes one that it did not make itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.api.migrate.mapping import IMPLICIT, class_by_resource
from reconciler.api.objects.claims import SPECIAL_CLAIM, ResourceClaim
from reconciler.api.objects.core import Container, ExtendedResourceClaimStatus, Pod
from reconciler.api.objects.quantity import NANO, Quantity
from reconciler.api.versions import reading
from reconciler.api.versions.kinds import KINDS

_ALWAYS = "Always"


def served_by_classes(pod: Pod, classes: Mapping[str, Any]) -> dict[str, str]:
    """Extended resource that a pod requests -> the class that serves it (EXT-1). `classes` are by name."""
    if not pod.may_ask_for_extended_resources:
        return {}
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    wanted = {name for one in containers for name in _asked(one) if "/" in name and _devices(one, name)}
    found = class_by_resource(classes.values())
    found |= {f"{IMPLICIT}{name}": name for name in classes}
    return {name: found[name] for name in sorted(wanted) if name in found}


def special_claim(pod: Pod, served: Mapping[str, str]) -> dict[str, Any]:
    """The claim for the resources of a pod that classes serve, without the suffix that a server adds."""
    metadata: dict[str, Any] = {
        "name": special_name(pod),
        "namespace": pod.key.namespace,
        "annotations": {SPECIAL_CLAIM: "true"},
    }
    if pod.metadata.uid:  # an owner reference needs a uid
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.key.name, "uid": pod.metadata.uid}
        metadata["ownerReferences"] = [{**owner, "controller": True}]
    found: dict[str, Any] = {}
    for resource, device_class in served.items():
        for at, count in requests_for(pod, resource)[0].items():
            exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
            found[_name(pod, at, resource)] = exactly
    requests = [{"name": name, "exactly": found[name]} for name in sorted(found)]
    return {
        "apiVersion": KINDS["ResourceClaim"].in_shape[0],
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": requests}},
    }


def is_special(claim: Mapping[str, Any]) -> bool:
    """Whether a claim is, or would be, made by kube-scheduler for extended resources."""
    return SPECIAL_CLAIM in (claim["metadata"].get("annotations") or {})


def request_mappings(pod: Pod, served: Iterable[str]) -> list[dict[str, str]]:
    """Which request of the special claim is for which container, as the status of the pod says it."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return [
        {
            "containerName": containers[user].name,
            "resourceName": resource,
            "requestName": _name(pod, at, resource),
        }
        for resource in served
        for user, at in requests_for(pod, resource)[1]
    ]


def requests_for(pod: Pod, resource: str) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Container -> devices of the request that is named after it, and pairs of a container and a container
    whose request it uses (EXT-3).

    Init containers that end use what containers after them need anyway, and only one request for the rest.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    counts = {at: _devices(one, resource) for at, one in enumerate(containers)}
    ending = {at for at in range(len(pod.spec.init_containers)) if containers[at].restart_policy != _ALWAYS}
    made = {at: count for at, count in counts.items() if count and at not in ending}
    uses = [(at, at) for at in made]
    lacking: dict[int, int] = {}
    brief: list[tuple[int, int]] = []
    for at in sorted(at for at in ending if counts[at]):
        left = counts[at]
        for later, count in made.items():
            if later > at and left > 0:
                brief.append((at, later))
                left -= count
        if left > 0:
            lacking[at] = left
            brief.append((at, at))
    if lacking:
        most = max(lacking, key=lacking.__getitem__)  # the first of equal ones
        made[most] = lacking[most]
        brief = [(user, most if at == user else at) for user, at in brief]
    return made, uses + brief


def with_special_claim(pod: Pod, name: str) -> Pod:
    """The pod as kube-scheduler leaves it once it has made its special claim."""
    found = ExtendedResourceClaimStatus(resource_claim_name=name)
    status = pod.status.model_copy(update={"extended_resource_claim_status": found})
    return pod.model_copy(update={"status": status})


def typed_special_claim(pod: Pod, served: Mapping[str, str]) -> ResourceClaim:
    """`special_claim` as an object. No claim on a server has its uid."""
    claim = reading.typed(special_claim(pod, served))
    assert isinstance(claim, ResourceClaim)
    metadata = claim.metadata.model_copy(update={"uid": f"special {pod.metadata.uid}"})
    return claim.model_copy(update={"metadata": metadata})


def special_name(pod: Pod) -> str:
    """The name of the claim, without the random suffix of a server."""
    return f"{pod.key.name}-extended-resources"


def _name(pod: Pod, at: int, resource: str) -> str:
    container = (*pod.spec.init_containers, *pod.spec.containers)[at]
    return f"container-{at}-request-{sorted(_asked(container)).index(resource)}"


def _asked(container: Container) -> Mapping[str, Quantity]:
    """The requests, as a server completes them from the limits."""
    return {**container.resources.limits, **container.resources.requests}


def _devices(container: Container, resource: str) -> int:
    """How many devices a container asks for; 0 for what is no whole number, as in kube-scheduler."""
    asked = _asked(container).get(resource)
    return asked.nanos // NANO if asked is not None and not asked.nanos % NANO else 0
