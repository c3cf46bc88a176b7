"""The demand: items of equal units, from Demand documents, manifests or what is pending, and placing one."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, cast

from msgspec import Struct

from reconciler.allocation.placement.order import queue_key
from reconciler.analysis.whatif.question import Unit, single_units
from reconciler.analysis.world import NoFit, WantedPod, attempt
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.questions import AskedItem, Demand
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.similar_names import instead
from reconciler.api.objects.validating import validated
from reconciler.api.versions.reading import to_v1, typed
from reconciler.errors import Malformed
from reconciler.state.trial import Trial


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
        """One of the units."""
        return self.unit.copy(f"expected {self.number} {number}")


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
        for number, one in enumerate(validated(Demand, document.raw, subject).items):
            found.append((_unit(one, f"items[{number}]", subject, by_name), one.count))
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


def _unit(asked: AskedItem, where: str, subject: str, units: Mapping[str, Unit]) -> Unit:
    named = {"pod": asked.pod, "claim": asked.claim, "template": asked.template}
    given = {field: name for field, name in named.items() if name is not None}
    if len(given) + (asked.spec is not None) != 1:
        raise Malformed(subject, where, "must have exactly one of spec, pod, claim and template")
    if not given:
        claim = _claim(asked.spec, asked.name or "expected", f"{where}.spec", subject)
        return Unit(asked.name or f"{where} of {KIND}", (claim,))
    ((field, name),) = given.items()
    full = f"{field} {name if '/' in name else f'default/{name}'}"
    if full not in units:
        known = [one for one in units if one.startswith(f"{field} ")]
        hint = instead(full, known, f"{field}s")
        why = f"names {full}, which is not pending in the same manifests{hint}"
        raise Malformed(subject, f"{where}.{field}", why)
    unit = units[full]
    return Unit(asked.name or unit.name, unit.claims, unit.pod)


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


def place(unit: Unit, trial: Trial, steps: int) -> NoFit | None:
    """Place a unit, which holds its devices from now on; or why it does not fit.

    `steps` are the devices that one decision tries on one node.
    """
    found = attempt(WantedPod(unit.claims, unit.pod), trial, steps=steps)
    if isinstance(found, NoFit):
        return found
    trial.place(found.plans, unit.pod, found.node)
    return None
