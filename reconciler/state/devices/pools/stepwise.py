"""Work in steps, so that other work can run in between."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Yields before each step that may take milliseconds, and returns the result."""
