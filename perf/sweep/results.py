"""Results by the digest of what they follow from: a file each, so that a sweep can be resumed."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from perf.sweep.code import code_digest
from perf.sweep.scenario import Played, content_of


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
