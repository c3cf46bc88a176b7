"""Checks against the limits of the API: its validation, and those of the first revision of a proposal."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import DoctorInput, Finding
from reconciler.api.manifests.bundle import Entry
from reconciler.api.objects.validating import subject_of
from reconciler.api.validation import writes
from reconciler.api.validation.bodies import MAX_BODY, Refusal, decode_json, encode, not_found, too_large
from reconciler.api.validation.fields import WrongType, is_dns_label, timestamp
from reconciler.api.validation.kinds import GroupVersion, Object, Review, ServedKind
from reconciler.api.validation.served_kinds import BUILTIN, NAMESPACE, START_NAMESPACES, every_kind
from reconciler.api.versions.kinds import RESOURCE, SCHEDULING
from reconciler.api.versions.proposals import NO_LABEL, is_first_revision
from reconciler.api.versions.reading import is_ours
from reconciler.api.versions.shapes import Raw, mapping, mappings

_ADMIN = {"resource.kubernetes.io/admin-access": "true"}
_UID = "00000000-0000-4000-8000-000000000000"
_SUFFIX = "xxxxx"
"""Stands for the random end of a generated name"""
_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
"""Any time: no rule depends on it"""

RawObject = Mapping[str, Any]
Labels = Mapping[str, str]
Problem = tuple[str, str]
"""Field and what is wrong with it"""


def api_rules(data: DoctorInput) -> Iterator[Finding]:
    """Errors of a server if each readable object were created, and its status written."""
    namespaces = _namespaces(data)
    for one in data.documents:
        for field, what in dict.fromkeys(_of(one.document.raw, one.entry, namespaces) if one.entry else ()):
            yield findings.API_RULES.finding_at(
                one.document.origin, subject_of(one.document.raw), field, what
            )


@cache
def _served() -> Mapping[tuple[str, str], tuple[ServedKind, GroupVersion]]:
    """Version and kind -> the kinds of devices and gangs, and those of plugins."""
    return {
        (str(version), kind.kind): (kind, version)
        for kind in every_kind()
        for version in kind.served
        if version.group in (RESOURCE, SCHEDULING) or kind not in BUILTIN
    }


def _namespaces(data: DoctorInput) -> dict[str, Labels]:
    """The namespaces of the input with their labels. Namespaces without an object allow admin access."""
    found: dict[str, Labels] = {name: {} for name in START_NAMESPACES}
    described: set[str] = set()
    for one in data.documents:
        if one.document.raw.get("kind") == "Namespace" and (name := _named(one.document.raw, "name")):
            labels = mapping(mapping(one.document.raw.get("metadata")).get("labels"))
            given = {key: labels[key] for key in _ADMIN if isinstance(labels.get(key), str)}
            described.add(name)
            if _is_accepted(name, given):
                found.setdefault(name, given)
    for name in {_namespace(one.document.raw) for one in data.documents} - described:
        if _is_accepted(name, {}):
            found[name] = _ADMIN
    return found


def _is_accepted(namespace: str, labels: Labels) -> bool:
    described = {"metadata": {"name": namespace, "labels": labels}}
    return _against(_Write(NAMESPACE, NAMESPACE.stored, "", {}, described).created)[0] == 200


def _of(raw: RawObject, entry: Entry, namespaces: Mapping[str, Labels]) -> Iterator[Problem]:
    write = _Write.of(raw, namespaces)
    if write is None:
        return
    code, problems = _against(write.created)
    yield from problems
    # A server stops at the first value of a wrong type. Validate the fixed object to find other errors.
    if code == 400 and (fixed := _Write.of(entry.raw, namespaces)) is not None:
        code, problems = _against(fixed.created)
        yield from problems if code == 422 else ()
    elif code == 200:
        yield from _against(write.with_status)[1]


class _Write(NamedTuple):
    """A write of an object to a server, in a served version."""

    kind: ServedKind
    served: GroupVersion
    namespace: str
    labels: Labels | None
    """The labels of its namespace; None if the namespace does not exist"""
    raw: RawObject

    @classmethod
    def of(cls, raw: RawObject, namespaces: Mapping[str, Labels]) -> "_Write | None":
        """None for an object whose version is not served."""
        found = _served().get((str(raw.get("apiVersion")), str(raw.get("kind"))))
        if found is None:
            return None
        kind, served = found
        namespace = _namespace(raw) if kind.namespaced else ""
        return cls(kind, served, namespace, namespaces.get(namespace) if kind.namespaced else {}, raw)

    def created(self) -> Object:
        """The object as it would be stored. Raises Refusal or WrongType."""
        text = encode(self.raw)
        if len(text) > MAX_BODY:
            raise too_large(MAX_BODY)
        new = writes.decode_object(self.kind, self.served, decode_json(text))
        metadata = new["metadata"]
        writes.set_name_and_namespace(self.kind, self.namespace, "", metadata)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + _SUFFIX
        if self.labels is None:
            raise not_found("namespaces", "", self.namespace)
        writes.set_server_fields(self.kind, new, uid=_UID, created=timestamp(_MOMENT), keeps_status=False)
        self.kind.defaults(new, _MOMENT)
        writes.validate(self.kind, Review(new, None, self.served, "", self.labels))
        return new

    def with_status(self) -> None:
        """Write the status of a claim to the created object. Raises Refusal or WrongType."""
        if self.kind.kind != "ResourceClaim" or not self.raw.get("status"):
            return
        old = self.created()
        shown = {**self.kind.downgrade(old, self.served), "status": self.raw["status"]}
        new = writes.merge_writable(
            self.kind, "status", old, writes.decode_object(self.kind, self.served, shown)
        )
        self.kind.defaults(new, _MOMENT)
        writes.validate(self.kind, Review(new, old, self.served, "status", self.labels or {}))


def _against(write: Callable[[], object]) -> tuple[int, list[Problem]]:
    """The status code of a server for a write, and its error messages."""
    try:
        write()
    except WrongType as exc:
        field, _, what = str(exc).partition(": ")
        return 400, [(field, what)]
    except Refusal as refusal:
        return refusal.code, _problems(refusal)
    return 200, []


def _problems(refusal: Refusal) -> list[Problem]:
    if refusal.code == 404:
        return [("metadata.namespace", "the namespace does not exist")]
    causes = (refusal.details or {}).get("causes")
    if causes:
        return [(cause["field"], cause["message"]) for cause in causes]
    return [("", refusal.message)]


def _namespace(raw: RawObject) -> str:
    return _named(raw, "namespace") or "default"


def _named(raw: RawObject, key: str) -> str:
    metadata = raw.get("metadata")
    given = metadata.get(key) if isinstance(metadata, Mapping) else None
    return given if isinstance(given, str) else ""


MAX_ENTRIES = 127
"""Mixins and devices of a slice: fewer than 128"""
MAX_PROPERTIES = 32
"""Attributes and capacities of a mixin or device"""


def limits(data: DoctorInput) -> Iterator[Finding]:
    """Slices in the shape of the first revision that its text does not allow (CCF-8); they are read here."""
    for one in data.documents:
        raw, spec = one.document.raw, mapping(one.document.raw.get("spec"))
        if raw.get("kind") == "ResourceSlice" and is_ours(raw) and is_first_revision(spec):
            for field, what in _exceeded(spec):
                yield findings.FIRST_REVISION.finding_at(one.document.origin, subject_of(raw), field, what)


def _exceeded(spec: Raw) -> Iterator[Problem]:
    mixins, devices = mappings(spec.get("deviceMixins")), mappings(spec.get("devices"))
    if len(mixins) + len(devices) > MAX_ENTRIES:
        what = f"{len(mixins)} mixins and {len(devices)} devices; at most {MAX_ENTRIES} together are allowed"
        yield "spec.devices", what
    bodies: dict[str, Raw] = {}
    for number, mixin in enumerate(mixins):
        if not is_dns_label(str(mixin.get("name"))):
            yield f"spec.deviceMixins[{number}].name", NO_LABEL
        body = bodies[str(mixin.get("name"))] = mapping(mixin.get("composite"))
        yield from _too_many(f"spec.deviceMixins[{number}].composite", _names(body), "")
    for number, device in enumerate(devices):
        kind = "composite" if "composite" in device else "basic"
        body, where = mapping(device.get(kind)), f"spec.devices[{number}].{kind}"
        sources = body.get("consumesCapacityFrom")
        if isinstance(sources, list) and len(sources) > 1:
            yield f"{where}.consumesCapacityFrom", f"has {len(sources)} entries; 1 is allowed"
        included = (bodies.get(str(one.get("name")), {}) for one in mappings(body.get("includes")))
        yield from _too_many(where, _names(body).union(*map(_names, included)), " with its mixins")


def _names(body: Raw) -> set[tuple[str, str]]:
    return {(field, name) for field in ("attributes", "capacity") for name in mapping(body.get(field))}


def _too_many(where: str, names: set[tuple[str, str]], extra: str) -> Iterator[Problem]:
    if len(names) > MAX_PROPERTIES:
        yield (
            where,
            f"has {len(names)} attributes and capacities{extra}; at most {MAX_PROPERTIES} are allowed",
        )
