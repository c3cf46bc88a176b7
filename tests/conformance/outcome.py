"""What became of one case."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mismatch:
    """An answer that is not the reference's."""

    expected: Any
    got: Any


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: passed unless it mismatched or was skipped."""

    case: str
    mismatch: Mismatch | None = None
    skipped: str = ""
    """Why it was not judged."""


def judged(case: str, judge: Callable[[], Mismatch | None]) -> Outcome:
    """The outcome of a judgement. One that raises is a mismatch: it must not hide the cases after it."""
    try:
        return Outcome(case, judge())
    except Exception as exc:
        return Outcome(case, Mismatch("an answer", f"{type(exc).__name__}: {exc}"))
