"""The simulation is worth something only if it notices what is broken."""

import pytest

from tests.simulation.mutants import MUTANTS
from tests.simulation.schedule import run

SEEDS = 12
"""Those below are found in so few; `MUTANTS` has more, which take hundreds"""


@pytest.mark.parametrize(
    "name", ["plans are not assumed", "writes without resourceVersion", "allocation without finalizer"]
)
def test_a_broken_protection_is_noticed(name: str):
    with MUTANTS[name]():
        assert any(run(seed).findings for seed in range(SEEDS))
