"""Reads a demand: from Demand documents, from manifests, or from what is pending on a cluster."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from reconciler.allocation.placement import place
from reconciler.analysis.sizing.demand import Item, items_of
from reconciler.analysis.whatif.reading import single_units
from reconciler.analysis.whatif.scenario import Unit
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.pods import claims_of, is_live
from reconciler.api.objects.similar_names import instead
from reconciler.api.versions.reading import to_v1, typed
from reconciler.errors import Malformed

KIND = "Demand"
VERSION = "dra-reconciler.io/v1alpha1"
MOST = 100_000
"""Most copies of one item"""
_REFERENCES = ("pod", "claim", "template")
_FIELDS = {"name", "count", "spec", *_REFERENCES}


def items_in(bundle: Bundle) -> tuple[Item, ...]:
    """The items of all Demand documents; without one, each pending claim, each template and each pod once.

    The claims, templates and pods that a Demand names are in the same manifests. Raises Malformed.
    """
    units = single_units(bundle)
    asked = [one for one in bundle.others.values() if one.raw.get("kind") == KIND]
    if not asked:
        return items_of((unit, 1) for unit in units)
    by_name = {unit.name: unit for unit in units}
    found: list[tuple[Unit, int]] = []
    for document in asked:
        subject = f"{document.origin}: {KIND}"
        if document.raw.get("apiVersion") != VERSION:
            raise Malformed(subject, "apiVersion", f"must be {VERSION}")
        items = document.raw.get("items")
        if not isinstance(items, list) or not items:
            raise Malformed(subject, "items", "must be a list of at least one item")
        for number, raw in enumerate(items):
            found.append(_item(raw, f"items[{number}]", subject, by_name))
    if not any(count for _, count in found):
        raise Malformed(subject, "items", "must ask for something: set the count of one to 1 or more")
    return items_of(found)


def pending_units(objects: Iterable[ApiObject]) -> tuple[Unit, ...]:
    """The pending claims among all objects of a cluster, those of one pod together, in their order.

    Claims of finished or bound pods are left out.
    """
    objects = tuple(objects)
    claims = {one.key: one for one in objects if isinstance(one, ResourceClaim) and one.allocation is None}
    used: set[ObjectKey] = set()
    found = []
    for pod in (one for one in objects if isinstance(one, Pod)):
        own = tuple(claims[key] for key in claims_of(pod) if key in claims)
        used.update(claim.key for claim in own)
        if own and is_live(pod) and not pod.spec.node_name:
            found.append(Unit(f"pod {pod.key}", own, pod))
    found += [Unit(f"claim {key}", (claim,)) for key, claim in claims.items() if key not in used]
    return tuple(sorted(found, key=lambda unit: place(unit.pod or unit.claims[0])))


def _item(raw: object, where: str, subject: str, units: Mapping[str, Unit]) -> tuple[Unit, int]:
    if not isinstance(raw, Mapping):
        raise Malformed(subject, where, "must be an object")
    unknown = sorted(set(raw) - _FIELDS)
    if unknown:
        raise Malformed(
            subject, f"{where}.{unknown[0]}", f"is not known{instead(unknown[0], sorted(_FIELDS), 'fields')}"
        )
    count = raw.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST:
        raise Malformed(subject, f"{where}.count", f"must be a whole number from 0 to {MOST}")
    given = [field for field in ("spec", *_REFERENCES) if raw.get(field) is not None]
    if len(given) != 1:
        raise Malformed(subject, where, "must have exactly one of spec, pod, claim and template")
    name = raw.get("name")
    if not isinstance(name, str | None):
        raise Malformed(subject, f"{where}.name", "must be a string")
    (field,) = given
    if field == "spec":
        claim = _claim(raw["spec"], name or "expected", f"{where}.spec", subject)
        return Unit(name or f"{where} of {KIND}", (claim,)), count
    unit = _named(field, raw[field], f"{where}.{field}", subject, units)
    return Unit(name or unit.name, unit.claims, unit.pod), count


def _claim(spec: Any, name: str, where: str, subject: str) -> ResourceClaim:
    raw = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    try:
        return cast("ResourceClaim", typed(to_v1(raw, [])))
    except Malformed as exc:
        raise Malformed(subject, f"{where}: {exc.field}", exc.reason) from exc


def _named(field: str, name: object, where: str, subject: str, units: Mapping[str, Unit]) -> Unit:
    if not isinstance(name, str):
        raise Malformed(subject, where, "must be a string, as NAMESPACE/NAME or NAME")
    full = f"{field} {name if '/' in name else f'default/{name}'}"
    if full not in units:
        known = [one for one in units if one.startswith(f"{field} ")]
        hint = instead(full, known, f"{field}s")
        raise Malformed(subject, where, f"names {full}, which is not pending in the same manifests{hint}")
    return units[full]
