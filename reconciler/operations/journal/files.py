"""Files of a journal: compressed lines. A full file is followed by a new one; the oldest is deleted."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from reconciler.errors import Rejected

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
