"""Opaque values, used by one library each. Quantities and versions are defined with the API objects."""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import SplitResult


@dataclass(frozen=True, slots=True)
class Url:
    """An absolute URL or an absolute path."""

    text: str
    parts: SplitResult = field(compare=False)


@dataclass(frozen=True, slots=True)
class Format:
    """A named format; `problems` returns the errors of a text."""

    name: str
    problems: Callable[[str], tuple[str, ...]] = field(compare=False)
