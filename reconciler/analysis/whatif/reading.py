"""Reads the units of a scenario from manifests: gangs, pods with claims, single claims and templates."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from reconciler.allocation.koordinator.demand import read_demand
from reconciler.allocation.placement import place
from reconciler.analysis.whatif.gangs import waiting_gang, with_gangs
from reconciler.analysis.whatif.scenario import Gang, Unit
from reconciler.api.koordinator.names import ALLOCATED
from reconciler.api.manifests.bundle import Bundle, Entry
from reconciler.api.manifests.templates import claim_from_template
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import CoschedulingPodGroup, PodGroup, group_claims
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.pods import is_live
from reconciler.api.versions.reading import typed
from reconciler.errors import Malformed
from reconciler.state.koordinator.rules import Rules
from reconciler.state.pods.groups import PodGroups

MAX_UNITS = 100
"""Maximum units of one copy"""
MAX_MEMBERS = 1_000
"""Maximum pods of all gangs of one copy"""


def units_in(bundle: Bundle, machine_rules: Rules | None = None) -> tuple[Unit | Gang, ...]:
    """The units of one copy, in the order in which they are placed.

    Raises Rejected for a pod with a missing claim or template, for a gang without a valid declaration, and
    for too many units. Allocated claims are not units: they belong to the baseline. A template is one claim.
    Pods that request Koordinator's devices are units only with `machine_rules`. A gang is one unit, at the
    position of its first pod; pods that are bound are not among its members.
    """
    alone = single_units(bundle, machine_rules)
    units = tuple(
        with_gangs(alone, groups_of([*bundle.of(PodGroup), *bundle.of(CoschedulingPodGroup)]), machine_rules)
    )
    if len(units) > MAX_UNITS:
        what = "gangs, pods and claims" if len(units) < len(alone) else "pods and claims"
        raise Malformed("the input", "", f"has {len(units)} {what}; the maximum is {MAX_UNITS}")
    pods = sum(len(unit.members) for unit in units if isinstance(unit, Gang))
    if pods > MAX_MEMBERS:
        raise Malformed("the input", "", f"has {pods} pods of gangs; the maximum is {MAX_MEMBERS}")
    return units


def single_units(bundle: Bundle, machine_rules: Rules | None = None) -> tuple[Unit, ...]:
    """The pods and claims of one copy in the order in which they are placed, those of gangs one by one.

    Raises as `units_in`, but for any number.
    """
    return tuple(sorted(_units(bundle, machine_rules), key=lambda unit: place(unit.pod or unit.claims[0])))


def groups_of(objects: Iterable[ApiObject]) -> PodGroups:
    """The PodGroups among objects."""
    found = PodGroups()
    for group in objects:
        if isinstance(group, PodGroup | CoschedulingPodGroup):
            found.note(Changed(type(group).__name__, group))
    return found


def _units(bundle: Bundle, machine_rules: Rules | None) -> Iterator[Unit]:
    claims = {claim.key: claim for claim in bundle.of(ResourceClaim) if claim.allocation is None}
    templates = bundle.entries.get(ResourceClaimTemplate.__name__, {})
    groups = {group.key: group for group in bundle.of(PodGroup)}
    used: set[tuple[str, ObjectKey]] = set()
    for pod in bundle.of(Pod):
        found = tuple(_of_pod(pod, groups, claims, templates, used))
        waits = machine_rules is not None and _waits_for_devices(pod, machine_rules)
        if found or waits or waiting_gang(pod) is not None:
            yield Unit(f"pod {pod.key}", tuple({claim.key: claim for claim in found}.values()), pod)
    for key, claim in claims.items():
        if ("claim", key) not in used:
            yield Unit(f"claim {key}", (claim,))
    for key, entry in templates.items():
        if ("template", key) not in used:
            yield Unit(f"template {key}", (_claim(_from_template(key, entry.raw)),))


def _waits_for_devices(pod: Pod, rules: Rules) -> bool:
    """Whether a pod requests Koordinator's devices and has none."""
    return ALLOCATED not in pod.metadata.annotations and is_live(pod) and read_demand(pod, rules) is not None


def _of_pod(
    pod: Pod,
    groups: Mapping[ObjectKey, PodGroup],
    claims: Mapping[ObjectKey, ResourceClaim],
    templates: Mapping[ObjectKey, Entry],
    used: set[tuple[str, ObjectKey]],
) -> Iterator[ResourceClaim]:
    named = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
    group = groups.get(ObjectKey(pod.key.namespace, named or ""))
    of_group = group_claims(pod, group) if group is not None else {}
    for entry in pod.spec.resource_claims:
        maker = group if group is not None and entry.name in of_group else pod
        name, template = entry.resource_claim_name, entry.resource_claim_template_name
        key = ObjectKey(pod.key.namespace, name or template or "")
        used.add(("claim" if name else "template", key))
        if name and key in claims:
            yield claims[key]
        elif template and key in templates:
            yield _claim(claim_from_template(maker, entry.name, templates[key].raw))
        else:
            where = f"spec.resourceClaims[{entry.name}]"
            what = f"unallocated claim {key}" if name else f"template {key}"
            raise Malformed(f"Pod {pod.key}", where, f"{what} is missing; add it to the same file")


def _from_template(key: ObjectKey, raw: Mapping[str, Any]) -> dict[str, Any]:
    given = raw["spec"].get("metadata") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**given, "name": key.name, "namespace": key.namespace},
        "spec": raw["spec"]["spec"],
    }


def _claim(raw: Mapping[str, Any]) -> ResourceClaim:
    return cast("ResourceClaim", typed(raw))
