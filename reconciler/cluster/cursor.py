"""The watch protocol without I/O: converts lines to changes, and keeps the version to continue from."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from reconciler.api.objects.changes import Changed, Refused, Removed
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.versions.reading import decode, key_of, loaded
from reconciler.cluster.decoding import cut_event
from reconciler.cluster.kinds import Resource
from reconciler.errors import Relist, Retry

T = TypeVar("T")

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
    version: str
    is_known: IsKnown | None = None
    """Of claims: which events can be skipped without decoding them. Most are of our own writes"""

    def feed(self, line: bytes) -> Changed | Removed | Refused | None:
        """The change in one line of a watch. None for a line that only moves the cursor.

        Raises Relist if the server no longer has the events after the version, or was restored to an
        earlier one. Raises Retry for other errors of the server and for a line that is no event. The
        cursor does not move then.
        """
        if version := self._known_version(line):
            self._move(version)
            return None
        kind, text = self._read(cut_event, line)
        if kind in ("ADDED", "MODIFIED"):
            found = self._read(decode, self.resource.kind, self.resource.api_version, text)
            if isinstance(found, Refused):
                self._move(_version(self._read(loaded, text)[0]))
                return found
            self._move(found.metadata.resource_version)
            return Changed(self.resource.kind, found)
        raw, _ = self._read(loaded, text)
        if kind == "ERROR":
            message = f"watch of {self.resource.plural}: {raw.get('message') or raw.get('reason') or raw}"
            raise Relist(message) if raw.get("code") == 410 else Retry(message)
        self._move(_version(raw))
        return Removed(self.resource.kind, key_of(raw)) if kind == "DELETED" else None

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

    def _move(self, version: str) -> None:
        """Move to a version. An earlier one means that the server was restored from a backup or recreated."""
        if precedes(version, self.version):
            raise Relist(f"watch of {self.resource.plural}: version {version} came after {self.version}")
        self.version = version or self.version

    def _read(self, read: Callable[..., T], *what: Any) -> T:
        """What is read. Raises Retry for a line that is no event."""
        try:
            return read(*what)
        except ValueError as exc:
            raise Retry(f"watch of {self.resource.plural}: a line is no event: {exc}") from exc


def precedes(version: str, other: str) -> bool:
    """Whether a version is before another. Versions that are not numbers cannot be compared."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


def listed(text: bytes, resource: Resource) -> ApiObject | Refused:
    """The typed object of an item of a listing, or why it cannot be read. Raises Retry for invalid JSON."""
    try:
        return decode(resource.kind, resource.api_version, text)
    except ValueError as exc:
        raise Retry(f"listing of {resource.plural}: an item is no object: {exc}") from exc


def _version(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata")
    return str(metadata.get("resourceVersion") or "") if isinstance(metadata, Mapping) else ""
