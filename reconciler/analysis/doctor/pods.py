"""Checks of the claims that pods use, also of the pod templates of workloads that are not read otherwise."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import DoctorInput, Finding, suggestion
from reconciler.analysis.doctor.manifests import nested
from reconciler.api.manifests.documents import Origin
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimTemplate
from reconciler.api.objects.gangs import MAX_DEPTH, CompositePodGroup, GangKey, GangSource, PodGroup
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import COMPOSITE_GROUPS
from reconciler.api.objects.validating import subject_of
from reconciler.api.validation.fields import Field, WrongType
from reconciler.api.validation.pods import CONTAINERS, check_claims
from reconciler.api.versions.shapes import mapping, mappings
from reconciler.state.pods.groups import PodGroups

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
    known = _requests(data)
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
    known = _requests(data)
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
    above = groups.above(gang)
    if gang in above:
        yield f"the parents form a cycle: {', '.join(one.name for one in above)}"
    elif len(above) == MAX_DEPTH:  # further down, it is the same mistake
        yield f"has {len(above)} groups above it; a tree may have {MAX_DEPTH} levels"


def _requests(data: DoctorInput) -> Requests:
    claims = ((claim.key, claim.spec.devices) for _, claim in data.of(ResourceClaim))
    templates = ((one.key, one.spec.spec.devices) for _, one in data.of(ResourceClaimTemplate))
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
