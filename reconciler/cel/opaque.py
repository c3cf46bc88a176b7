"""Opaque values that only their own library understands. Quantities and versions live in objects."""

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
    """A named format; `problems` lists what is wrong with a text."""

    name: str
    problems: Callable[[str], tuple[str, ...]] = field(compare=False)
