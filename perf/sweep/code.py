"""The digest of the code that makes rows: a result counts as long as nothing that it follows from changes."""

import hashlib
import platform
import re
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from perf.machine import ROOT

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
