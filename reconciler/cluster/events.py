"""What a server sends, without I/O: streams are cut into lines, pages and events into objects, and lines of a
watch become changes. The cursor keeps the version to continue from.
"""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog
from msgspec import Struct

from reconciler.api.objects.changes import Changed, Refused, Removed
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.versions.reading import DEEPEST, decode, key_of, loaded, trimmed
from reconciler.cluster.kinds import Resource
from reconciler.errors import Relist, Retry

T = TypeVar("T")
log = structlog.get_logger()


class Listing(NamedTuple):
    """One page of a listing."""

    items: list[bytes]
    version: str
    token: str
    """Of the next page; empty on the last one"""


class _Page(msgspec.Struct):
    metadata: dict[str, Any]
    items: list[msgspec.Raw] | None = None


class _EventText(msgspec.Struct):
    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(_Page).decode
_event_text = msgspec.json.Decoder(_EventText).decode


def cut_listing(text: bytes) -> Listing:
    """A page of a listing, with items as text. Raises ValueError for other texts."""
    page = _cut(_page, text, "listing")
    version, token = page.metadata.get("resourceVersion"), page.metadata.get("continue")
    return Listing([bytes(item) for item in page.items or ()], str(version or ""), str(token or ""))


def cut_event(line: bytes) -> tuple[str, bytes]:
    """The type and the text of the object of an event. Raises ValueError for other texts."""
    event = _cut(_event_text, line, "event")
    return event.type, bytes(event.object)


def _cut(decoder: Callable[[bytes], T], text: bytes, what: str) -> T:
    """A text that was cut. Objects that nest too deeply for that are trimmed, and are refused later."""
    with suppress(msgspec.MsgspecError, RecursionError):
        return decoder(text)
    try:
        return decoder(trimmed(text, 2 * DEEPEST))
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ValueError(f"no {what}: {exc}") from exc


async def complete_lines(chunks: AsyncIterable[bytes], *, limit: int) -> AsyncGenerator[bytes, None]:
    """The complete lines of a stream, of at most `limit` bytes each, without line ends and blank lines.

    A chunk may end anywhere, even within a character. Raises Retry for a line that is too long, after those
    before it. What follows the last line end was cut and is dropped, never parsed: it might read as something
    else than was meant.
    """
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            line = b"".join((*pieces, end))
            pieces, size = [], 0
            if len(line) > limit:
                raise Retry(f"a line of {len(line)} bytes; at most {limit} are read")
            if line and not line.isspace():
                yield line
        if rest:
            pieces.append(rest)
            size += len(rest)
            if size > limit:
                raise Retry(f"a line of more than {limit} bytes")
    if size:
        log.debug("watch stream ended within a line", dropped=size)


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
