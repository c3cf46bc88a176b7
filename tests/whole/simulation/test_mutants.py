"""The simulation is worth something only if it notices what is broken."""

import os
import re
import subprocess
import sys

import pytest

from tests.tools.checkout import ROOT
from tests.tools.simulation.mutants import (
    ANNOUNCING,
    BURSTING,
    BY_HAND,
    EVICTING,
    GANGED,
    HANDING,
    MOVING,
    MUTANTS,
    PAIRED,
    SEEDS,
    TESTS,
)
from tests.tools.simulation.schedule import IN_MEMORY, PAIRS, run

OTHERWISE = {*TESTS, *BY_HAND}
"""Noticed by a test of their own"""


@pytest.mark.parametrize("name", sorted(MUTANTS.keys() - OTHERWISE))
def test_a_broken_protection_is_noticed_by_the_schedules_of_each_change(name: str):
    with MUTANTS[name]():
        assert any(run(seed).findings for seed in (SEEDS.get(name, 0), *range(IN_MEMORY)))


@pytest.mark.parametrize("name", sorted(PAIRED.keys() - OTHERWISE))
def test_so_it_is_where_there_are_two_replicas(name: str):
    with PAIRED[name]():
        assert any(run(seed, pair=True).findings for seed in (SEEDS.get(name, 0), *range(PAIRS)))


@pytest.mark.parametrize("name", sorted(GANGED.keys() - OTHERWISE))
def test_so_it_is_where_there_are_gangs(name: str):
    with GANGED[name]():
        assert any(run(seed, gangs=True).findings for seed in (SEEDS.get(name, 0), *range(IN_MEMORY)))


@pytest.mark.parametrize("name", sorted(EVICTING.keys() - OTHERWISE))
def test_so_it_is_where_pods_are_evicted(name: str):
    with EVICTING[name]():
        assert any(run(seed, evictions=True).findings for seed in (SEEDS.get(name, 0), *range(IN_MEMORY)))


@pytest.mark.parametrize("name", sorted(MOVING))
def test_so_it_is_where_pods_move(name: str):
    with MOVING[name]():
        assert any(run(seed, moves=True).findings for seed in (SEEDS.get(name, 0), *range(IN_MEMORY)))


def test_what_has_a_test_of_its_own_is_a_mutant():
    kinds = (MUTANTS, PAIRED, GANGED, EVICTING, MOVING, BURSTING, ANNOUNCING, HANDING)
    assert {name for kind in kinds for name in kind} >= OTHERWISE | SEEDS.keys()
    assert ANNOUNCING.keys() <= OTHERWISE


def test_what_schedules_seldom_meet_is_noticed_by_tests():
    """All of them fail once what they stand for is broken."""
    plugins = ("-p", "tests.tools.simulation.breaking", "-p", "no:xdist", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rf", *plugins, *TESTS.values()]
    impatient = {**os.environ, "PATIENCE": "20"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=impatient)
    failed = re.findall(r"^FAILED (.*?)(?: - .*)?$", done.stdout, re.MULTILINE)
    assert sorted(failed) == sorted(TESTS.values()), done.stdout + done.stderr
