"""Lines of a journal, and its files: a full one is followed by a new one; the oldest is removed."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

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
            value = value.replacing("metadata", annotations=kept)
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


PATTERN = "journal-*.jsonl.gz"
FULL_BYTES = 64 * 2**20
"""Bytes of a file before compression, which reduces them to a tenth or less"""
FILES = 16
"""Kept files"""
LEVEL = 1
"""Compression level; higher levels take several times as long and save a few percent"""
MAX_LINE = 512 * 2**20
"""Maximum bytes of a line: a list of a million devices"""


class Files:
    """Writes lines. Every file starts with those of the beginning, so it can be read alone."""

    def __init__(self, folder: Path, *, full: int = FULL_BYTES, files: int = FILES) -> None:
        """Raises Rejected if the folder is not writable."""
        self._folder = folder
        self._full = full
        self._files = files
        self._file: gzip.GzipFile | None = None
        self._raw: BinaryIO
        self._size = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._number = max((_number(path) for path in folder.glob(PATTERN)), default=0)
        except OSError as exc:
            raise Rejected(f"journal {folder}: {exc.strerror}") from exc

    @property
    def begun(self) -> bool:
        """Whether there is a file that is written to."""
        return self._file is not None

    def write(
        self, line: bytes, beginning: Callable[[], Iterable[bytes]], *, with_last: bool = False
    ) -> None:
        """Add a line, and before it `beginning` if it is the first of a new file. `with_last`: it stays in
        the file of the line before. Raises OSError.
        """
        if self._file is None or (self._size >= self._full and not with_last):
            self._begin(beginning())
        self._put(line)

    def flush(self) -> None:
        """Flush, so that other processes can read all lines."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the current file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
            self._raw.close()

    def abandon(self) -> None:
        """Leave the current file as far as it was written: what follows a gap could not be read."""
        if self._file is not None:
            with suppress(OSError):
                self._raw.close()
            with suppress(OSError, ValueError):
                self._file.close()
            self._file = None

    def _begin(self, beginning: Iterable[bytes]) -> None:
        self.close()
        self._number += 1
        path = self._folder / f"journal-{self._number:06}.jsonl.gz"
        self._raw = path.open("wb")
        self._file = gzip.GzipFile(path.name, "wb", LEVEL, self._raw)
        self._size = 0
        for line in beginning:
            self._put(line)
        self._size = 0  # the initial snapshot does not count
        for path in sorted(self._folder.glob(PATTERN))[: -self._files]:
            path.unlink(missing_ok=True)

    def _put(self, line: bytes) -> None:
        assert self._file is not None
        self._file.write(line)
        self._size += len(line)


def paths(place: Path) -> list[Path]:
    """The files of a journal in order; a file is one alone. Raises Rejected if there are none."""
    found = sorted(place.glob(PATTERN)) if place.is_dir() else [place]
    if not found:
        raise Rejected(f"{place} has no {PATTERN}")
    return found


def lines(path: Path) -> Iterator[bytes]:
    """The lines of one file, up to an incomplete end: a killed process does not complete its file."""
    try:
        with gzip.open(path) as file:
            while (line := file.readline(MAX_LINE)).endswith(b"\n"):
                yield line
    except EOFError:
        return
    except (OSError, zlib.error) as exc:
        raise Rejected(f"journal {path}: {exc}") from exc


def _number(path: Path) -> int:
    digits = path.name.removeprefix("journal-").partition(".")[0]
    return int(digits) if digits.isdigit() else 0
