"""Two allocators on one node: kube-scheduler, whose caches are seconds behind, and ours. No device twice."""

import asyncio
from contextlib import nullcontext

import pytest

from tests.tools.simulation import demand
from tests.tools.simulation.configured import SETTINGS
from tests.tools.simulation.handing_over import asking, named_class, run
from tests.tools.simulation.mutants import HANDING
from tests.tools.simulation.noticed_by import BY_HAND, SEEDS, TESTS
from tests.tools.simulation.stage import LONG, Stage, staged, wanted

SCHEDULES = 8


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_no_device_is_held_twice_and_nothing_waits_in_vain(seed: int):
    assert run(seed).findings == ()


@pytest.mark.parametrize("name", sorted(HANDING.keys() - TESTS.keys() - BY_HAND))
def test_a_broken_protection_is_noticed(name: str):
    with HANDING[name]():
        assert any(run(seed).findings for seed in (SEEDS[name], *range(SCHEDULES)))


async def late(stage: Stage) -> int:
    """A process dies while the removal of a gate is on its way; it arrives when another one has begun."""
    stage.add_device("other")
    stage.api.load([named_class(), demand.claim("early", wanted("gpu"))])
    wire, first = stage.start(SETTINGS)
    await stage.until(stage.held)
    wire.loses = "/pods/pod"
    stage.api.load([asking("pod", 1)])
    await stage.until(lambda: wire.lost)
    first.cancel()
    stage.start(SETTINGS)
    await asyncio.sleep(2.0)  # it has begun, and waits for kube-scheduler to see the claim
    answer = await wire.lost[0]()
    await asyncio.sleep(LONG)
    return answer.status


@pytest.mark.parametrize("broken", [False, True])
def test_a_gate_is_not_removed_by_a_process_that_is_gone(broken: bool):
    name = "removals of gates are not fenced off at the start"
    with HANDING[name]() if broken else nullcontext():
        assert staged(late) == (200 if broken else 409)
