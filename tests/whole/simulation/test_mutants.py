"""The simulation is worth something only if it notices what is broken."""

import os
import re
import subprocess
import sys

import pytest

from tests.tools.checkout import ROOT
from tests.tools.simulation.mutants import BY_KIND, EVERY
from tests.tools.simulation.noticed_by import BY_HAND, SEEDS, TESTS
from tests.tools.simulation.schedule import IN_MEMORY, run

OTHERWISE = {*TESTS, *BY_HAND}
"""Noticed by a test of their own"""
BY_SCHEDULES = [(kind, name) for kind, of in BY_KIND.items() for name in of if name not in OTHERWISE]


@pytest.mark.parametrize(("kind", "name"), BY_SCHEDULES)
def test_a_broken_protection_is_noticed_by_the_schedules_of_each_change(kind: str, name: str):
    with EVERY[name]():
        assert any(
            run(seed, *[kind] if kind else []).findings for seed in (SEEDS.get(name, 0), *range(IN_MEMORY))
        )


def test_what_has_a_test_of_its_own_is_a_mutant():
    assert EVERY.keys() >= OTHERWISE | SEEDS.keys()
    assert BY_KIND["announced"].keys() <= OTHERWISE


def test_what_schedules_seldom_meet_is_noticed_by_tests():
    """All of them fail once what they stand for is broken."""
    plugins = ("-p", "tests.tools.simulation.breaking", "-p", "no:xdist", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rf", *plugins, *TESTS.values()]
    impatient = {**os.environ, "PATIENCE": "20"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=impatient)
    failed = re.findall(r"^FAILED (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    assert sorted(failed) == sorted(TESTS.values()), done.stdout + done.stderr
