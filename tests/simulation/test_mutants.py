"""The simulation is worth something only if it notices what is broken."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.mutants import MUTANTS, PAIRED, TESTS
from tests.simulation.schedule import run

SEEDS = 60
"""Those below are found in fewer; `MUTANTS` has more, which take hundreds"""


@pytest.mark.parametrize(
    "name", ["plans are not assumed", "writes without resourceVersion", "allocation without finalizer"]
)
def test_a_broken_protection_is_noticed(name: str):
    with MUTANTS[name]():
        assert any(run(seed).findings for seed in range(SEEDS))


def test_a_pair_of_which_both_lead_is_noticed():
    with PAIRED["everybody leads"]():
        assert any(run(seed, pair=True).findings for seed in range(SEEDS))


def test_what_schedules_seldom_meet_is_noticed_by_tests():
    """All of them fail once what they stand for is broken."""
    plugins = ("-p", "tests.simulation.breaking", "-p", "no:xdist", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rf", *plugins, *TESTS.values()]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    assert sorted(failed) == sorted(TESTS.values()), done.stdout + done.stderr
