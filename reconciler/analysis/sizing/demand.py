"""What is to be sized: items of equal units, made from units or read from manifests."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from reconciler.allocation.placement.order import queue_key
from reconciler.analysis.whatif.reading import single_units
from reconciler.analysis.whatif.scenario import Unit
from reconciler.analysis.world import claim_like, pod_like
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import instead
from reconciler.api.versions.reading import to_v1, typed
from reconciler.errors import Malformed


class Item(Struct, frozen=True):
    """A number of equal units."""

    unit: Unit
    """The first of them; the others differ in their names only"""
    count: int
    number: int
    """Position among the items"""

    @property
    def name(self) -> str:
        """For users: `pod default/p`, `claim default/c`, or the name in a Demand."""
        return self.unit.name

    def copy(self, number: int) -> Unit:
        """One of the units. No object on a server can have the uid of its claims and the name of its pod."""
        pod, mark = self.unit.pod, f"{self.number} {number}"
        return Unit(
            self.unit.name,
            tuple(claim_like(claim, f"expected {claim.key} {mark}") for claim in self.unit.claims),
            pod_like(pod, f"expected {pod.key.name} {mark}") if pod is not None else None,
        )


def items_of(counted: Iterable[tuple[Unit, int]]) -> tuple[Item, ...]:
    """The items of some units, each with its number. Equal units become one item, named after the first."""
    found: dict[Hashable, tuple[Unit, int]] = {}
    for unit, count in counted:
        key = _key_of_item(unit)
        first, before = found.get(key, (unit, 0))
        found[key] = first, before + count
    wanted = [entry for entry in found.values() if entry[1]]
    return tuple(Item(unit, count, number) for number, (unit, count) in enumerate(wanted))


def _key_of_item(unit: Unit) -> Hashable:
    """Equal for units that differ in their names only."""
    claims = tuple(claim.spec.model_dump_json() for claim in unit.claims)
    if unit.pod is None:
        return claims
    spec = unit.pod.spec.model_copy(update={"resource_claims": ()})
    labels = tuple(sorted(unit.pod.metadata.labels.items()))
    return claims, unit.pod.key.namespace, labels, spec.model_dump_json()


KIND = "Demand"
VERSION = "dra-reconciler.io/v1alpha1"
MOST = 100_000
"""Most copies of one item"""
_REFERENCES = ("pod", "claim", "template")
_FIELDS = {"name", "count", "spec", *_REFERENCES}


def items_in(bundle: Bundle, rules: Semantics) -> tuple[Item, ...]:
    """The items of all Demand documents; without one, each pending claim, each template and each pod once.

    The claims, templates and pods that a Demand names are in the same manifests. Raises Malformed.
    """
    units = single_units(bundle, rules)
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
    return tuple(sorted(found, key=lambda unit: queue_key(unit.pod or unit.claims[0])))


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
