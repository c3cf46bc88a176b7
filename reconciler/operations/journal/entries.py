"""Lines of a journal: a header, then what is recorded, in JSON. `t` is the type of each."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from reconciler.api.objects.changes import Changed, Recorded, Refused, Removed, Replaced
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Model
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.kinds import KINDS
from reconciler.control import inputs
from reconciler.control.ownership import Ownership
from reconciler.errors import Rejected

FORMAT = 2
"""Increased when a release can no longer read the format of an earlier one"""
READERS = {1: "0.3.0"}
"""Earlier format -> the last release that reads it"""

RECORDED_SETTINGS = (
    "mode",
    "pause",
    "feature_gates",
    "koordinator",
    "koordinator_semantics",
    "without_volumes",
)
"""Settings that the header has with their values"""


APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation that repeats all that was applied: of a pod its environment, too. It is not recorded"""


class Header(Struct, frozen=True, tag_field="t", tag="header"):
    """The configuration of the decisions in a file."""

    program: str
    rules: Semantics
    ours: Ownership
    steps: int
    run: str = ""
    """Id of the process; files of one run continue each other"""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values of the settings in `RECORDED_SETTINGS`"""
    format: int = FORMAT


Entry = (
    Header
    | Changed
    | Removed
    | Refused
    | Replaced
    | inputs.Assumed
    | inputs.Forgotten
    | inputs.PodAssumed
    | inputs.PodForgotten
    | inputs.PodReleased
    | inputs.RoomHeld
    | inputs.RoomEnded
    | inputs.PoliciesUsed
    | inputs.RetainedDraw
    | inputs.PluginInput
    | inputs.Planned
    | inputs.Asked
    | inputs.Answered
)


def _plain(value: object) -> object:
    """An object of the API with its kind, or a part of one: only what is read, so no secrets.

    A slice is its own text, if that is at hand: a fleet has thousands, and drivers put no secrets there.
    """
    if isinstance(value, ResourceSlice) and value.text is not None and b"\n" not in value.text:
        return [ResourceSlice.__name__, msgspec.Raw(value.text)]
    if isinstance(value, Model):
        if isinstance(value, ApiObject) and APPLIED in value.metadata.annotations:
            kept = {name: text for name, text in value.metadata.annotations.items() if name != APPLIED}
            metadata = value.metadata.model_copy(update={"annotations": kept})
            value = value.model_copy(update={"metadata": metadata})
        json = msgspec.Raw(
            value.model_dump_json(by_alias=True, exclude_unset=True, exclude_none=True).encode()
        )
        return [type(value).__name__, json] if isinstance(value, ApiObject) else json
    assert isinstance(value, Mapping), value
    return dict(value)


def _object(kind: type[Any], value: Any) -> Any:
    """Undo `_plain`."""
    if kind is ApiObject:
        name, raw = value
        return KINDS[name].model.model_validate(raw)
    return kind.model_validate(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry, dec_hook=_object)


def encode(entry: Recorded | Header) -> bytes:
    """A line."""
    return _encoder.encode(entry) + b"\n"


def decode(line: bytes) -> Entry:
    """The entry of a line. Raises ValueError."""
    return _decoder.decode(line)


def read_header(line: bytes) -> Header:
    """The first line of a file. Raises Rejected for a journal of another format."""
    try:
        raw = msgspec.json.decode(line)
        number = raw["format"] if raw["t"] == "header" else None
    except (ValueError, TypeError, KeyError):
        number = None
    if number in READERS:
        release = READERS[number]
        raise Rejected(
            f"a journal of format {number}: dra-reconciler {release} reads it, this release does not"
        )
    if number != FORMAT:
        start = line[:80].decode(errors="replace")
        raise Rejected(f"not a journal of format {FORMAT}: it starts with {start!r}")
    header = decode(line)
    assert isinstance(header, Header)
    return header
