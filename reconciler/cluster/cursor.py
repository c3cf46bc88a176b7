"""The watch protocol without I/O: converts lines to changes, and keeps the version to continue from."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.api.objects.changes import Changed, Refused, Removed
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.versions.claim_text import read_claim
from reconciler.api.versions.node_text import read_node
from reconciler.api.versions.pod_text import read_pod
from reconciler.api.versions.slice_text import read_slice
from reconciler.cluster.decoding import DEEPEST, LONGEST_OBJECT, cut_event, decode, holds
from reconciler.cluster.kinds import Resource
from reconciler.errors import Malformed, Relist, Retry

Decode = Callable[[Mapping[str, Any]], ApiObject]
"""Raises Malformed for an unreadable object. Current slices, claims, nodes and pods are read without it."""

_FromText = Callable[[bytes, str], ApiObject | None]

_FROM_TEXT: Mapping[str, _FromText] = {
    "ResourceSlice": read_slice,
    "ResourceClaim": read_claim,
    "Node": read_node,
    "Pod": read_pod,
}
_LISTED_FROM_TEXT: Mapping[str, _FromText] = {**_FROM_TEXT, "ResourceSlice": partial(read_slice, listed=True)}


IsKnown = Callable[[ObjectKey, str, str], bool]
"""Whether an object is known in a version or a later one: key, uid, version"""


class _Metadata(Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(Struct, gc=False):
    metadata: _Metadata


class _Event(Struct, gc=False):
    type: str
    object: _Object


_event_metadata = msgspec.json.Decoder(_Event).decode


class Cursor(Struct):
    """The position in the events of one kind. `version` is where the next watch starts."""

    resource: Resource
    read: Decode
    version: str
    is_known: IsKnown | None = None
    """Of claims: which events can be skipped without decoding them. Most are of our own writes"""

    def feed(self, line: bytes) -> Changed | Removed | Refused | None:
        """The change in one line of a watch. None for a line that only moves the cursor.

        Raises Relist if the server no longer has the events after the version, or was restored to an
        earlier one. Raises Retry for other errors of the server and for a line that is no event. The
        cursor does not move then.
        """
        if self.resource.kind in _FROM_TEXT and len(line) <= LONGEST_OBJECT:
            if version := self._known_version(line):
                self._move(version)
                return None
            found = self._from_text(line)
            if found is not None:
                self._move(found.metadata.resource_version)
                return Changed(self.resource.kind, found)
        kind, raw, mark = self._event(line)
        if kind == "ERROR":
            message = f"watch of {self.resource.plural}: {raw.get('message') or raw.get('reason') or raw}"
            raise Relist(message) if raw.get("code") == 410 else Retry(message)
        self._move(_version(raw))
        match kind:
            case "ADDED" | "MODIFIED":
                change = _too_long(raw, line, self.resource) or interpret(raw, mark, self.resource, self.read)
                return change if isinstance(change, Refused) else Changed(self.resource.kind, change)
            case "DELETED":
                return Removed(self.resource.kind, key_of(raw))
        return None

    def _known_version(self, line: bytes) -> str:
        """The version in a line that tells nothing new; empty for all others."""
        if self.is_known is None:
            return ""
        try:
            event = _event_metadata(line)
        except (msgspec.MsgspecError, RecursionError):
            return ""
        it = event.object.metadata
        if event.type not in ("ADDED", "MODIFIED") or not (it.uid and it.resource_version):
            return ""
        known = self.is_known(ObjectKey(it.namespace, it.name), it.uid, it.resource_version)
        return it.resource_version if known else ""

    def _from_text(self, line: bytes) -> ApiObject | None:
        """The object in a line, if it can be read without decoding the line."""
        event = cut_event(line)
        if event is None or event[0] not in ("ADDED", "MODIFIED"):
            return None
        return _FROM_TEXT[self.resource.kind](event[1], self.resource.api_version)

    def _move(self, version: str) -> None:
        """Move to a version. An earlier one means that the server was restored from a backup or recreated."""
        if precedes(version, self.version):
            raise Relist(f"watch of {self.resource.plural}: version {version} came after {self.version}")
        self.version = version or self.version

    def _event(self, line: bytes) -> tuple[str, dict[str, Any], str | None]:
        try:
            event, mark = decode(line)
        except ValueError as exc:
            raise Retry(f"watch of {self.resource.plural}: a line is not JSON: {exc}") from exc
        if not (isinstance(event, dict) and isinstance(event.get("object"), dict)):
            raise Retry(f"watch of {self.resource.plural}: a line is no event: {line[:80]!r}")
        return str(event.get("type")), event["object"], mark


def precedes(version: str, other: str) -> bool:
    """Whether a version is before another. Versions that are not numbers cannot be compared."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


def listed(text: bytes, mark: str | None, resource: Resource, read: Decode) -> ApiObject | Refused:
    """The typed object of an item of a listing, or why it cannot be read. Raises Retry for invalid JSON."""
    if resource.kind in _LISTED_FROM_TEXT and mark is None and len(text) <= LONGEST_OBJECT:
        found = _LISTED_FROM_TEXT[resource.kind](text, resource.api_version)
        if found is not None:
            return found
    try:
        raw, own = decode(text)
    except ValueError as exc:
        raise Retry(f"listing of {resource.plural}: an item is not JSON: {exc}") from exc
    if not isinstance(raw, dict):
        raise Retry(f"listing of {resource.plural}: an item is no object: {text[:80]!r}")
    return _too_long(raw, text, resource) or interpret(raw, mark or own, resource, read)


def _too_long(raw: dict[str, Any], text: bytes, resource: Resource) -> Refused | None:
    if len(text) <= LONGEST_OBJECT:
        return None
    reason = f"has {len(text)} bytes; at most {LONGEST_OBJECT} are read"
    return Refused(resource.kind, key_of(raw), f"{resource.kind} {key_of(raw)}: {reason}")


def interpret(raw: dict[str, Any], mark: str | None, resource: Resource, read: Decode) -> ApiObject | Refused:
    """The typed object, or why it cannot be read. Items of a listing have no kind and apiVersion."""
    if mark is not None and holds(raw, mark):
        return Refused(resource.kind, key_of(raw), f"nests more than {DEEPEST} levels")
    try:
        return read({"kind": resource.kind, "apiVersion": resource.api_version, **raw})
    except Malformed as exc:
        return Refused(resource.kind, key_of(raw), str(exc))


def key_of(raw: Mapping[str, Any]) -> ObjectKey:
    """The key of an object, which may be unreadable otherwise."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return ObjectKey("", "")
    return ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


def _version(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata")
    return str(metadata.get("resourceVersion") or "") if isinstance(metadata, Mapping) else ""
