"""Conformance data as it lies on disk: files, lists in files, lines of files, folders of all that."""

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools import checkout

SHARED = checkout.SHARED / "conformance"

SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".json.gz")


@dataclass(frozen=True, slots=True)
class Document:
    """One JSON object, and where it stands."""

    path: Path
    number: int | None
    """Its place in a file of several; None if it is the whole file."""
    data: dict[str, Any]

    @property
    def place(self) -> str:
        return self.path.name if self.number is None else f"{self.path.name}[{self.number}]"


def documents(path: Path) -> Iterator[Document]:
    """Every object below a path, folders in the order of names. Raises ValueError for what is no JSON."""
    if path.is_dir():
        for entry in sorted(path.iterdir()):
            if entry.is_dir() or entry.name.endswith(SUFFIXES):
                yield from documents(entry)
        return
    lines = path.name.removesuffix(".gz").endswith(".jsonl")
    text = _text(path)
    try:
        content = (
            [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
        )
    except ValueError as exc:
        raise ValueError(f"{path}: {exc}") from exc
    if isinstance(content, list):
        yield from _numbered(path, content)
    else:
        yield from (Document(path, None, entry.data) for entry in _numbered(path, [content]))


def _numbered(path: Path, entries: Iterable[Any]) -> Iterator[Document]:
    for number, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise ValueError(f"{path}: entry {number} is no object")  # noqa: TRY004
        yield Document(path, number, entry)


def _text(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
