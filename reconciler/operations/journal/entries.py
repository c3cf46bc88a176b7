"""The journal: its lines and files, and what is recorded: what changes the state of decisions, in its order.

A full file is followed by a new one; the oldest is removed.
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO

import msgspec
import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.changes import Change, Changed, Recorded, Refused, Removed, Replaced
from reconciler.api.objects.meta import ApiObject, DeviceID, ObjectKey, is_same_version_aside
from reconciler.api.objects.model import Model
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.kinds import KINDS
from reconciler.control import inputs
from reconciler.control.intake import Intake
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


log = structlog.get_logger()

AGAIN_SECONDS = 60.0
KEPT_BY_STORE = ("DeviceClass", "DeviceTaintRule", "ResourceSlice", "Pod", "ResourceClaim")
"""The kinds of which the store has the objects"""


class Recorder:
    """The journal of an intake. If it cannot be written, it stops, and a new file is tried every minute;
    allocation continues.
    """

    def __init__(
        self,
        folder: Path,
        header: Header,
        *,
        full: int = FULL_BYTES,
        files: int = FILES,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Keeps `files` files of about `full` bytes; `clock` counts seconds until a new attempt. Raises
        Rejected if the folder is not writable.
        """
        self.header = replace(header, run=token_hex(4))
        self._files = Files(folder, full=full, files=files)
        self._folder = folder
        self._clock = clock
        self._again_at: float | None = None
        """Since it could not be written: when to try again. None while it is written"""
        self._plugins: list[Callable[[], Iterable[Recorded]]] = []
        self._policies = PLAIN
        self._others: dict[str, dict[ObjectKey, ApiObject]] = {"Node": {}}
        """Kind -> the newest objects, for kinds of which the store does not have the objects"""

    def add(self, beginning: Callable[[], Iterable[Recorded]]) -> None:
        """Add a plugin. `beginning` returns what made its state, as far as the objects that are there now do
        not say it.
        """
        self._plugins.append(beginning)

    def use(self, policies: Policies) -> None:
        """Record the policies of the decisions that follow."""
        if policies == self._policies:
            return
        self._policies = policies
        if self._files.begun:  # the beginning of a file has them
            self._write(inputs.PoliciesUsed(policies), lambda: ())

    def note(self, what: Recorded, state: Intake) -> None:
        """Record what is about to change `state`, or a decision that is about to have effects."""
        if self._is_heartbeat(what):
            return
        # A file begins with a state, and the answer to a decision belongs to what was before it.
        if self._again_at is None or (
            self._clock() >= self._again_at and not isinstance(what, inputs.Answered)
        ):
            self._write(what, lambda: map(encode, self._beginning(state)))
        if isinstance(what, Change) and what.kind not in KEPT_BY_STORE:
            self._keep(what)

    def close(self) -> None:
        """Write all entries and close the file."""
        try:
            self._files.close()
        except OSError as exc:
            self._stop(exc)

    def _write(self, what: Recorded, beginning: Callable[[], Iterable[bytes]]) -> None:
        try:
            # An answer mostly follows its question: each file can then be replayed alone. Policies change
            # where no state is at hand, with which a file could begin.
            self._files.write(
                encode(what), beginning, with_last=isinstance(what, inputs.Answered | inputs.PoliciesUsed)
            )
            if isinstance(what, inputs.Answered) or self._again_at is not None:
                self._files.flush()
        except (OSError, ValueError) as exc:  # the disk fails, or an object has no JSON
            self._stop(exc)
            return
        if self._again_at is not None:
            self._again_at = None
            log.info("journal resumed", file=str(self._folder))

    def _stop(self, exc: Exception) -> None:
        if self._again_at is None:
            log.warning("journal stopped", file=str(self._folder), error=str(exc))
        self._again_at = self._clock() + AGAIN_SECONDS
        self._files.abandon()

    def _is_heartbeat(self, what: Recorded) -> bool:
        """Whether only the version of a Node differs."""
        if not isinstance(what, Changed) or what.kind != "Node":
            return False
        node, known = what.object, self._others["Node"].get(what.object.key)
        return (
            known is not None
            and is_same_version_aside(known.metadata, node.metadata)
            and known == node.model_copy(update={"metadata": known.metadata})
        )

    def _keep(self, change: Change) -> None:
        known = self._others.setdefault(change.kind, {})
        match change:
            case Changed(object=thing):
                known[thing.key] = thing
            case Removed(key=key) | Refused(key=key):
                known.pop(key, None)
            case Replaced(objects=objects):
                self._others[change.kind] = {thing.key: thing for thing in objects}

    def _beginning(self, state: Intake) -> Iterator[Recorded | Header]:
        """What makes the present state in an empty one. Draws come before the slices of their pools, nodes
        before what plugins add, and objects before what is decided about them.
        """
        store = state.store
        yield self.header
        yield inputs.PoliciesUsed(self._policies)
        for pool in store.retained.pools():
            for name, drawn in store.retained.of(pool).items():
                yield inputs.RetainedDraw(DeviceID(*pool, name), drawn)
        yield from _all("Node", self._others["Node"].values())
        for beginning in self._plugins:
            yield from beginning()
        others = {kind: known.values() for kind, known in self._others.items() if kind != "Node"}
        kept = (
            store.supply.classes.values(),
            store.supply.taint_rules,
            (block.source() for block in store.supply.inventory.all_blocks),
            store.pods.values(),
            store.claims.values(),
        )
        for kind, objects in {**others, **dict(zip(KEPT_BY_STORE, kept, strict=True))}.items():
            yield from _all(kind, objects)
        for (kind, key), why in store.refused.items():
            yield Refused(kind, key, why)
        for name, driver in store.supply.inventory.stating_elsewhere:
            yield Removed("ResourceSlice", ObjectKey("", name), driver)
        yield from map(inputs.Assumed, store.assumptions)
        for pod, node in state.assumed_pods.items():
            yield inputs.PodAssumed(pod, node)
        residents = state.nodes.residents
        gated = frozenset(residents.unbound(gated=True))
        yield from (inputs.PodReleased(pod) for pod in residents.unbound(gated=False) if pod not in gated)
        yield from (inputs.RoomHeld(replace(one, until=0.0)) for one in store.nominations)


def _all(kind: str, objects: Iterable[ApiObject]) -> Iterator[Changed]:
    return (Changed(kind, thing) for thing in objects)
