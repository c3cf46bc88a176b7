"""Recognises watch events of our own writes without decoding them. Most events of claims are such."""

from collections.abc import Callable

import msgspec

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey

Holds = Callable[[ObjectKey, str, str], bool]
"""Whether the store has an object in a version or a later one: key, uid, version"""


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
    """Knows the versions of claims in responses to our writes. Their watch events can be skipped."""

    def __init__(
        self,
        *,
        holds: Holds,
        add: Callable[[ResourceClaim], None],
        shown: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`add` takes in a claim after a write that failed at this version; `shown` gets the version of every
        event that is skipped.
        """
        self._holds = holds
        self._add = add
        self._shown = shown
        self._begun: dict[str, str] = {}

    def begun(self, uid: str, version: str) -> None:
        """The first request of a write made a version, which the store needs only if the second one fails."""
        self._begun[uid] = version

    def stopped(self, claim: ResourceClaim) -> None:
        """A write failed after its first request, which left this claim."""
        self._add(claim)

    def over(self, uid: str) -> None:
        """The write ended. If it failed, the store got its first version, or gets it from the watch."""
        self._begun.pop(uid, None)

    def version(self, line: bytes) -> str:
        """The version in a line of a watch, if the line can be skipped; otherwise empty."""
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
            self._shown(it.resource_version)
            return it.resource_version
        begun = self._begun.get(it.uid) == it.resource_version and self._holds(key, it.uid, "0")
        return it.resource_version if begun else ""


def version_of(text: bytes) -> str:
    """The version of the object in a response. Raises ValueError if there is none."""
    try:
        return _object(text).metadata.resource_version
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise ValueError(str(exc)) from exc
