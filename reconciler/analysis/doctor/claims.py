"""Checks of claims: what they request and hold, and which ones pods use."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Mask
from reconciler.analysis.capacity.use import held_under_taint
from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import DoctorInput, Finding
from reconciler.analysis.doctor.manifests import nested
from reconciler.analysis.doctor.slices import is_complete, newest
from reconciler.api.manifests.bundle import Entry
from reconciler.api.manifests.documents import Origin
from reconciler.api.objects import claims as api
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.gangs import MAX_DEPTH, CompositePodGroup, GangKey, GangSource, PodGroup
from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.semantics import COMPOSITE_GROUPS
from reconciler.api.objects.similar_names import suggestion
from reconciler.api.objects.slices import DeviceTaintRule
from reconciler.api.objects.validating import subject_of
from reconciler.api.validation.devices import MAX_COST, too_complex
from reconciler.api.validation.fields import Field, WrongType
from reconciler.api.validation.kinds import Judged
from reconciler.api.validation.pods import CONTAINERS, check_claims
from reconciler.api.versions.shapes import mapping, mappings
from reconciler.cel.program import FAILS, CelRefused, Selector, compile_derived, compile_selector
from reconciler.cel.reading import read
from reconciler.cel.reads import Part, inline, reads
from reconciler.cel.refusals import REFUSES
from reconciler.errors import shortened
from reconciler.state.devices.exclusion_modes import modes
from reconciler.state.pods.groups import PodGroups


class Selection(Struct, frozen=True):
    """The selectors of a class, or of one alternative of a request."""

    entry: Entry
    path: str
    """Path of the parent of `selectors`"""
    selectors: Sequence[api.DeviceSelector]
    class_name: str | None
    """None for a class"""
    derived: Sequence[api.DerivedAttribute] = ()


def selections(data: DoctorInput) -> Iterator[Selection]:
    """All selections of classes, claims, templates and old taint rules."""
    for entry, of_class in data.of(api.DeviceClass):
        yield Selection(entry, "spec", of_class.spec.selectors, None)
    for entry, claim in data.of(api.ResourceClaim):
        yield from _requests(entry, "spec", claim.spec.devices.requests)
    for entry, template in data.of(api.ResourceClaimTemplate):
        yield from _requests(entry, "spec.spec", template.spec.spec.devices.requests)
    for entry, rule in data.of(DeviceTaintRule):
        if (one := rule.spec.device_selector) is not None and (one.device_class_name or one.selectors):
            yield Selection(entry, "spec.deviceSelector", one.selectors, one.device_class_name)


def _requests(entry: Entry, path: str, requests: Sequence[api.DeviceRequest]) -> Iterator[Selection]:
    for number, request in enumerate(requests):
        where = f"{path}.devices.requests[{number}]"
        if request.exactly is not None:
            yield _selection(entry, f"{where}.exactly", request.exactly)
        for at, alternative in enumerate(request.first_available):
            yield _selection(entry, f"{where}.firstAvailable[{at}]", alternative)


def _selection(entry: Entry, path: str, request: api.DeviceSubRequest) -> Selection:
    return Selection(entry, path, request.selectors, request.device_class_name, request.derived_attributes)


def missing_class(data: DoctorInput) -> Iterator[Finding]:
    """References to classes that do not exist."""
    classes = data.snapshot.classes
    for one in selections(data):
        if one.class_name and one.class_name not in classes:
            what = f"DeviceClass {one.class_name} is not in the input"
            hint = suggestion(one.class_name, classes)
            yield findings.MISSING_CLASS.finding(one.entry, f"{one.path}.deviceClassName", what + hint)


def refused(data: DoctorInput) -> Iterator[Finding]:
    """Expressions that do not compile or are too complex, by themselves or all of a claim together."""
    spent: dict[tuple[int, str], int] = {}
    for one in selections(data):
        of_claim = (one.entry.number, one.path.partition(".requests[")[0])
        for path, expression in _expressions(one):
            yield from _objection(one.entry, path, REFUSES.selector(expression))
        for path, expression in _derived(one):
            judged = REFUSES.derived(expression)
            yield from _objection(one.entry, path, judged)
            before = spent.get(of_claim, 0)
            spent[of_claim] = before + judged.cost
            if before <= MAX_COST < spent[of_claim] and judged.cost <= MAX_COST:
                what = f"all derived attributes together: {too_complex(spent[of_claim])}"
                yield findings.SELECTOR_REFUSED.finding(one.entry, of_claim[1], what)


def _objection(entry: Entry, path: str, judged: Judged) -> Iterator[Finding]:
    why = judged.refusal or (too_complex(judged.cost) if judged.cost > MAX_COST else "")
    if why:
        yield findings.SELECTOR_REFUSED.finding(entry, path, why)


def raising(data: DoctorInput) -> Iterator[Finding]:
    """Expressions that fail on a device that all expressions before them select."""
    fleet = data.snapshot.fleet
    for one in selections(data):
        alive = _of_class(data, one)
        if isinstance(one.entry.object, DeviceTaintRule):
            continue  # it does not match such a device, and no more
        for path, expression in _expressions(one):
            selector = _compiled(expression)
            if alive is None or selector is None:
                break
            masks = selector.masks(fleet.cel)
            failing = np.flatnonzero(alive & masks.error).tolist()
            if failing:
                names = shortened(str(fleet.id_of(row)) for row in failing)
                why = selector.explain(fleet.cel, failing[0])
                yield findings.SELECTOR_RAISES.finding(one.entry, path, f"fails on {names}: {why}")
            alive = alive & masks.true
        else:
            if alive is not None:
                yield from _underived(data, one, alive)


def _underived(data: DoctorInput, one: Selection, alive: Mask) -> Iterator[Finding]:
    """Derived attributes that fail on a device that the request selects.

    alive  (D,) these devices
    """
    fleet = data.snapshot.fleet
    for path, expression in _derived(one):
        with suppress(CelRefused):
            derived = compile_derived(expression)
            failing = np.flatnonzero(alive & (derived.column(fleet.cel).codes == FAILS)).tolist()
            if failing:
                names = shortened(str(fleet.id_of(row)) for row in failing)
                why = derived.explain(fleet.cel, failing[0])
                yield findings.SELECTOR_RAISES.finding(one.entry, path, f"fails on {names}: {why}")


def matching_nothing(data: DoctorInput) -> Iterator[Finding]:
    """Classes that select no device; requests that select no device of their class."""
    if not data.snapshot.fleet.size:
        return
    for one in selections(data):
        of_class = _of_class(data, one)
        alive = _alive(data, one.selectors, of_class) if of_class is not None else None
        # A class that selects no device is reported once, at the class.
        if of_class is None or alive is None or not of_class.any() or alive.any():
            continue
        of = (
            f" of class {one.class_name}"
            if one.class_name and one.class_name in data.snapshot.classes
            else ""
        )
        what = f"0 of {int(of_class.sum())} devices{of} match"
        yield findings.MATCHES_NOTHING.finding(one.entry, f"{one.path}.selectors", what)


def foreign_domain(data: DoctorInput) -> Iterator[Finding]:
    """Domains in expressions that no device has."""
    fleet = data.snapshot.fleet
    known = {Part.ATTRIBUTES: fleet.cel.attributes, Part.CAPACITY: fleet.cel.capacity}
    drivers = {pool.id.driver for pool in fleet.pools}
    if not drivers:
        return
    for one in selections(data):
        for path, expression in _expressions(one):
            if _compiled(expression) is None:
                continue
            for which, domain in _domains(expression):
                domains = {of_device for of_device, _ in known[which]} | drivers
                if domain not in domains:
                    hint = suggestion(domain, domains) or f"; the devices have {shortened(sorted(domains))}"
                    what = f"no device has {which} in domain {domain}{hint}"
                    yield findings.FOREIGN_DOMAIN.finding(one.entry, path, what)


def _domains(expression: str) -> list[tuple[Part, str]]:
    """Domains that an expression reads. A domain that it also tests for is optional, so it is omitted."""
    found = reads(inline(read(expression)))
    tested = {(one.part, one.domain) for one in found if one.name is None}
    return sorted(
        {
            (one.part, one.domain)
            for one in found
            if one.domain is not None and (one.part, one.domain) not in tested
        }
    )


def _expressions(one: Selection) -> Iterator[tuple[str, str]]:
    for number, selector in enumerate(one.selectors):
        if selector.cel is not None:
            yield f"{one.path}.selectors[{number}].cel.expression", selector.cel.expression


def _derived(one: Selection) -> Iterator[tuple[str, str]]:
    for number, derived in enumerate(one.derived):
        yield f"{one.path}.derivedAttributes[{number}].expression", derived.expression


def _compiled(expression: str) -> Selector | None:
    try:
        return compile_selector(expression)
    except CelRefused:
        return None


def _of_class(data: DoctorInput, one: Selection) -> Mask | None:
    """(D,) devices of the class of a request; all without that class, None if it does not compile."""
    everything = np.ones(data.snapshot.fleet.size, dtype=np.bool_)
    known = data.snapshot.classes.get(one.class_name) if one.class_name else None
    return everything if known is None else _alive(data, known.spec.selectors, everything)


def _alive(data: DoctorInput, selectors: Sequence[api.DeviceSelector], alive: Mask) -> Mask | None:
    """(D,) the devices of `alive` that all selectors match. None if a selector does not compile."""
    for selector in selectors:
        compiled = _compiled(selector.cel.expression) if selector.cel is not None else None
        if compiled is None:
            return None
        alive = alive & compiled.masks(data.snapshot.fleet.cel).true
    return alive


Held = tuple[Entry, api.ResourceClaim, str, api.AllocatedDevice]


def _held(data: DoctorInput) -> Iterator[Held]:
    """Allocated devices, with claim and path; admin access does not reserve a device."""
    for entry, claim in data.of(api.ResourceClaim):
        results = claim.allocation.devices.results if claim.allocation is not None else ()
        for number, result in enumerate(results):
            if not result.admin_access:
                yield entry, claim, f"status.allocation.devices.results[{number}]", result


def doubly_held(data: DoctorInput) -> Iterator[Finding]:
    """Devices that two claims hold, at least one of them not as a share."""
    first: dict[DeviceID, tuple[api.ResourceClaim, api.AllocatedDevice]] = {}
    for entry, claim, path, result in _held(data):
        other, earlier = first.setdefault(result.id, (claim, result))
        if earlier is not result and not (result.share_id and earlier.share_id):
            what = f"{result.id} is also allocated to claim {other.key}"
            yield findings.DOUBLE_ALLOCATION.finding(entry, path, what)


def unknown_devices(data: DoctorInput) -> Iterator[Finding]:
    """Allocated devices that are not published. Only for complete pools."""
    published = {
        pool: {device.name for _, source in slices for device in source.spec.devices}
        for pool, slices in data.pools().items()
        if is_complete(newest(slices))
    }
    for entry, _, path, result in _held(data):
        names = published.get(PoolID(result.driver, result.pool))
        if names is not None and result.device not in names:
            what = f"{result.id} is not published{suggestion(result.device, names)}"
            yield findings.UNKNOWN_DEVICE.finding(entry, f"{path}.device", what)


def under_taint(data: DoctorInput) -> Iterator[Finding]:
    """Held devices with a NoExecute taint, of the slice or of a DeviceTaintRule."""
    for held in held_under_taint(data.snapshot):
        entry, path, _ = data.device(held.row)
        yield findings.HELD_UNDER_TAINT.finding(entry, path, str(held))


def at_odds(data: DoctorInput) -> Iterator[Finding]:
    """Allocated devices that exclude each other. The finding is at the slice of one of them."""
    for mode in modes(data.snapshot):
        for text in mode.conflicts:
            row = data.snapshot.fleet.rows_of(mode.held[0].device)[0]
            entry, path, _ = data.device(row)
            yield findings.HELD_AT_ODDS.finding(entry, path, f"{mode.pool} {mode.scope}: {text}")


_SOURCES = {"resourceClaimName": "ResourceClaim", "resourceClaimTemplateName": "ResourceClaimTemplate"}
"""Field of an entry -> the kind that it names"""
Requests = Mapping[tuple[str, ObjectKey], Collection[str]]
"""Kind and key -> the names of its requests"""


class _PodSpec(NamedTuple):
    origin: Origin
    subject: str
    path: str
    namespace: str
    spec: Mapping[str, Any]


def claim_entries(data: DoctorInput) -> Iterator[Finding]:
    """Entries without a source or with two, and uses of entries and requests that do not exist."""
    known = _requests_of(data)
    for one in _specs(data):
        root = Field(one.spec, one.path)
        try:
            check_claims(root)
        except WrongType as exc:
            field, _, what = str(exc).partition(": ")
            yield findings.CLAIM_ENTRY.finding_at(one.origin, one.subject, field, what)
        for cause in root.causes:
            yield findings.CLAIM_ENTRY.finding_at(one.origin, one.subject, cause.field, cause.message)
        yield from _unknown_requests(one, known)


def missing_claims(data: DoctorInput) -> Iterator[Finding]:
    """Claims and templates that pods name, and that are not in the input."""
    known = _requests_of(data)
    for one in _specs(data):
        for number, entry in enumerate(mappings(one.spec.get("resourceClaims"))):
            for source, kind in _SOURCES.items():
                name, key = entry.get(source), ObjectKey(one.namespace, str(entry.get(source)))
                if isinstance(name, str) and (kind, key) not in known:
                    others = [other.name for of, other in known if of == kind]
                    what = f"{kind} {key} is not in the input{suggestion(name, others)}"
                    field = f"{one.path}.resourceClaims[{number}].{source}"
                    yield findings.MISSING_CLAIM.finding_at(one.origin, one.subject, field, what)


def group_trees(data: DoctorInput) -> Iterator[Finding]:
    """Groups whose parents are missing, form a cycle or are too many; groups of too few groups."""
    groups = PodGroups()
    found = [one for one in data.entries if isinstance(one.object, PodGroup | CompositePodGroup)]
    for entry in found:
        groups.note(Changed(type(entry.object).__name__, entry.object))
    for entry in found:
        group = entry.object
        is_composite = isinstance(group, CompositePodGroup)
        source = GangSource.COMPOSITE if is_composite else GangSource.POD_GROUP
        gang = GangKey(group.key.namespace, source, group.key.name)
        for what in _tree_problems(gang, groups, gate=data.snapshot.rules.has(COMPOSITE_GROUPS)):
            yield findings.GROUP_TREE.finding(entry, "spec.parentCompositePodGroupName", what)
        inside = len(groups.inside(gang))
        if isinstance(group, CompositePodGroup) and group.least > inside:
            where = "spec.schedulingPolicy.gang.minGroupCount" if inside or group.least > 1 else "spec"
            what = f"{group.least} groups must run together; {inside} of the input name it as their parent"
            yield findings.GROUP_TREE.finding(entry, where, what)


def _tree_problems(gang: GangKey, groups: PodGroups, *, gate: bool) -> Iterator[str]:
    parent = groups.parent(gang)
    if parent is None:
        return
    if not gate:
        yield f"needs the feature gate {COMPOSITE_GROUPS}, which is off"
    if groups.get(parent) is None:
        names = [one.name for one in groups.known(GangSource.COMPOSITE)]
        hint = suggestion(parent.name, names)
        yield f"CompositePodGroup {parent.namespace}/{parent.name} is not in the input{hint}"
    group, outer = groups.get(gang), groups.get(parent)
    is_basic = isinstance(group, PodGroup) and group.rules is None
    if is_basic and isinstance(outer, CompositePodGroup) and outer.spec.scheduling_policy.gang is not None:
        yield f"has the policy basic, and {parent.name} the policy gang: Kubernetes may refuse that"
    if groups.leaves_whole(parent) and not groups.leaves_whole(gang):
        yield f"may be disrupted alone, and {parent.name} only as a whole: Kubernetes may refuse that"
    above = groups.above(gang)
    if gang in above:
        yield f"the parents form a cycle: {', '.join(one.name for one in above)}"
    elif len(above) == MAX_DEPTH:  # further down, it is the same mistake
        yield f"has {len(above)} groups above it; a tree may have {MAX_DEPTH} levels"


def _requests_of(data: DoctorInput) -> Requests:
    claims = ((claim.key, claim.spec.devices) for _, claim in data.of(api.ResourceClaim))
    templates = ((one.key, one.spec.spec.devices) for _, one in data.of(api.ResourceClaimTemplate))
    return {
        (kind, key): [request.name for request in devices.requests]
        for kind, found in (("ResourceClaim", claims), ("ResourceClaimTemplate", templates))
        for key, devices in found
    }


def _unknown_requests(one: _PodSpec, known: Requests) -> Iterator[Finding]:
    """Uses of requests that the claim or template of an entry does not have."""
    of_entry: dict[str, Collection[str]] = {}
    for entry in mappings(one.spec.get("resourceClaims")):
        for source, kind in _SOURCES.items():
            requests = known.get((kind, ObjectKey(one.namespace, str(entry.get(source)))))
            if requests is not None:
                of_entry[str(entry.get("name"))] = requests
    for key in CONTAINERS:
        for at, container in enumerate(mappings(one.spec.get(key))):
            for number, use in enumerate(mappings(mapping(container.get("resources")).get("claims"))):
                name, request = str(use.get("name")), use.get("request")
                if isinstance(request, str) and name in of_entry and request not in of_entry[name]:
                    what = (
                        f"the claim of {name} has no request {request}{suggestion(request, of_entry[name])}"
                    )
                    field = f"{one.path}.{key}[{at}].resources.claims[{number}].request"
                    yield findings.CLAIM_ENTRY.finding_at(one.origin, one.subject, field, what)


def _specs(data: DoctorInput) -> Iterator[_PodSpec]:
    """The specs of pods, in pods and in what makes pods."""
    for one in data.documents:
        raw = one.document.raw
        namespace = mapping(raw.get("metadata")).get("namespace")
        for path, value in nested(raw, ""):
            is_spec = path.rpartition(".")[2] == "spec" and isinstance(value, Mapping)
            if is_spec and isinstance(value.get("containers"), list):
                where = namespace if isinstance(namespace, str) and namespace else "default"
                yield _PodSpec(one.document.origin, subject_of(raw), path, where, value)
