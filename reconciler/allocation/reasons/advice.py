"""A row of the table of reasons."""

from enum import StrEnum
from typing import NamedTuple


class Section(StrEnum):
    """The sections of the page of reasons, by what resolves a reason."""

    WAIT = "resolved when devices are freed or added"
    CLAIM = "fix the claim"
    FLEET = "fix slices, classes or nodes"
    KOORDINATOR = "pods that request Koordinator devices"


class Advice(NamedTuple):
    """A row of the table."""

    meaning: str
    remedy: str
    section: Section
