"""Two allocators on one node: kube-scheduler, whose caches are seconds behind, and ours. No device twice."""

import pytest

from tests.tools.simulation.handing_over import run
from tests.tools.simulation.mutants import HANDING, SEEDS, TESTS

SCHEDULES = 15


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_no_device_is_held_twice_and_nothing_waits_in_vain(seed: int):
    assert run(seed).findings == []


@pytest.mark.parametrize("name", sorted(HANDING.keys() - TESTS.keys()))
def test_a_broken_protection_is_noticed(name: str):
    with HANDING[name]():
        assert any(run(seed).findings for seed in (SEEDS[name], *range(SCHEDULES)))
