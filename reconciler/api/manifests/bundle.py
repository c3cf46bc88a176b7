"""Manifests as typed objects by kind, and their claims as the control plane would have them on a server.

It makes claims from templates, and gives every object a uid. Manifests have none, or the one that they were
copied with.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO, TypeVar, cast

from msgspec import Struct

from reconciler.api.manifests.documents import Document, InvalidDocument, Origin, documents, invalid_document
from reconciler.api.migrate.special_claims import served_by_classes, special_claim, with_special_claim
from reconciler.api.objects.claims import (
    POD_CLAIM,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
)
from reconciler.api.objects.core import Namespace, Pod, PodResourceClaimStatus, is_live
from reconciler.api.objects.gangs import PodGroup, group_claims, unmade_claims
from reconciler.api.objects.meta import ApiObject, ObjectKey, OwnerReference
from reconciler.api.objects.semantics import EXTENDED_RESOURCES, Semantics
from reconciler.api.objects.similar_names import suggestion
from reconciler.api.objects.storage import STORAGE
from reconciler.api.objects.validating import subject_of
from reconciler.api.validation.fields import Field, WrongType
from reconciler.api.validation.kinds import Refuses
from reconciler.api.validation.newer_fields import check_newer_fields
from reconciler.api.validation.pods import check_claims, with_label_keys
from reconciler.api.versions import reading
from reconciler.api.versions.ignored import unknown_in
from reconciler.api.versions.kinds import KINDS, NAMES, RESOURCE, SCHEDULING, is_newer
from reconciler.api.versions.mistakes import fix_mistakes
from reconciler.errors import Malformed

NAMESPACED = (
    *("ResourceClaim", "ResourceClaimTemplate", "Pod", "PodGroup", "CompositePodGroup", "Workload"),
    *("PersistentVolumeClaim", "CSIStorageCapacity", "PodDisruptionBudget"),
)
T = TypeVar("T", bound=ApiObject)


class Entry(Struct, frozen=True):
    """One object, with its source text and place."""

    origin: Origin
    raw: Mapping[str, Any]
    """In the shape of v1, with unknown fields"""
    object: ApiObject
    number: int
    """Its index among all documents"""


class Bundle(Struct, frozen=True):
    """All objects, in the order in which they were read."""

    entries: Mapping[str, Mapping[ObjectKey, Entry]]
    """Name of the model -> key -> entry"""
    refused: tuple[InvalidDocument, ...]
    others: Mapping[int, Document]
    """Index among all documents -> object of a kind that is not read"""
    warnings: tuple[str, ...] = ()
    """Fixed mistakes, with their place"""

    def of(self, model: type[T]) -> tuple[T, ...]:
        """All objects of one kind."""
        found = self.entries.get(model.__name__, {})
        return tuple(cast("T", entry.object) for entry in found.values())

    def objects(self) -> Iterator[ApiObject]:
        """All objects."""
        return (entry.object for found in self.entries.values() for entry in found.values())

    @property
    def ignored(self) -> Counter[str]:
        """Number of objects of each kind that is not read."""
        return Counter(kind_of(document.raw) for document in self.others.values())

    @property
    def size(self) -> int:
        """How many objects were read."""
        return sum(len(found) for found in self.entries.values())


def storage_of(found: Bundle) -> tuple[ApiObject, ...]:
    """The objects that decide where pods with volumes can run."""
    return tuple(entry.object for kind in STORAGE for entry in found.entries.get(kind, {}).values())


def read_bundle(paths: Iterable[str], stdin: BinaryIO) -> Bundle:
    """Read every manifest of `paths`. Invalid content is never raised; it goes to `refused`."""
    return bundle(documents(paths, stdin))


def bundle(
    found: Iterable[Document | InvalidDocument],
    refuses: Refuses | None = None,
    rules: Semantics | None = None,
) -> Bundle:
    """Sort documents into a bundle: valid objects, invalid documents, ignored kinds.

    refuses  also says of a claim that is refused which of its derived attributes do not compile
    rules    fields that a server with this release and these gates drops are not checked
    """
    check = partial(check_newer_fields, refuses=refuses or Refuses(), rules=rules or Semantics())
    entries: dict[str, dict[ObjectKey, Entry]] = {}
    refused: list[InvalidDocument] = []
    others: dict[int, Document] = {}
    warnings: list[str] = []
    for number, document in enumerate(found):
        if isinstance(document, InvalidDocument):
            refused.append(document)
        elif not reading.is_ours(document.raw):
            others[number] = document
        else:
            try:
                entry = _entry(document, number, warnings)
                check(entry.raw, entry.object)
                _enter(entries.setdefault(type(entry.object).__name__, {}), entry)
            except Malformed as exc:
                refused.append(
                    invalid_document(document.origin, exc.subject, exc.field, exc.reason, exc.others)
                )
    return Bundle(entries, tuple(refused), others, tuple(warnings))


def kind_of(raw: Mapping[str, Any]) -> str:
    """The kind; with its version if another API group uses the name of a kind that we read."""
    return f"{raw['kind']} of {raw.get('apiVersion')}" if raw["kind"] in KINDS else str(raw["kind"])


def _entry(document: Document, number: int, warnings: list[str]) -> Entry:
    found: list[str] = []
    raw = reading.to_v1(_placed(document.raw), found)
    if raw["kind"] == "Pod":
        raw = with_label_keys(raw)
    warnings += [f"{document.origin}: {line}" for line in found]
    return Entry(document.origin, raw, reading.typed(raw), number)


def _enter(known: dict[ObjectKey, Entry], entry: Entry) -> None:
    earlier = known.setdefault(entry.object.key, entry)
    if earlier is not entry and not isinstance(entry.object, Namespace):  # many files repeat their namespace
        raise Malformed(subject_of(entry.raw), "metadata.name", already_read(earlier.origin))


def already_read(earlier: Origin) -> str:
    """Why the second object of one kind and name is not used."""
    return f"is also in {earlier}, which is used"


def _placed(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the effective namespace: `default` if a namespaced kind has none; none for other kinds."""
    metadata = raw.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, Mapping):
        return raw
    placed = {key: value for key, value in metadata.items() if key != "namespace"}
    if raw["kind"] in NAMESPACED:
        namespace = metadata.get("namespace")
        placed["namespace"] = "default" if namespace in (None, "") else namespace
    return {**raw, "metadata": placed}


