"""Results by the digest of what they follow from: a file each, so that a sweep can be resumed."""

import hashlib
import json
import os
import platform
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from perf.results import ROOT
from perf.sweep.scenario import Played, content_of

START = "perf.sweep.scenario"
OURS = ("kernels", "perf", "reconciler")
LIBRARIES = ("cel-python", "google-re2", "lark", "msgspec", "numpy", "pydantic", "semver")
"""What rows are computed with, besides our own code"""
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ ]+([\w.]+)[ ]+import[ ]+(\([^)]*\)|[^\n#]*)|import[ ]+([^\n#]*))", re.MULTILINE
)
_NAME = re.compile(r"[\w.]+")


@cache
def code_digest() -> str:
    """Of Python's and the libraries' versions, and of all modules that `START` imports, directly or not.

    Also of the other files beside these modules, such as the tables of the parser. Imports within functions
    count, those by a string do not.
    """
    found = hashlib.sha256(platform.python_version().encode())
    for library in LIBRARIES:
        found.update(f"{library} {metadata.version(library)}\n".encode())
    for path in sorted(files_of(START)):
        found.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def files_of(start: str, root: Path = ROOT) -> set[Path]:
    """All files of ours that a module depends on, itself included."""
    found: set[Path] = set()
    waiting, known = [start], {start}
    while waiting:
        module = waiting.pop()
        path = _path(root, module)
        if path is None:
            continue
        found.add(path)
        found.update(one for one in path.parent.iterdir() if one.is_file() and one.suffix == ".json")
        for name in _imported(path):
            if name.partition(".")[0] in OURS and name not in known:
                known.add(name)
                waiting.append(name)
    return found


def _path(root: Path, module: str) -> Path | None:
    """The file of a module or package; None for a name in a module."""
    place = root.joinpath(*module.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


def _imported(path: Path) -> Iterator[str]:
    """Names that a module may import: modules with the packages above them, and names in modules.

    Ten times as fast as parsing the module, since each process of a sweep asks. It may find too many.
    """
    for module, several, plain in _IMPORT.findall(path.read_text("utf-8")):
        names = [module, *(f"{module}.{name}" for name in _NAME.findall(several))] if module else []
        for name in names or _NAME.findall(plain):
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


class Task(NamedTuple):
    """A scenario, and the name of its result."""

    scenario: Played
    digest: str


class Result(NamedTuple):
    """What came of one scenario."""

    digest: str
    row: Mapping[str, Any]
    """Empty if it failed"""
    seconds: float
    """Of processor time"""
    error: str = ""


def tasks_of(scenarios: list[Played]) -> list[Task]:
    """Each scenario with its digest. Raises Malformed if a file that it names cannot be read."""
    code = code_digest()
    return [Task(one, _digest({"code": code, **content_of(one)})) for one in scenarios]


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of results. Several processes may write to it at once."""

    folder: Path

    def load(self, digest: str) -> Result | None:
        """One result; None if it is not there. What cannot be read is played again."""
        try:
            raw = json.loads(self._path(digest).read_bytes())
            return Result(digest, dict(raw["row"]), float(raw["seconds"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def save(self, task: Task, result: Result) -> None:
        """Keep a result. A reader finds all of it or nothing."""
        path = self._path(task.digest)
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {"scenario": task.scenario.model_dump(), "row": result.row, "seconds": result.seconds}
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".part", delete=False) as file:
            json.dump(whole, file)
        os.replace(file.name, path)

    def _path(self, digest: str) -> Path:
        return self.folder / "rows" / digest[:2] / f"{digest}.json"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
