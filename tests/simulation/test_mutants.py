"""The simulation is worth something only if it notices what is broken."""

import pytest

from tests.simulation.mutants import MUTANTS, PAIRED
from tests.simulation.schedule import run

SEEDS = 12
"""Those below are found in so few; `MUTANTS` has more, which take hundreds"""


@pytest.mark.parametrize(
    "name", ["plans are not assumed", "writes without resourceVersion", "allocation without finalizer"]
)
def test_a_broken_protection_is_noticed(name: str):
    with MUTANTS[name]():
        assert any(run(seed).findings for seed in range(SEEDS))


def test_a_pair_of_which_both_lead_is_noticed():
    with PAIRED["everybody leads"]():
        assert any(run(seed, pair=True).findings for seed in range(SEEDS))
