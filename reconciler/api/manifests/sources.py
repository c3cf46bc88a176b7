"""The texts of the paths on a command line: files, directories, `-` for standard input."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from reconciler.errors import Malformed

MAX_BYTES = 256 * 2**20
"""Limit of one file: a hundred times the list of slices of a cluster with 5000 nodes."""
SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


def texts(paths: Iterable[str], stdin: BinaryIO) -> Iterator[tuple[str, str | Malformed]]:
    """The name of every file, with its text or the error.

    A directory stands for all manifests below it, in the order of their paths.
    """
    for path in paths:
        if path == STDIN:
            yield "<stdin>", _text("<stdin>", stdin.read(MAX_BYTES + 1))
        elif Path(path).is_dir():
            yield from ((str(file), file_text(file)) for file in manifests_in(Path(path)))
        else:
            yield path, file_text(Path(path))


def manifests_in(folder: Path) -> list[Path]:
    """The manifests below a folder, in the order of their paths."""
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())


def file_text(path: Path) -> str | Malformed:
    """The text of a file, or the error."""
    try:
        with path.open("rb") as file:
            return _text(str(path), file.read(MAX_BYTES + 1))
    except OSError as exc:
        return Malformed(str(path), "", exc.strerror or type(exc).__name__)


def _text(name: str, data: bytes) -> str | Malformed:
    if len(data) > MAX_BYTES:
        return Malformed(name, "", f"is larger than {MAX_BYTES // 2**20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        return Malformed(f"{name}:{line}", "", f"is not UTF-8 text: byte {data[exc.start]:#04x}")
