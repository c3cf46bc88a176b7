"""What a Workload asks for: its pods as they will be created, as gangs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct

from reconciler.allocation.gangs.question import GangQuestion, Member
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import WORKLOAD, Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.kueue import ResourceFlavor, TopologyRequest, Workload, WorkloadPodSet
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.label_keys import with_label_keys
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected

MAX_PODS = 10_000
"""Of one Workload"""


class Known(Struct, frozen=True):
    """Objects that a Workload refers to."""

    flavors: Mapping[ObjectKey, ResourceFlavor]
    templates: Mapping[ObjectKey, ResourceClaimTemplate]
    claims: Mapping[ObjectKey, ResourceClaim]


def questions_of(
    workload: Workload, known: Known, restricted: Callable[[ResourceClaim], ResourceClaim]
) -> tuple[GangQuestion, ...]:
    """The gangs that have to fit together: sets with a topology each on their own, all others as one.

    `restricted` limits a claim to devices that are ours. Raises Rejected for a pod that cannot be created as
    the Workload says, and for an object that does not exist.
    """
    pods = sum(one.count for one in _sets(workload))
    if pods > MAX_PODS:
        raise Rejected(f"Workload {workload.key} has {pods} pods; the maximum is {MAX_PODS}")
    free: list[Member] = []
    found: list[GangQuestion] = []
    for asked in _sets(workload):
        members = tuple(_members(asked, workload, known, restricted))
        tiers = tuple(_tiers(asked.topology_request))
        if not tiers:
            free += members
        elif members:
            found.append(_question(workload, asked.name, members, tiers))
    if free:
        found.append(_question(workload, "", tuple(free), ()))
    return tuple(found)


def pods_of(workload: Workload) -> int:
    """How many pods it will have."""
    return sum(one.count for one in _sets(workload))


def _question(
    workload: Workload, name: str, members: tuple[Member, ...], tiers: tuple[Tier, ...]
) -> GangQuestion:
    key = GangKey(workload.key.namespace, GangSource.ANNOTATION, f"{workload.key.name} {name}".strip())
    return GangQuestion(key, members, len(members), tiers)


def _sets(workload: Workload) -> Iterator[WorkloadPodSet]:
    """The sets with the counts for which quota is reserved."""
    admission = workload.status.admission
    counts = {one.name: one.count for one in (admission.pod_set_assignments if admission else ())}
    for one in workload.spec.pod_sets:
        count = counts.get(one.name)
        yield one if count is None else one.model_copy(update={"count": count})


def _tiers(request: TopologyRequest | None) -> Iterator[Tier]:
    if request is not None and request.preferred:
        yield Tier(request.preferred, required=False)
    if request is not None and request.required:
        yield Tier(request.required, required=True)


def _members(
    asked: WorkloadPodSet,
    workload: Workload,
    known: Known,
    restricted: Callable[[ResourceClaim], ResourceClaim],
) -> Iterator[Member]:
    if not asked.count:
        return
    first = _pod(asked, workload, known)
    made, shared, held = _claims(first, workload, known, restricted)
    for number in range(asked.count):
        name = f"{workload.key.name} {asked.name} {number}"
        metadata = first.metadata.model_copy(update={"name": name})
        own = tuple(
            claim.model_copy(
                update={"metadata": claim.metadata.model_copy(update={"uid": f"workload {name} {at}"})}
            )
            for at, claim in enumerate(made)
        )
        yield Member(first.model_copy(update={"metadata": metadata}), (*own, *shared), held)


def _pod(asked: WorkloadPodSet, workload: Workload, known: Known) -> Pod:
    """One of the pods, with what Kueue adds to it. Raises Malformed."""
    given = asked.template.get("metadata") or {}
    spec = dict(asked.template.get("spec") or {})
    labels, tolerations = _of_flavors(asked, workload, known)
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **labels}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *tolerations]
    annotations = {**(given.get("annotations") or {}), WORKLOAD: workload.key.name}
    raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": asked.name,
            "namespace": workload.key.namespace,
            "labels": given.get("labels") or {},
            "annotations": annotations,
        },
        "spec": spec,
    }
    pod = cast("Pod", read(with_label_keys(raw)))
    priority = pod.spec.priority if pod.spec.priority is not None else workload.spec.priority
    return pod.model_copy(update={"spec": pod.spec.model_copy(update={"priority": priority})})


def _of_flavors(
    asked: WorkloadPodSet, workload: Workload, known: Known
) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Node labels and tolerations of the flavors for which quota is reserved."""
    admission = workload.status.admission
    assigned = {one.name: one for one in (admission.pod_set_assignments if admission else ())}
    labels: dict[str, str] = {}
    tolerations: list[dict[str, Any]] = []
    found = assigned.get(asked.name)
    for name in dict.fromkeys(found.flavors.values() if found is not None else ()):
        flavor = known.flavors.get(ObjectKey("", name))
        if flavor is None:
            raise Rejected(f"ResourceFlavor {name} does not exist")
        labels |= flavor.spec.node_labels
        tolerations += flavor.spec.tolerations
    return labels, tolerations


def _claims(
    pod: Pod, workload: Workload, known: Known, restricted: Callable[[ResourceClaim], ResourceClaim]
) -> tuple[list[ResourceClaim], tuple[ResourceClaim, ...], tuple[ResourceClaim, ...]]:
    """Claims that each pod has for itself, claims to be allocated that all share, and allocated ones."""
    made: list[ResourceClaim] = []
    named: list[ResourceClaim] = []
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            named.append(_known(known.claims, entry.resource_claim_name, "ResourceClaim", workload))
            continue
        template = _known(
            known.templates, entry.resource_claim_template_name or "", "ResourceClaimTemplate", workload
        )
        given = template.spec.metadata
        metadata = {
            "name": f"{pod.key.name}-{entry.name}",
            "namespace": workload.key.namespace,
            "labels": given.labels,
            "annotations": given.annotations,
        }
        made.append(
            restricted(ResourceClaim.model_validate({"metadata": metadata, "spec": template.spec.spec}))
        )
    return made, tuple(_without(named, restricted)), tuple(one for one in named if one.allocation is not None)


def _without(
    named: Iterable[ResourceClaim], restricted: Callable[[ResourceClaim], ResourceClaim]
) -> Iterator[ResourceClaim]:
    return (restricted(one) for one in named if one.allocation is None)


def _known(objects: Mapping[ObjectKey, Any], name: str, kind: str, workload: Workload) -> Any:
    found = objects.get(ObjectKey(workload.key.namespace, name))
    if found is None:
        raise Rejected(f"{kind} {workload.key.namespace}/{name} does not exist")
    return found
