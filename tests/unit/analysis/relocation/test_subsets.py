"""The search among sets of pods."""

import inspect
import sys

import pytest

from reconciler.analysis.relocation.occupants import Pods
from reconciler.analysis.relocation.victim_sets import Pricing, Subsets
from tests.tools.room_occupants import keys, occupants, running


@pytest.fixture
def shallow():
    """Calls can be nested half as deep as there are pods."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 75)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("shallow")
def test_many_pods_are_decided_without_nested_calls():
    found = occupants(*[running(f"p{number}") for number in range(150)])
    needed = keys("p0", "p1", "p7")
    search = Subsets(
        found,
        frozenset(found.pods),
        Pricing(found, _none, _none),
        lambda pods, _: needed <= pods,
        lambda pods, _: needed <= pods,
    )
    search.search(found.pods)
    assert search.best is not None
    assert search.best[1] == needed


def _none(_: Pods) -> int:
    return 0
