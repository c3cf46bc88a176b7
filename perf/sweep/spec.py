"""Reads the file of a sweep: sections whose fields hold a value or several; all combinations are played."""

import glob
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import yaml
from pydantic import ValidationError

from perf.sweep.results import Result, Task, tasks_of
from perf.sweep.scenario import PLAYS, SCENARIO, Played
from reconciler.allocation.dra.selector_masks import warm_up
from reconciler.errors import Malformed, ReconcilerError

MOST = 1_000_000
"""Scenarios of one sweep"""
MAX_BYTES = 2**20
"""Of the file"""


def read_spec(path: Path) -> list[Played]:
    """All scenarios, each once, in the order of the file. Raises Malformed with the section and the field."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise Malformed(str(path), "", f"has more than {MAX_BYTES} bytes")
        spec = yaml.safe_load(text)
    except OSError as exc:
        raise Malformed(str(path), "", f"cannot be read: {exc.strerror}") from exc
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError) as exc:
        raise Malformed(str(path), "", f"is not YAML: {exc}") from exc
    sections = spec.get("sweeps") if isinstance(spec, dict) else None
    if not isinstance(sections, list) or not sections or spec.keys() != {"sweeps"}:
        raise Malformed(str(path), "sweeps", "must be a list of sections, and the only field of the file")
    found: dict[Played, None] = {}
    for number, section in enumerate(sections):
        for scenario in _section(section, f"sweeps[{number}]", path):
            found[scenario] = None
            if len(found) > MOST:
                raise Malformed(str(path), "sweeps", f"are more than {MOST} scenarios; make several files")
    return list(found)


def _section(section: Any, where: str, path: Path) -> Iterator[Played]:
    play = section.get("play") if isinstance(section, dict) else None
    if not isinstance(play, str) or play not in PLAYS:
        raise Malformed(str(path), f"{where}.play", f"must be one of {', '.join(PLAYS)}")
    files = PLAYS[play].FILES
    values = {
        name: (_files if name in files else _values)(given, f"{where}.{name}", path)
        for name, given in section.items()
    }
    total = math.prod(map(len, values.values()))
    if total > MOST:
        raise Malformed(str(path), where, f"has {total} scenarios; at most {MOST} are allowed")
    for chosen in itertools.product(*values.values()):
        try:
            yield SCENARIO.validate_python(dict(zip(values, chosen, strict=True)))
        except ValidationError as exc:
            first = exc.errors()[0]
            field = ".".join(map(str, (where, *first["loc"][1:])))
            raise Malformed(str(path), field, first["msg"].removeprefix("Value error, ")) from exc


def _values(given: Any, where: str, path: Path) -> list[Any]:
    """The values of a field: one, a list of them, or whole numbers `{from: 100, to: 119}`."""
    if isinstance(given, list):
        if not given:
            raise Malformed(str(path), where, "is an empty list")
        return given
    if not isinstance(given, Mapping):
        return [given]
    first, last = given.get("from"), given.get("to")
    if given.keys() != {"from", "to"} or type(first) is not int or type(last) is not int or first > last:
        raise Malformed(str(path), where, "must be a value, a list, or {from: NUMBER, to: NUMBER}")
    if last - first >= MOST:
        raise Malformed(str(path), where, f"has more than {MOST} numbers")
    return list(range(first, last + 1))


def _files(given: Any, where: str, path: Path) -> list[str]:
    """Files and folders by name or pattern, relative to the file of the sweep."""
    found: list[str] = []
    for pattern in _values(given, where, path):
        if not isinstance(pattern, str):
            raise Malformed(str(path), where, f"must be a name or pattern of files, not {pattern!r}")
        matching = sorted(glob.glob(str(path.parent / pattern), recursive=True))
        if not matching:
            raise Malformed(str(path), where, f"{pattern}: no such file")
        found += matching
    return found


SECONDS = 2.0
"""Of processor time that a batch should take"""
MOST_IN_A_BATCH = 500
"""Scenarios of one batch"""

ELSEWHERE = (
    "the code, the libraries or the input files differ between this process and the one that started the "
    "sweep; use the same checkout and environment everywhere"
)


class Batches:
    """What is left to play. How long scenarios take is learnt from those that were played."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._waiting: dict[tuple[object, ...], deque[Task]] = {}
        for task in tasks:
            self._waiting.setdefault(task.scenario.like(), deque()).append(task)
        self._seconds: dict[tuple[object, ...], float] = {}

    def next(self) -> list[Task]:
        """The next batch; empty if nothing is left. Scenarios of unknown length go alone, the first ones."""
        if not self._waiting:
            return []
        kinds = sorted(self._waiting, key=self._seconds.__contains__)
        batch: list[Task] = []
        expected = 0.0
        for kind in kinds:
            each = self._seconds.get(kind, SECONDS)
            queue = self._waiting[kind]
            while queue and len(batch) < MOST_IN_A_BATCH and (not batch or expected + each <= SECONDS):
                batch.append(queue.popleft())
                expected += each
            if not queue:
                del self._waiting[kind]
            else:
                # Others get their turn: all kinds become known early.
                self._waiting[kind] = self._waiting.pop(kind)
                break
        return batch

    def learn(self, batch: Sequence[Task], results: Sequence[Result]) -> None:
        """Learn from what a batch took."""
        for task, result in zip(batch, results, strict=True):
            kind = task.scenario.like()
            before = self._seconds.get(kind, result.seconds)
            self._seconds[kind] = (before + result.seconds) / 2


def play(batch: Sequence[Task]) -> list[Result]:
    """Play a batch, in any process. A scenario that fails does not stop the others."""
    warm_up()  # a process builds the parser of selectors once; that is nobody's time
    return [_play(task) for task in batch]


def _play(task: Task) -> Result:
    began = thread_time()
    try:
        row, error = (task.scenario.row(), "") if tasks_of([task.scenario]) == [task] else ({}, ELSEWHERE)
    except Exception as exc:  # whatever it is, other scenarios go on and the command tells it
        row, error = {}, str(exc) if isinstance(exc, ReconcilerError) else f"{type(exc).__name__}: {exc}"
    return Result(task.digest, row, thread_time() - began, error)
