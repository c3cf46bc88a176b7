"""What a what-if analysis is asked: the units to place, read from manifests, and what is assumed."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct, structs

from reconciler.allocation.placement.order import queue_key
from reconciler.api.manifests.bundle import Bundle, Entry, claim_from_template
from reconciler.api.migrate.special_claims import (
    served_by_classes,
    typed_special_claim,
    unserved,
    with_special_claim,
)
from reconciler.api.objects import gangs
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.core import Pod, is_live
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import Semantics
from reconciler.api.plugins import holding, serving
from reconciler.api.versions.reading import typed
from reconciler.errors import Malformed, Rejected
from reconciler.state.on_demand import KindsOnDemand
from reconciler.state.pods.groups import NOT_FOUND, NoRules, PodGroups, rules_of
from reconciler.state.pods.placed import Placed, node_of, placed_by_group
from reconciler.state.store import Store


class Unit(Struct, frozen=True):
    """Unallocated claims that need one node together, or a pod that requests devices of a plugin."""

    name: str
    """For users: `claim default/a`, `pod default/p`"""
    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None
    """The pod that uses the claims, if any; it restricts the nodes"""
    held: tuple[ResourceClaim, ...] = ()
    """Claims of the pod that keep their devices"""

    def copy(self, mark: str) -> "Unit":
        """Another one that differs in its names, which have a space: no object on a server has such names."""
        pod = self.pod
        claims = tuple(claim.replacing("metadata", uid=f"{mark} {claim.key}") for claim in self.claims)
        named = pod.replacing("metadata", name=f"{mark} {pod.key.name}") if pod is not None else None
        return Unit(self.name, claims, named)


class Gang(Struct, frozen=True):
    """Pods of which enough must fit together, or none."""

    key: gangs.GangKey
    members: tuple[Unit, ...]
    """Pods without a place, in the order of `placement.place`; claims may be in several of them"""
    rules: gangs.GangRules | NoRules
    """What it needs, or why it cannot be placed anywhere"""
    placed: Mapping[str, Placed] = {}
    """The members that keep their place, by their group"""

    @property
    def name(self) -> str:
        """For users: `gang default/g`."""
        return f"gang {self.key}"


class Scenario(Struct, frozen=True):
    """Units to place under assumptions. Without units: which claims are lost, and where they fit instead."""

    units: tuple[Unit | Gang, ...] = ()
    """The units of one copy"""
    count: int | None = None
    """Number of copies; None means as many as fit"""
    without: frozenset[ObjectKey] = frozenset()
    """Claims that are assumed to hold no devices, and pods with devices of plugins, assumed to be gone"""
    drained: frozenset[str] = frozenset()
    """Nodes that are assumed to be removed with their devices"""


_ALL_KNOWN = KindsOnDemand(None)


def with_gangs(units: Sequence[Unit], groups: PodGroups, *, of_plugins: bool) -> Iterator[Unit | Gang]:
    """The units in their order; the pods of a gang as one, in the place of its first pod.

    Raises Rejected for a gang whose rules cannot be used, but not for a gate that is off.
    """
    members: dict[gangs.GangKey, list[Unit]] = {}
    for unit in units:
        if (gang := waiting_gang(unit.pod, groups)) is not None:
            members.setdefault(gang, []).append(unit)
    rules = {gang: _rules(gang, found, groups) for gang, found in members.items()}
    for unit in units:
        gang = waiting_gang(unit.pod, groups)
        known = rules[gang] if gang is not None else None
        if gang is None or known is None:
            if unit.claims or (unit.pod is not None and _waits_without_claims(unit.pod, of_plugins)):
                yield unit
        elif gang in members:
            yield Gang(gang, tuple(members.pop(gang)), known)


def waiting_gang(pod: Pod | None, groups: PodGroups | None = None) -> gangs.GangKey | None:
    """The gang that a pod names, or the root of its tree, unless the pod is bound or finished."""
    named = gangs.gang_of(pod) if pod is not None and not pod.spec.node_name and is_live(pod) else None
    return groups.root(named) if groups is not None and named is not None else named


def moved_together(
    units: Sequence[Unit], store: Store, groups: PodGroups, drained: Collection[str]
) -> Iterator[Unit | Gang]:
    """The units that lose their nodes, in their order. Those of a gang are placed together, beside the rest.

    A gang whose rules cannot be used is as none.
    """
    lost = {unit.pod.key: unit for unit in units if unit.pod is not None}
    of_gang: dict[gangs.GangKey, list[Pod]] = {}
    for pod in store.pods.values() if lost else ():
        if is_live(pod) and (gang := gangs.gang_of(pod)) is not None:
            of_gang.setdefault(groups.root(gang), []).append(pod)
    done: set[gangs.GangKey] = set()
    for unit in units:
        named = gangs.gang_of(unit.pod) if unit.pod is not None else None
        gang = groups.root(named) if named is not None else None
        rules = rules_of(gang, of_gang[gang], groups, _ALL_KNOWN) if gang in of_gang and gang else None
        if gang is None or not isinstance(rules, gangs.GangRules):
            yield unit
        elif gang not in done:
            done.add(gang)
            pods = of_gang[gang]
            stay = [pod for pod in pods if pod.key not in lost and node_of(pod, store) not in ("", *drained)]
            members = tuple(unit for unit in units if unit.pod in pods)
            yield Gang(gang, members, rules, placed_by_group(stay, rules, store))


def _rules(
    gang: gangs.GangKey, members: Sequence[Unit], groups: PodGroups
) -> gangs.GangRules | NoRules | None:
    """What a gang needs, or which gate is off; None if its PodGroup is no gang. Raises Rejected."""
    pods = [unit.pod for unit in members if unit.pod is not None]
    found = rules_of(gang, pods, groups, _ALL_KNOWN)
    if isinstance(found, NoRules) and found.reason != Reason.FEATURE_DISABLED:
        more = "; add it to the same file" if found.reason == NOT_FOUND else ""
        raise Rejected(f"{found.message}{more}")
    return found


MAX_UNITS = 100
"""Maximum units of one copy"""
MAX_MEMBERS = 1_000
"""Maximum pods of all gangs of one copy"""


def units_in(bundle: Bundle, rules: Semantics, *, of_plugins: bool = False) -> tuple[Unit | Gang, ...]:
    """The units of one copy, in the order in which they are placed.

    Raises Rejected for a pod with a missing claim or template, for a gang without a valid declaration, and
    for too many units. Allocated claims are not units: they belong to the baseline. A template is one claim.
    Pods that request devices of plugins are units only with `of_plugins`. A gang is one unit, at the
    position of its first pod; pods that are bound are not among its members.
    """
    alone = _in_order(_units(bundle, rules, lambda pod: _waits_without_claims(pod, of_plugins)))
    units = tuple(
        with_gangs(
            alone,
            groups_of([one for kind in gangs.GROUPS for one in bundle.of(kind)], rules),
            of_plugins=of_plugins,
        )
    )
    if len(units) > MAX_UNITS:
        what = "gangs, pods and claims" if len(units) < len(alone) else "pods and claims"
        raise Malformed("the input", "", f"has {len(units)} {what}; the maximum is {MAX_UNITS}")
    pods = sum(len(unit.members) for unit in units if isinstance(unit, Gang))
    if pods > MAX_MEMBERS:
        raise Malformed("the input", "", f"has {pods} pods of gangs; the maximum is {MAX_MEMBERS}")
    return units


def single_units(bundle: Bundle, rules: Semantics) -> tuple[Unit, ...]:
    """The pods with claims and the claims of one copy in the order in which they are placed, those of gangs
    one by one.

    Raises as `units_in`, but for any number.
    """
    return _in_order(_units(bundle, rules, lambda _: False))


def _in_order(units: Iterable[Unit]) -> tuple[Unit, ...]:
    return tuple(sorted(units, key=lambda unit: queue_key(unit.pod or unit.claims[0])))


def groups_of(objects: Iterable[ApiObject], rules: Semantics) -> PodGroups:
    """The PodGroups among objects."""
    found = PodGroups(rules.gates)
    for group in objects:
        if isinstance(group, gangs.GROUPS):
            found.note(Changed(type(group).__name__, group))
    return found


def _units(bundle: Bundle, rules: Semantics, waits: Callable[[Pod], bool]) -> Iterator[Unit]:
    """`waits` is asked for pods without claims."""
    claims = {claim.key: claim for claim in bundle.of(ResourceClaim) if claim.allocation is None}
    templates = bundle.entries.get(ResourceClaimTemplate.__name__, {})
    groups = {group.key: group for group in bundle.of(gangs.PodGroup)}
    used: set[tuple[str, ObjectKey]] = set()
    for pod in bundle.of(Pod):
        found = tuple(_of_pod(pod, groups, claims, templates, used, gangs.unmade_claims(rules)))
        if found or waits(pod) or waiting_gang(pod) is not None:
            yield Unit(f"pod {pod.key}", tuple({claim.key: claim for claim in found}.values()), pod)
    for key, claim in claims.items():
        if ("claim", key) not in used:
            yield Unit(f"claim {key}", (claim,))
    for key, entry in templates.items():
        if ("template", key) not in used:
            yield Unit(f"template {key}", (_claim(_from_template(key, entry.raw)),))


def _waits_without_claims(pod: Pod, of_plugins: bool) -> bool:
    """Whether a pod has no devices and may request some without claims: extended resources, which a class may
    serve, or devices of a plugin.
    """
    if holding(pod) is not None or pod.special_claim or pod.spec.node_name or not is_live(pod):
        return False
    return of_plugins if serving(pod) is not None else pod.may_ask_for_extended_resources


def with_special_claims(
    units: Iterable[Unit | Gang], classes: Mapping[str, DeviceClass], rules: Semantics, *, of_plugins: bool
) -> Iterator[Unit | Gang]:
    """The units with the claims that kube-scheduler would make for the extended resources that classes serve.

    Pods for whose resources no class and no plugin has devices are left out. Gangs get no such claims. Raises
    Rejected if the feature gate is off, and if a gang requests devices of a plugin.

    of_plugins  whether plugins have devices: a pod that requests these is theirs, as for `run`
    """
    for unit in units:
        if isinstance(unit, Gang):
            yield _judged(unit, classes, rules, of_plugins=of_plugins)
        elif unit.pod is None or (of_plugins and serving(unit.pod) is not None):
            yield unit
        else:
            made = _with_special_claim(unit, unit.pod, classes, rules)
            if made.claims or serving(unit.pod) is not None:
                yield made


def _judged(gang: Gang, classes: Mapping[str, DeviceClass], rules: Semantics, *, of_plugins: bool) -> Gang:
    pods = [one.pod for one in gang.members if one.pod is not None]
    none = next(filter(None, (unserved(pod, classes, rules) for pod in pods)), None)
    asking = next((pod for pod in pods if serving(pod) is not None), None)
    if asking is not None and (of_plugins or none is None):
        why = f"requests {serving(asking).title}; gangs may use ResourceClaims only"
        raise Malformed(f"Pod {asking.key}", "", why)
    return gang if none is None else structs.replace(gang, rules=NoRules(none.reason, none.message))


def _with_special_claim(unit: Unit, pod: Pod, classes: Mapping[str, DeviceClass], rules: Semantics) -> Unit:
    served = served_by_classes(pod, classes) if not pod.special_claim else {}
    if not served:
        return unit
    if (none := unserved(pod, classes, rules)) is not None:
        raise Rejected(f"pod {pod.key}: {none.message}")
    claim = typed_special_claim(pod, served)
    return structs.replace(unit, claims=(*unit.claims, claim), pod=with_special_claim(pod, claim.key.name))


def _of_pod(
    pod: Pod,
    groups: Mapping[ObjectKey, gangs.PodGroup],
    claims: Mapping[ObjectKey, ResourceClaim],
    templates: Mapping[ObjectKey, Entry],
    used: set[tuple[str, ObjectKey]],
    unmade: str,
) -> Iterator[ResourceClaim]:
    named = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
    group = groups.get(ObjectKey(pod.key.namespace, named or ""))
    of_group = gangs.group_claims(pod, group) if group is not None else {}
    for entry in pod.spec.resource_claims:
        maker = group if group is not None and entry.name in of_group else pod
        name, template = entry.resource_claim_name, entry.resource_claim_template_name
        key = ObjectKey(pod.key.namespace, name or template or "")
        used.add(("claim" if name else "template", key))
        if name and key in claims:
            yield claims[key]
        elif template and unmade and maker is not pod:
            raise Rejected(
                f"Pod {pod.key}: spec.resourceClaims[{entry.name}] is a claim of its PodGroup; {unmade}"
            )
        elif template and key in templates:
            yield _claim(claim_from_template(maker, entry.name, templates[key].raw))
        else:
            where = f"spec.resourceClaims[{entry.name}]"
            what = f"unallocated claim {key}" if name else f"template {key}"
            remedy = "add it to the same file, or move a pod that has its devices to a second -f"
            raise Malformed(f"Pod {pod.key}", where, f"{what} is missing; {remedy}")


def _from_template(key: ObjectKey, raw: Mapping[str, Any]) -> dict[str, Any]:
    spec = raw.get("spec") or {}
    given = spec.get("metadata") or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {**given, "name": key.name, "namespace": key.namespace},
        "spec": spec.get("spec") or {},
    }


def _claim(raw: Mapping[str, Any]) -> ResourceClaim:
    return cast("ResourceClaim", typed(raw))
