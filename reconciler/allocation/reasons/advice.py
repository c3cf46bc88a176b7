"""What a row of the table of reasons says."""

from enum import StrEnum
from typing import NamedTuple


class Whose(StrEnum):
    """Who can do something about it."""

    TIME = "passes when devices are freed or added"
    CLAIM = "the claim has to be mended"
    FLEET = "slices, classes or nodes have to be mended"
    POD = "pods that request Koordinator's devices"


class Advice(NamedTuple):
    """A row of the table."""

    meaning: str
    remedy: str
    whose: Whose
