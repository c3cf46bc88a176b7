"""Recognises news of our own writes without reading it: most of what a watch of claims tells us is that."""

from collections.abc import Callable

import msgspec

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey

Holds = Callable[[ObjectKey, str, str], bool]
"""Whether the picture has a version of an object, or a later one: key, uid, version"""


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata


class _Event(msgspec.Struct, gc=False):
    type: str
    object: _Object


_event = msgspec.json.Decoder(_Event).decode
_object = msgspec.json.Decoder(_Object).decode


class Echoes:
    """Which versions of claims are known by the answers to our writes. News of them tells nothing."""

    def __init__(self, *, holds: Holds, add: Callable[[ResourceClaim], None]) -> None:
        """`add` adds a claim to the snapshot whose write got no further than this version."""
        self._holds = holds
        self._add = add
        self._begun: dict[str, str] = {}

    def begun(self, uid: str, version: str) -> None:
        """A write of two requests made a version, which the picture will not see unless the second fails."""
        self._begun[uid] = version

    def stopped(self, claim: ResourceClaim) -> None:
        """A write failed after its first request, which left the claim like this."""
        self._add(claim)

    def over(self, uid: str) -> None:
        """The write is over. If it failed, its first version was told, or the picture gets it by news."""
        self._begun.pop(uid, None)

    def version(self, line: bytes) -> str:
        """The version that a line of a watch tells of, if it need not be read; otherwise empty."""
        try:
            event = _event(line)
        except (msgspec.MsgspecError, RecursionError):
            return ""
        if event.type not in ("ADDED", "MODIFIED"):
            return ""
        it = event.object.metadata
        if not (it.uid and it.resource_version):
            return ""
        key = ObjectKey(it.namespace, it.name)
        if self._holds(key, it.uid, it.resource_version):
            return it.resource_version
        begun = self._begun.get(it.uid) == it.resource_version and self._holds(key, it.uid, "0")
        return it.resource_version if begun else ""


def version_of(text: bytes) -> str:
    """The version of an object in an answer. Raises ValueError for what is no object."""
    try:
        return _object(text).metadata.resource_version
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
