"""Work that can be put down between its steps, so that others have their turns."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Yields before each step that may take some milliseconds, and returns what it worked out."""
