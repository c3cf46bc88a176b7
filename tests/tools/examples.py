"""How much is tried: few examples of a property on each change, many times more by `make soak`."""

import os

import pytest
from hypothesis import HealthCheck, settings

FACTOR = int(os.environ.get("EXAMPLES", "1"))
"""How many times the named number of examples `make soak` tries"""
FEWEST = 4

in_soak = pytest.mark.skipif(os.environ.get("SIZE") != "full", reason="takes seconds: `make soak` runs it")
"""For what starts other programs and follows from tests that always run"""


def examples(count: int) -> settings:
    """The same examples on each change, random ones in `make soak`: a change answers for itself alone.

    Deadlines are off: the first look at a selector compiles it.
    """
    return settings(
        max_examples=scaled(count),
        derandomize=FACTOR == 1,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


def seeds(count: int) -> range:
    """Seeds of random worlds: on each change every fourth of so many, in `make soak` all of them."""
    return range(0, count, 4 if FACTOR == 1 else 1)


def scaled(count: int) -> int:
    """How many examples are tried in place of `count`: on each change a quarter of them."""
    return count * FACTOR if FACTOR > 1 else max(FEWEST, count // 4)
