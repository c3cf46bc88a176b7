"""`top --demand`: the ConfigMap with the learnt demand, for people and programs."""

import asyncio
import json

import pytest
from click.testing import CliRunner, Result

from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.cli import main
from reconciler.embedded import ApiServer, serve
from tests.tools.small_fleet import claim_spec

pytestmark = pytest.mark.loopback

DEMAND = Demand((Shape(ResourceClaimSpec.model_validate(claim_spec(2)), 500, 3000),))
ROWS = [["first-fit", False, 3, 1, 2, 0.25], ["least-loss", True, 6, 0, 0, 0.0]]
COMPARISON = json.dumps({"samples": 6, "policies": ROWS})
DATA = {"demand": DEMAND.to_json(), "at": "2026-01-01T12:00:00+00:00", "comparison": COMPARISON}


async def shown(*arguments: str, **data: str) -> Result:
    """The output for a ConfigMap with this data."""
    api = ApiServer()
    metadata = {"name": "demand", "namespace": "ours"}
    api.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
    async with serve(api) as url:
        command = ["top", "--server", url, *arguments]
        return await asyncio.to_thread(CliRunner().invoke, main, command)


async def test_people_get_tables():
    found = await shown("--demand", "ours/demand", **DATA)
    assert found.exit_code == 0
    lines = [line.split() for line in found.stdout.splitlines() if line]
    assert ["2", "of", "class", "gpu;", "CPU", "500m", "100.0%"] in lines
    assert ["least-loss", "yes", "6", "0", "0", "0.00"] in lines
    assert "6 sampled decisions" in found.stdout


async def test_programs_get_json():
    found = await shown("--demand", "ours/demand", "-o", "json", **DATA)
    told = json.loads(found.stdout)
    assert told["demand"] == [{"shape": "2 of class gpu; CPU 500m", "share": 1.0}]
    assert told["samples"] == 6
    assert told["policies"][0] == {
        "policy": "first-fit",
        "used": False,
        "same": 3,
        "otherDevices": 1,
        "otherNode": 2,
        "placesLost": 0.25,
    }


async def test_a_comparison_that_cannot_be_read_is_left_out_with_a_warning():
    found = await shown("--demand", "ours/demand", **{**DATA, "comparison": "{}"})
    assert found.exit_code == 0
    assert "warning: ConfigMap ours/demand: comparison: not a comparison" in found.stderr
    assert "2 of class gpu" in found.stdout


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("ours/demand", {}, "holds no demand yet"),
        ("ours/other", {}, "there is no ConfigMap ours/other"),
        ("ours/demand", {**DATA, "at": "x"}, "must be a time in RFC 3339 format"),
        ("demand", {}, "needs NAMESPACE/NAME"),
    ],
)
async def test_what_is_missing_is_said(name: str, data: dict[str, str], said: str):
    found = await shown("--demand", name, **data)
    assert found.exit_code > 0
    assert said in found.output + found.stderr
