"""Reads the units of a scenario from manifests: pods with their claims, and single claims and templates."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from reconciler.allocation.koordinator.demand import read_demand
from reconciler.allocation.placement import place
from reconciler.analysis.whatif.scenario import Unit
from reconciler.api.koordinator.names import ALLOCATED
from reconciler.api.manifests.bundle import Bundle, Entry
from reconciler.api.manifests.templates import claim_from_template
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.pods import is_live
from reconciler.api.versions.reading import typed
from reconciler.errors import Malformed
from reconciler.state.koordinator.rules import Rules

MAX_UNITS = 100
"""Maximum units of one copy"""


def units_in(
    bundle: Bundle, machine_rules: Rules | None = None, *, most: int | None = MAX_UNITS
) -> tuple[Unit, ...]:
    """The units of one copy, in the order in which they are placed.

    Raises Malformed for a pod with a missing claim or template, and for more than `most` units. Allocated
    claims are not units: they belong to the baseline. A template is one claim. Pods that request
    Koordinator's devices are units only with `machine_rules`.
    """
    units = tuple(sorted(_units(bundle, machine_rules), key=lambda unit: place(unit.pod or unit.claims[0])))
    if most is not None and len(units) > most:
        raise Malformed("the input", "", f"has {len(units)} pods and claims; the maximum is {most}")
    return units


def _units(bundle: Bundle, machine_rules: Rules | None) -> Iterator[Unit]:
    claims = {claim.key: claim for claim in bundle.of(ResourceClaim) if claim.allocation is None}
    templates = bundle.entries.get(ResourceClaimTemplate.__name__, {})
    used: set[tuple[str, ObjectKey]] = set()
    for pod in bundle.of(Pod):
        found = tuple(_of_pod(pod, claims, templates, used))
        if found or (machine_rules is not None and _waits_for_devices(pod, machine_rules)):
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
    claims: Mapping[ObjectKey, ResourceClaim],
    templates: Mapping[ObjectKey, Entry],
    used: set[tuple[str, ObjectKey]],
) -> Iterator[ResourceClaim]:
    for entry in pod.spec.resource_claims:
        name, template = entry.resource_claim_name, entry.resource_claim_template_name
        key = ObjectKey(pod.key.namespace, name or template or "")
        used.add(("claim" if name else "template", key))
        if name and key in claims:
            yield claims[key]
        elif template and key in templates:
            yield _claim(claim_from_template(pod, entry.name, templates[key].raw))
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
