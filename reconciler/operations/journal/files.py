"""Files of a journal: compressed JSON lines. A full file is followed by a new one; the oldest is deleted."""

import gzip
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from reconciler.errors import Rejected

Json = dict[str, Any]

PATTERN = "journal-*.jsonl.gz"
FULL_BYTES = 64 * 2**20
"""Bytes of a file before compression, which reduces them to a tenth or less"""
FILES = 16
"""Kept files"""
LEVEL = 1
"""Compression level; higher levels take several times as long and save a few percent"""
MAX_LINE = 512 * 2**20
"""Maximum characters of a line: a list of a million devices"""
_KIND = re.compile(r'\{"t": ?"(\w+)"')
"""The start of every entry"""


class Files:
    """Writes entries. Every file starts with the entries of `beginning`, so it can be read alone."""

    def __init__(
        self,
        folder: Path,
        beginning: Callable[[], Iterable[Json]],
        *,
        full: int = FULL_BYTES,
        files: int = FILES,
    ) -> None:
        """Raises Rejected if the folder is not writable."""
        self._folder = folder
        self._beginning = beginning
        self._full = full
        self._files = files
        self._file: gzip.GzipFile | None = None
        self._size = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._number = max((_number(path) for path in folder.glob(PATTERN)), default=0)
        except OSError as exc:
            raise Rejected(f"journal {folder}: {exc.strerror}") from exc

    def write(self, entry: Json, *, in_snapshot: bool = False) -> None:
        """Add an entry. `in_snapshot`: the initial snapshot of a new file contains it. Raises OSError."""
        begins = self._file is None or self._size >= self._full
        if begins:
            self._begin()
        if not (begins and in_snapshot):
            self._put(entry)

    def flush(self) -> None:
        """Flush, so that other processes can read all entries."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        self.close()
        self._number += 1
        path = self._folder / f"journal-{self._number:06}.jsonl.gz"
        self._file = gzip.GzipFile(path, "wb", LEVEL)
        self._size = 0
        for entry in self._beginning():
            self._put(entry)
        self._size = 0  # the initial snapshot does not count
        for path in sorted(self._folder.glob(PATTERN))[: -self._files]:
            path.unlink(missing_ok=True)

    def _put(self, entry: Json) -> None:
        assert self._file is not None
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        self._file.write(line)
        self._size += len(line)


def paths(place: Path) -> list[Path]:
    """The files of a journal in order; a file is one alone. Raises Rejected if there are none."""
    found = sorted(place.glob(PATTERN)) if place.is_dir() else [place]
    if not found:
        raise Rejected(f"{place} has no {PATTERN}")
    return found


def entries(path: Path, *, only: Container[str] | None = None) -> Iterator[Json]:
    """The entries of one file, up to an incomplete end: a killed process does not complete its file.

    Of entries whose kind is not in `only`, only the kind is read, which is much faster.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            while line := file.readline(MAX_LINE):
                if not line.endswith("\n"):
                    return
                kind = _KIND.match(line) if only is not None else None
                skips = kind is not None and only is not None and kind[1] not in only
                yield {"t": kind[1]} if kind is not None and skips else json.loads(line)
    except EOFError:
        return
    except (OSError, ValueError) as exc:
        raise Rejected(f"journal {path}: {exc}") from exc


def _number(path: Path) -> int:
    digits = path.name.removeprefix("journal-").partition(".")[0]
    return int(digits) if digits.isdigit() else 0
