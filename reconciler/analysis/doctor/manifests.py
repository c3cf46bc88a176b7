"""Checks of documents as they are written, and against the limits of the API and of the first revision of a
proposal.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple

from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import DoctorInput, Finding
from reconciler.api.manifests.bundle import Entry, already_read
from reconciler.api.manifests.documents import UNRENDERED, Origin
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import GATES, Semantics, spelled
from reconciler.api.objects.similar_names import suggestion
from reconciler.api.objects.validating import subject_of
from reconciler.api.validation import writes
from reconciler.api.validation.bodies import MAX_BODY, Refusal, decode_json, encode, not_found, too_large
from reconciler.api.validation.fields import WrongType, is_dns_label, timestamp
from reconciler.api.validation.kinds import GroupVersion, Object, Review, ServedKind
from reconciler.api.validation.newer_fields import as_kept, dropped_fields
from reconciler.api.validation.served_kinds import BUILTIN, NAMESPACE, START_NAMESPACES, every_kind
from reconciler.api.versions.ignored import GATED, UNUSED, parts_of, unknown_in
from reconciler.api.versions.kinds import KINDS, NAMES, NOT_FOLLOWED, RESOURCE, SCHEDULING, is_newer
from reconciler.api.versions.proposals import NO_LABEL, is_first_revision
from reconciler.api.versions.reading import is_ours
from reconciler.api.versions.shapes import Raw, mapping, mappings


def unreadable(data: DoctorInput) -> Iterator[Finding]:
    """Invalid documents and objects."""
    for refusal in data.refused:
        problem = refusal.problem
        subject = problem.subject.removeprefix(f"{refusal.origin}: ")
        if subject.startswith(refusal.origin.file):  # there is no object; the subject is a place
            subject = "document"
        rule = findings.UNRENDERED if problem.reason.startswith(UNRENDERED) else findings.UNREADABLE
        for field, reason in ((problem.field, problem.reason), *problem.others):
            yield rule.finding_at(refusal.origin, subject, field, reason)


def put_right(data: DoctorInput) -> Iterator[Finding]:
    """Mistakes that were fixed while reading, but that an API server rejects."""
    for origin, line in data.warnings:
        subject, _, rest = line.partition(": ")
        field, colon, what = rest.partition(": ")
        if not colon or " " in field:
            field, what = "", rest
        yield findings.PUT_RIGHT.finding_at(origin, subject, field, what)


def old_version(data: DoctorInput) -> Iterator[Finding]:
    """Objects of API versions before v1."""
    for one in data.documents:
        given = str(one.document.raw.get("apiVersion"))
        if one.entry is not None and given.startswith(f"{RESOURCE}/") and given != f"{RESOURCE}/v1":
            yield findings.OLD_VERSION.finding(
                one.entry, "apiVersion", f"{given} is older than {RESOURCE}/v1"
            )


def duplicate_object(data: DoctorInput) -> Iterator[Finding]:
    """Objects of the same kind and name."""
    first: dict[tuple[str, ObjectKey], Origin] = {}
    for entry in data.entries:
        earlier = first.setdefault((type(entry.object).__name__, entry.object.key), entry.origin)
        if earlier is not entry.origin:
            yield findings.DUPLICATE_OBJECT.finding(entry, "metadata.name", already_read(earlier))


def unrendered(data: DoctorInput) -> Iterator[Finding]:
    """Template actions that are not rendered; reported once for each object."""
    for one in data.documents:
        if not str(one.document.raw.get("kind")).startswith(("Resource", "Device", "Pod")):
            continue
        for path, text in nested(one.document.raw, ""):
            if isinstance(text, str) and "{{" in text:
                subject = subject_of(one.document.raw)
                yield findings.UNRENDERED.finding_at(
                    one.document.origin, subject, path, f"holds {text[:80]!r}"
                )
                break


def claim_sources(data: DoctorInput) -> Iterator[Finding]:
    """`source` in the resource claims of a pod template; servers dropped it in 1.31."""
    for one in data.documents:
        for path, value in nested(one.document.raw, ""):
            if not path.endswith("resourceClaims") or one.document.raw.get("kind") == "Pod":
                continue
            for number, entry in enumerate(mappings(value)):
                if "source" in entry:
                    subject, field = subject_of(one.document.raw), f"{path}[{number}].source"
                    yield findings.CLAIM_SOURCE.finding_at(
                        one.document.origin, subject, field, "was removed in 1.31"
                    )


def nested(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every nested value, with its path."""
    yield path, value
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from nested(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from nested(part, f"{path}[{number}]")


def unknown_fields(data: DoctorInput) -> Iterator[Finding]:
    """Misspelled, misplaced and newer fields; each name is reported once for an object."""
    for entry in data.entries:
        reported: set[str] = set()
        for path, key, known in unknown_in(type(entry.object), entry.raw):
            if key not in reported:
                reported.add(key)
                what = f"ignored: {key}, which could change the answer{suggestion(key, known)}"
                yield findings.UNKNOWN_FIELD.finding(entry, path, what)


def unused_fields(data: DoctorInput) -> Iterator[Finding]:
    """Fields that Kubernetes uses and this program does not, or not with the gates that are on.

    Each name is reported once for an object.
    """
    for entry in data.entries:
        found = {key: (path, gate) for path, key, gate in _unused_in(data, entry)}
        for key, (path, gate) in found.items():
            if gate and data.snapshot.rules.has(gate):
                yield findings.PREVIEW_FIELD.finding(entry, path, f"{key} belongs to {spelled(gate)}")
                continue
            why = (
                f"which needs the feature gate {spelled(gate)}, and that is off"
                if gate
                else "which could change the answer"
            )
            yield findings.UNUSED_FIELD.finding(entry, path, f"ignored: {key}, {why}")


def unknown_kinds(data: DoctorInput) -> Iterator[Finding]:
    """Kinds of the groups of devices and gangs that are newer than the program."""
    for one in data.documents:
        raw = one.document.raw
        group, _, _ = str(raw.get("apiVersion")).rpartition("/")
        if one.entry is None and is_newer(group, str(raw.get("kind"))):
            what = f"ignored: {raw['kind']} of {raw['apiVersion']}, which could change the answer"
            if raw.get("metadata") != {"name": ""}:  # a server has the kind: it is no slip of the pen
                what += suggestion(raw["kind"], (kind for its, kind in NAMES if its == group))
            if (group, raw["kind"]) in NOT_FOLLOWED:
                what = f"ignored: the devices that a {raw['kind']} keeps count as free"
            yield findings.UNKNOWN_KIND.finding_at(one.document.origin, subject_of(raw), "kind", what)


def _unused_in(data: DoctorInput, entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Path and name of each field of an object that is known and not used, and the gate that it lacks. Fields
    of previews are among them also if their gate is on.
    """
    rules = data.snapshot.rules
    for kind, there, part in parts_of(type(entry.object), entry.raw, ""):
        gated = {**GATED.get(kind, {}), **dropped_fields(rules).get(kind, {})}.items()
        off = {key: gate for key, gate in gated if gate and (GATES[gate].is_preview or not rules.has(gate))}
        for key, gate in (dict.fromkeys(UNUSED.get(kind, ()), "") | off).items():
            if part.get(key) is not None:
                yield f"{there}.{key}" if there else key, key, gate


_ADMIN = {"resource.kubernetes.io/admin-access": "true"}
_UID = "00000000-0000-4000-8000-000000000000"
_SUFFIX = "xxxxx"
"""Stands for the random end of a generated name"""
_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
"""Any time: no rule depends on it"""

Labels = Mapping[str, str]
Problem = tuple[str, str]
"""Field and what is wrong with it"""


def api_rules(data: DoctorInput) -> Iterator[Finding]:
    """Errors of a server if each object that is used or refused here were created, and its status written."""
    namespaces, refused = _namespaces(data), {one.origin for one in data.refused}
    for one in data.documents:
        asked = one.entry is not None or one.document.origin in refused
        found = _of(one.document.raw, one.entry, namespaces, data.snapshot.rules) if asked else ()
        for field, what in dict.fromkeys(found):
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


def _of(
    raw: Raw, entry: Entry | None, namespaces: Mapping[str, Labels], rules: Semantics
) -> Iterator[Problem]:
    write = _Write.of(raw, namespaces, rules)
    if write is None:
        return
    code, problems = _against(write.created)
    if entry is None:  # it is refused here, and why is said elsewhere: values of a wrong type are
        yield from problems if code == 422 else ()
        return
    yield from problems
    # A server stops at the first value of a wrong type. Validate the fixed object to find other errors.
    if code == 400 and (fixed := _Write.of(entry.raw, namespaces, rules)) is not None:
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
    raw: Raw
    rules: Semantics = Semantics()
    """Of the server: fields without their gate are dropped before they are checked"""

    @classmethod
    def of(cls, raw: Raw, namespaces: Mapping[str, Labels], rules: Semantics) -> "_Write | None":
        """None for an object whose version is not served."""
        found = _served().get((str(raw.get("apiVersion")), str(raw.get("kind"))))
        if found is None:
            return None
        kind, served = found
        namespace = _namespace(raw) if kind.namespaced else ""
        labels = namespaces.get(namespace) if kind.namespaced else {}
        return cls(kind, served, namespace, labels, raw, rules)

    def created(self) -> Object:
        """The object as it would be stored. Raises Refusal or WrongType."""
        text = encode(self.raw)
        if len(text) > MAX_BODY:
            raise too_large(MAX_BODY)
        new = writes.decode_object(self.kind, self.served, decode_json(text))
        if (known := KINDS.get(self.kind.kind)) is not None:
            new = dict(as_kept(known.model, new, self.rules))
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


def _namespace(raw: Raw) -> str:
    return _named(raw, "namespace") or "default"


def _named(raw: Raw, key: str) -> str:
    given = mapping(raw.get("metadata")).get(key)
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