def claim_from_template(maker: Pod | PodGroup, entry: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """The claim for one entry of a pod or a group."""
    spec = template.get("spec") or {}
    return {
        "apiVersion": KINDS["ResourceClaim"].in_shape[0],
        "kind": "ResourceClaim",
        "metadata": metadata_of_claim(maker, entry, spec),
        "spec": spec.get("spec") or {},
    }


def metadata_of_claim(maker: Pod | PodGroup, entry: str, template: Mapping[str, Any]) -> dict[str, Any]:
    """That of the claim, from the spec of a template. A server adds a random suffix to `<pod>-<entry>`."""
    given = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": f"{maker.key.name}-{entry}",
        "namespace": maker.key.namespace,
        "annotations": {**(given.get("annotations") or {}), POD_CLAIM: entry},
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    if maker.metadata.uid:  # an owner reference needs a uid
        owner = {
            "apiVersion": KINDS[type(maker).__name__].api_versions[0],
            "kind": maker.kind,
            "name": maker.key.name,
            "uid": maker.metadata.uid,
        }
        metadata["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    return metadata


class Claims:
    """Every claim of a bundle, those included that are made for its live pods."""

    def __init__(self, bundle: Bundle, rules: Semantics) -> None:
        self._rules = rules
        self.entries: dict[ObjectKey, Entry] = dict(bundle.entries.get(ResourceClaim.__name__, {}))
        """As the input spells them, or as they would be made from templates"""
        self.absent: dict[ObjectKey, str] = {}
        """Pod -> which claim that it names is not there"""
        self.unmade: dict[ObjectKey, str] = {}
        """Pod -> why a claim of it cannot be made"""
        self._templates = bundle.entries.get(ResourceClaimTemplate.__name__, {})
        self._owners: dict[ObjectKey, Pod] = {}
        self._classes = {one.key.name: one for one in bundle.of(DeviceClass)}
        self._groups = {group.key: group for group in bundle.of(PodGroup)}
        self._owning_groups: dict[ObjectKey, PodGroup] = {}
        raws = bundle.entries.get(Pod.__name__, {})
        self.pods = tuple(
            self._served(pod, raws[pod.key]) if is_live(pod) else _with_uid(pod) for pod in bundle.of(Pod)
        )
        """As a server would show them, with the names of the claims that were made for them"""

    def typed(self, key: ObjectKey) -> ResourceClaim:
        """A claim as a server would show it."""
        claim = cast("ResourceClaim", self.entries[key].object)
        owners = claim.metadata.owner_references
        if (pod := self._owners.get(key)) is not None:
            owners = (OwnerReference(kind="Pod", name=pod.key.name, uid=_uid(pod), controller=True),)
        elif (group := self._owning_groups.get(key)) is not None:
            owner = OwnerReference(
                api_version=KINDS["PodGroup"].api_versions[0],
                kind="PodGroup",
                name=group.key.name,
                uid=f"group {group.key}",
                controller=True,
            )
            owners = (owner,)
        return claim.replacing("metadata", uid=str(key), owner_references=owners)

    def _served(self, pod: Pod, source: Entry) -> Pod:
        """A pod whose claims are made, as far as they can be; without any if a server would refuse them."""
        if problem := _invalid_claims(source.raw):
            self.unmade[pod.key] = problem
            return _with_uid(pod).replacing("spec", resource_claims=())
        templates = {entry.name: entry.resource_claim_template_name for entry in pod.spec.resource_claims}
        references = {entry.name: entry.resource_claim_name for entry in pod.spec.resource_claims}
        made = list(pod.status.resource_claim_statuses)
        for entry, name in pod.claim_names().items():
            group = self._group_of(pod, entry)
            maker = pod if group is None else group
            key = ObjectKey(pod.key.namespace, name or f"{maker.key.name}-{entry}")
            if name:
                if key not in self.entries:
                    self.absent.setdefault(pod.key, f"claim {key} is not among the objects read")
                    continue
            elif group is not None and (why := unmade_claims(self._rules)):
                self.unmade.setdefault(pod.key, f"entry {entry!r} is a claim of PodGroup {group.key}: {why}")
                continue
            elif problem := self._make(maker, entry, key, templates[entry]):
                self.unmade.setdefault(pod.key, problem)
                continue
            if references[entry] is None:
                made.append(PodResourceClaimStatus(name=entry, resource_claim_name=key.name))
                if group is not None:
                    self._owning_groups[key] = group
                elif self._may_own(pod, key):
                    self._owners[key] = pod
        served = pod.replacing("status", resource_claim_statuses=tuple(made))
        return _with_uid(self._with_special_claim(served, source))

    def _with_special_claim(self, pod: Pod, source: Entry) -> Pod:
        """A gated pod with the claim that kube-scheduler would make for its extended resources, if any."""
        served = served_by_classes(pod, self._classes) if pod.gated and not pod.special_claim else {}
        if not served or not self._rules.has(EXTENDED_RESOURCES):
            return pod
        raw = special_claim(pod, served)
        key = ObjectKey(pod.key.namespace, raw["metadata"]["name"])
        if key in self.entries:
            why = f"its claim for extended resources would be {key}, which is another claim's name"
            self.unmade.setdefault(pod.key, why)
            return pod
        self.entries[key] = Entry(source.origin, raw, reading.typed(raw), source.number)
        self._owners[key] = pod
        return with_special_claim(pod, key.name)

    def _group_of(self, pod: Pod, entry: str) -> PodGroup | None:
        """The PodGroup that an entry of a pod is about, if it stands for one of the group's (GANG-5)."""
        named = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group is not None else None
        group = self._groups.get(ObjectKey(pod.key.namespace, named or ""))
        return group if group is not None and entry in group_claims(pod, group) else None

    def _make(self, maker: Pod | PodGroup, entry: str, key: ObjectKey, template: str | None) -> str:
        """Make a claim from a template unless it is there already. Returns what stands against it."""
        known = self.entries.get(key)
        if known is not None:
            made = known.object.metadata.annotations.get(POD_CLAIM) == entry
            return (
                "" if made else f"the claim for entry {entry!r} would be {key}, which is another claim's name"
            )
        source = self._templates.get(ObjectKey(maker.key.namespace, template or ""))
        if source is None:
            return f"template {maker.key.namespace}/{template} is not among the objects read"
        raw = claim_from_template(maker, entry, source.raw)
        self.entries[key] = Entry(source.origin, raw, reading.typed(raw), source.number)
        return ""

    def _may_own(self, pod: Pod, key: ObjectKey) -> bool:
        """Whether a claim was made for a pod, as far as uids tell; manifests may have lost them."""
        owners = {one.uid for one in self.entries[key].object.metadata.owner_references if one.controller}
        return not owners or not pod.metadata.uid or pod.metadata.uid in owners


def _invalid_claims(raw: Mapping[str, Any]) -> str:
    """What is wrong with the claims of a pod or with their use in its containers; empty if nothing is."""
    root = Field(raw)
    try:
        check_claims(root["spec"])
    except WrongType as exc:
        return str(exc)
    return "; ".join(f"{cause.field}: {cause.message}" for cause in root.causes)


def _uid(pod: Pod) -> str:
    return f"pod {pod.key}"


def _with_uid(pod: Pod) -> Pod:
    return pod.replacing("metadata", uid=_uid(pod))


def with_own_uid(claim: ResourceClaim) -> ResourceClaim:
    """The claim with its namespace and name as its uid."""
    return claim.replacing("metadata", uid=str(claim.key))


Raw = Mapping[str, Any]
PoolKey = tuple[Any, Any, Any]


def as_served(raws: Iterable[Raw], warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """Objects for a server, in order; `warn` receives one line for each change."""
    fixed = [_fixed(raw, warn) for raw in raws]
    added = Counter(_pool(raw) for raw in fixed if _is_mixed(raw))
    return [part for raw in fixed for part in _parts(raw, added, warn)]


def _fixed(raw: Raw, warn: Callable[[str], None]) -> Raw:
    if not _is_slice(raw):
        return raw
    return fix_mistakes(raw, lambda line: warn(f"{subject_of(raw)}: {line}"))


def _parts(raw: Raw, added: Counter[PoolKey], warn: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """The object, or the two parts of a mixed slice. All slices of its pool get the new slice count."""
    if not _is_slice(raw) or not added[_pool(raw)]:
        yield dict(raw)
        return
    pool = raw["spec"]["pool"]
    spec = {
        **raw["spec"],
        "pool": {**pool, "resourceSliceCount": pool.get("resourceSliceCount", 0) + added[_pool(raw)]},
    }
    if not _is_mixed(raw):
        yield {**raw, "spec": spec}
        return
    warn(f"{subject_of(raw)}: counters and devices must be in separate slices; split into two")
    name = f"{raw['metadata'].get('name', 'slice')}-counters"
    apart = {key: value for key, value in raw["metadata"].items() if key != "annotations"}
    counters = {key: value for key, value in spec.items() if key != "devices"}
    yield {**raw, "metadata": {**apart, "name": name}, "spec": counters}
    yield {**raw, "spec": {key: value for key, value in spec.items() if key != "sharedCounters"}}


def _is_slice(raw: Raw) -> bool:
    """Whether this is a slice in the current shape, as far as this module needs it."""
    spec = raw.get("spec")
    return (
        raw.get("kind") == "ResourceSlice"
        and raw.get("apiVersion") in KINDS["ResourceSlice"].in_shape
        and isinstance(raw.get("metadata"), Mapping)
        and isinstance(spec, Mapping)
        and isinstance(spec.get("pool"), Mapping)
        and isinstance(spec["pool"].get("resourceSliceCount", 0), int)
    )


def _is_mixed(raw: Raw) -> bool:
    return _is_slice(raw) and bool(raw["spec"].get("sharedCounters")) and bool(raw["spec"].get("devices"))


def _pool(raw: Raw) -> PoolKey:
    spec = raw["spec"] if _is_slice(raw) else {}
    pool = spec.get("pool", {})
    return str(spec.get("driver")), str(pool.get("name")), str(pool.get("generation"))


def unknown_parts(found: Bundle) -> Iterator[InvalidDocument]:
    """The fields and kinds of all objects."""
    yield from _unknown_fields(found)
    yield from _unknown_kinds(found)


def _unknown_fields(found: Bundle) -> Iterator[InvalidDocument]:
    """The first unknown field of each name in each object."""
    for entry in (entry for of_kind in found.entries.values() for entry in of_kind.values()):
        names: set[str] = set()
        for path, name, known in unknown_in(type(entry.object), entry.raw):
            if name not in names:
                names.add(name)
                reason = f"no release has this field{suggestion(name, known)}"
                yield invalid_document(entry.origin, subject_of(entry.raw), path, reason)


def _unknown_kinds(found: Bundle) -> Iterator[InvalidDocument]:
    """Objects of the groups of devices and gangs with a kind that no release has."""
    for document in found.others.values():
        group, kind = str(document.raw.get("apiVersion")).rpartition("/")[0], str(document.raw.get("kind"))
        if group in (RESOURCE, SCHEDULING) and is_newer(group, kind):
            known = sorted(kind for its, kind in NAMES if its == group)
            reason = f"no release has this kind{suggestion(kind, known)}"
            yield invalid_document(document.origin, subject_of(document.raw), "kind", reason)
