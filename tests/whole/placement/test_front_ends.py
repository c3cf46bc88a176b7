"""The same manifests get the same devices, nodes, order and reasons, whoever decides."""

from pathlib import Path

import pytest

from tests.tools.front_ends import again, allocated, asked_of_the_port, explained, live, supposed
from tests.tools.placement_scenarios import SCENARIOS, Expected, Scenario

each = pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)


def in_order(found: Expected) -> list[tuple[str, str]]:
    return list(found.items())


def whole(scenario: Scenario, expected: Expected) -> Expected:
    """Without what `whatif` cannot be asked."""
    return {unit: said for unit, said in expected.items() if unit not in scenario.apart}


@each
async def test_the_live_loop_and_the_replay_of_its_journal(scenario: Scenario, tmp_path: Path):
    found = await live(scenario, tmp_path)
    if scenario.live_order:
        assert in_order(found) == in_order(scenario.expected)
    assert found == scenario.expected
    told, different = again(tmp_path)
    assert different == 0
    assert told.items() <= scenario.expected.items()


@each
def test_allocate(scenario: Scenario):
    assert in_order(allocated(scenario)) == in_order(scenario.of_files)


@each
def test_explain(scenario: Scenario):
    nodes = {unit: said.partition(": ")[0] for unit, said in scenario.of_files.items()}
    assert explained(scenario) == nodes


@each
def test_whatif(scenario: Scenario, tmp_path: Path):
    assert supposed(scenario, tmp_path) == whole(scenario, scenario.of_files)


@each
async def test_whatif_on_the_status_port(scenario: Scenario):
    assert await asked_of_the_port(scenario) == whole(scenario, scenario.expected)
