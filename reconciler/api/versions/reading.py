"""Reads one object of any served version and shape: converts it to the current one, and decodes it.

`decode` reads the bytes that a server sends. Nearly all objects have the current shape and are decoded by
their model at once. All others, and those of manifests, are converted as plain JSON before (`to_v1`).
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Any
from weakref import WeakValueDictionary

from pydantic import ValidationError
from pydantic_core import from_json

from reconciler.api.objects.changes import Refused
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.model import Model
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.validating import subject_of, validated
from reconciler.api.versions import extensions, pod_groups, proposals, v1beta1
from reconciler.api.versions.kinds import KINDS, NAMES, RESOURCE
from reconciler.api.versions.mistakes import fix_mistakes, invalid_names
from reconciler.api.versions.proposals import with_value_keys
from reconciler.api.versions.shapes import mapping
from reconciler.errors import Malformed

LONGEST_OBJECT = 4 * 2**20
"""Maximum bytes of one object. etcd stores up to 1.5 MiB; the decoded object takes up to 30 times that."""
DEEPEST = 200
"""Nesting levels that are decoded. A server accepts thousands in opaque parameters of a claim. The parser of
pydantic has this limit itself, except that it allows one level more in fields that no model has."""

_OTHER_SHAPES = (
    *(b'"basic"', b'"composite"', b'"mixins"', b'"deviceMixins"', b'"includes"', b'"consumesCapacityFrom"'),
    extensions.ANNOTATION.encode(),
    b"\\u",
)
"""What slices have somewhere in their text that need a conversion: names of fields, and escapes that may
spell one of them"""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - _STEPS.keys())
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)

_SHARED = {"Pod": ("spec",), "Node": ("spec", "status"), "ResourceClaim": ("spec",)}
"""Parts that are equal in many objects of a kind: pods and claims of one template, machines of one type"""
_shared: WeakValueDictionary[tuple[type[Model], str], Model] = WeakValueDictionary()
"""By their text, as long as an object has them"""


def is_ours(raw: Mapping[str, Any]) -> bool:
    """Whether this is a kind of manifests that we read, in any version or without one."""
    kind, group = KINDS.get(_name_of(raw)), _group_of(raw)
    # `v1` without a group is wrong, but no other group has these kinds: reading it reports the mistake.
    return (
        kind is not None and kind.in_files and (kind.group == group or (kind.group == RESOURCE and not group))
    )


def needs_conversion(raw: Mapping[str, Any]) -> bool:
    """Whether servers of today do not read this: an old version, or a shape of a proposal."""
    kind = str(raw.get("kind"))
    if not is_ours(raw):
        return False
    spec = mapping(raw.get("spec"))
    if kind == "ResourceSlice" and (
        proposals.is_first_revision(spec) or proposals.uses(spec) or extensions.names_sources(spec)
    ):
        return True
    return raw.get("apiVersion") == f"{RESOURCE}/v1alpha3" and kind != "DeviceTaintRule"


def decode(kind: str, api_version: str, text: bytes) -> ApiObject | Refused:
    """The typed object of an item of a list, or of an event; Refused, with the reason, if it cannot be read.

    `kind` is the name of its model, `api_version` the version in which the server was asked for it. Raises
    ValueError for what is no JSON object.
    """
    if len(text) <= LONGEST_OBJECT and _is_current(kind, api_version, text):
        with suppress(ValidationError):  # read again below, without nulls, or to say what is wrong
            if kind == "ResourceSlice":
                return ResourceSlice.read(text)
            return _with_shared_parts(
                KINDS[kind].model.model_validate_json(text, by_alias=True, by_name=False)
            )
    raw, is_whole = loaded(text)
    key = key_of(raw)
    if len(text) > LONGEST_OBJECT:
        why = f"has {len(text)} bytes; at most {LONGEST_OBJECT} are read"
        return Refused(kind, key, f"{kind} {key}: {why}")
    if not is_whole:
        return Refused(kind, key, f"nests more than {DEEPEST} levels")
    try:
        found = _with_shared_parts(read({"kind": kind, "apiVersion": api_version, **raw}))
    except Malformed as exc:
        return Refused(kind, key, str(exc))
    return found.with_text() if isinstance(found, ResourceSlice) else found


def _is_current(kind: str, api_version: str, text: bytes) -> bool:
    """Whether an object of a server has the shape of its model."""
    older = KINDS[kind].converted
    if api_version in older or any(one.encode() in text for one in older):
        return False
    return kind != "ResourceSlice" or not any(sign in text for sign in _OTHER_SHAPES)


def loaded(text: bytes) -> tuple[dict[str, Any], bool]:
    """A JSON object, and whether it is whole: without what nests too deeply, it still has its name."""
    is_whole = not _nests_too_deeply(text)
    found = from_json(text if is_whole else trimmed(text, DEEPEST))
    if isinstance(found, dict):
        return found, is_whole
    raise ValueError(f"no object: {text[:80]!r}")


def _nests_too_deeply(text: bytes) -> bool:
    """Whether JSON nests deeper than DEEPEST levels. Parsers have limits of their own, which differ."""
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return False
    plain = _STRING.sub(b"", text) if b"\\" in text else b"".join(text.split(b'"')[::2])
    return max(accumulate(map(_STEPS.__getitem__, plain.translate(None, _NO_BRACKETS)))) > DEEPEST


def trimmed(text: bytes, levels: int) -> bytes:
    """JSON with an empty string in the place of every list and map that nests deeper than so many levels."""
    pieces, depth, kept = [], 0, 0
    for match in _BRACKET.finditer(text):
        bracket = match.group()
        if bracket in (b"[", b"{"):
            depth += 1
            if depth == levels + 1:
                pieces.append(text[kept : match.start()])
        elif bracket in (b"]", b"}"):
            if depth == levels + 1:
                pieces.append(b'""')
                kept = match.end()
            depth -= 1
    return b"".join(pieces) + text[kept:]


def _with_shared_parts(found: ApiObject) -> ApiObject:
    """The object, new, with the parts of an equal one where one is known. Saves memory, and comparisons."""
    for name in _SHARED.get(type(found).__name__, ()):
        part: Model = getattr(found, name)
        key = type(part), part.model_dump_json(exclude_unset=True)
        found.__dict__[name] = _shared.setdefault(key, part)
    return found


def key_of(raw: Mapping[str, Any]) -> ObjectKey:
    """The key of an object, which may be unreadable otherwise."""
    metadata = mapping(raw.get("metadata"))
    return ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def read(raw: Mapping[str, Any]) -> ApiObject:
    """The typed object. Raises Malformed naming kind, name, field and reason."""
    return typed(to_v1(raw))


def to_v1(raw: Mapping[str, Any], warnings: list[str] | None = None) -> Mapping[str, Any]:
    """The object in the shape of v1, with all its fields. Raises Malformed for a version that is not served.

    With `warnings`, frequent mistakes of published manifests are fixed, and a line is added for each.
    """
    name, subject = _name_of(raw), subject_of(raw)
    served = KINDS[name].api_versions
    given = raw.get("apiVersion")
    if not given:
        raise Malformed(subject, "apiVersion", f"is missing; write {served[0]}")
    if given not in served:
        raise Malformed(subject, "apiVersion", f"{given} is not supported; use {' or '.join(served)}")
    raw = {**raw, "kind": KINDS[name].name}  # lists name the model instead
    if warnings is not None:
        notes = warnings
        raw = fix_mistakes(raw, lambda line: notes.append(f"{subject}: {line}"))
    match name:
        case "ResourceSlice":
            raw = _as_trees(raw, subject, warnings) if extensions.has_trees(raw, subject) else raw
            raw = extensions.with_annotated_fields(_slice_to_v1(raw, subject, warnings), subject)
            if warnings is not None:
                warnings += [f"{subject}: {line}" for line in invalid_names(mapping(raw.get("spec")))]
        case "ResourceClaim":
            v1beta1.refuse_removed(raw.get("spec"), subject, "spec")
            raw = v1beta1.claim_to_v1(raw, subject) if _is_inline(given) else raw
        case "ResourceClaimTemplate":
            v1beta1.refuse_removed(mapping(raw.get("spec")).get("spec"), subject, "spec.spec")
            raw = v1beta1.template_to_v1(raw, subject) if _is_inline(given) else raw
        case "DeviceTaintRule":
            if given != f"{RESOURCE}/v1alpha3":
                _refuse_old_selectors(raw, subject)
        case "PodGroup" if given == pod_groups.V1ALPHA2:
            raw = pod_groups.to_current(dict(raw))
        case "SchedulingWorkload" if given == pod_groups.V1ALPHA2:
            raw = pod_groups.workload_to_current(dict(raw))
    return {**raw, "apiVersion": served[0]}


def _refuse_old_selectors(raw: Mapping[str, Any], subject: str) -> None:
    """A server would drop these fields, and the rule would then match every device."""
    selector = mapping(mapping(raw.get("spec")).get("deviceSelector"))
    for field in ("deviceClassName", "selectors"):
        if selector.get(field):
            raise Malformed(
                subject,
                f"spec.deviceSelector.{field}",
                "only v1alpha3 of Kubernetes 1.33 and 1.34 has it, and without it the rule matches more "
                "devices; name driver, pool or device instead, or set the version v1alpha3",
            )


def _slice_to_v1(raw: Mapping[str, Any], subject: str, warnings: list[str] | None) -> Mapping[str, Any]:
    """A slice of any shape with flat devices, mixins expanded, amounts under `value`."""
    if not isinstance(raw.get("spec"), Mapping):
        return raw
    if proposals.is_first_revision(raw["spec"]):
        return _with_versions(raw, proposals.flattened(raw["spec"], subject), subject, warnings)
    if _is_inline(raw["apiVersion"]):
        if warnings is not None:
            warnings += _left_out(raw, subject)
        raw = v1beta1.slice_to_v1(raw, subject)
    else:
        v1beta1.refuse_in_v1(raw, subject)
    if proposals.uses(raw["spec"]):
        spec = with_value_keys(proposals.expanded(raw["spec"], subject))
        return _with_versions(raw, spec, subject, warnings)
    if raw["apiVersion"] == f"{RESOURCE}/v1alpha3":
        return {**raw, "spec": with_value_keys(raw["spec"])}
    if warnings is None:
        return raw
    spec = with_value_keys(raw["spec"])
    if spec != raw["spec"]:
        warnings.append(f"{subject}: amounts belong under `value` since v1beta1; read as if they were there")
    return {**raw, "spec": spec}


def _is_inline(api_version: str) -> bool:
    return api_version.rpartition("/")[2] in KINDS["ResourceClaim"].other_shapes


def _left_out(raw: Mapping[str, Any], subject: str) -> list[str]:
    """A line if devices have no `basic`. A server may have newer kinds of devices."""
    devices = raw["spec"].get("devices")
    found = [
        number
        for number, device in enumerate(devices if isinstance(devices, list) else ())
        if v1beta1.is_later_kind(device)
    ]
    if not found:
        return []
    more = f" ({len(found)} in all)" if len(found) > 1 else ""
    return [f"{subject}: spec.devices[{found[0]}]: has no `basic`, so this device is left out{more}"]


def _as_trees(raw: Mapping[str, Any], subject: str, warnings: list[str] | None) -> Mapping[str, Any]:
    """A slice of any shape in that of the first revision, with the trees of its annotation."""
    spec = raw.get("spec")
    if isinstance(spec, Mapping) and not proposals.is_first_revision(spec):
        raw = _slice_to_v1(raw, subject, warnings)
    return extensions.with_trees(raw, subject)


def _with_versions(
    raw: Mapping[str, Any], spec: Mapping[str, Any], subject: str, warnings: list[str] | None
) -> Mapping[str, Any]:
    converted, changes = proposals.with_semver(spec)
    if changes and warnings is not None:
        warnings.append(f"{subject}: versions that are not semver are converted: {', '.join(changes)}")
    return {**raw, "spec": converted}


def typed(raw: Mapping[str, Any]) -> ApiObject:
    """The typed object for a result of `to_v1`. Raises Malformed naming kind, name, field and reason."""
    return validated(KINDS[_name_of(raw)].model, raw)


def _name_of(raw: Mapping[str, Any]) -> str:
    """The name of the model of an object."""
    kind = str(raw.get("kind"))
    return NAMES.get((_group_of(raw), kind), kind)


def _group_of(raw: Mapping[str, Any]) -> str:
    return str(raw.get("apiVersion") or "").rpartition("/")[0]
