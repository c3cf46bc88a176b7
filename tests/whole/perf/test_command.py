"""The command line as a user meets it."""

import json

import pytest
from click.testing import CliRunner

from perf.__main__ import main
from perf.catalogue import WORKLOADS
from perf.fleets import gpus
from perf.fleets.objects import claim, exactly
from perf.results import load
from tests.tools.examples import in_soak


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_every_workload_is_listed(run):
    listed = run("list").stdout
    assert all(name in listed for name in WORKLOADS)


def test_a_scenario_is_answered_in_json_alone(run, tmp_path):
    fleet = list(gpus.fleet(1))
    scenario = {
        "deviceClasses": [thing for thing in fleet if thing["kind"] == "DeviceClass"],
        "resourceSlices": [thing for thing in fleet if thing["kind"] == "ResourceSlice"],
        "nodes": [thing for thing in fleet if thing["kind"] == "Node"],
        "claims": [claim("a", [exactly("r", gpus.CLASS)])],
    }
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(scenario))
    answer = json.loads(run("replay", path, "--json").stdout)
    assert answer["allocated"] == 1
    assert answer["devices"] == [
        {
            "claim": "default/a",
            "node": "node-0",
            "request": "r",
            "driver": gpus.DRIVER,
            "pool": "node-0",
            "device": "gpu-0",
        }
    ]


@in_soak
def test_a_run_is_kept(run, tmp_path):
    """The one test that goes through a process of its own."""
    kept = tmp_path / "results.json"
    sizes = ["--set", "nodes=1", "--set", "claims=2"]
    done = run("run", "mig-multi", "--repeats", 1, *sizes, "--out", kept)
    assert done.exit_code == 0, done.output
    assert "loop" in done.stdout
    assert "MiB" in done.stdout
    assert [one.workload for one in load(kept).runs] == ["mig-multi"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "nothing"], "nothing"),
        (["run", "mig-multi", "--set", "nodes"], "NUMBER"),
        (["replay", "absent.json"], "absent.json"),
        (["soak", "--folder", "/"], "name a new folder"),
    ],
    ids=["unknown workload", "size without a number", "no such file", "folder that exists"],
)
def test_what_cannot_be_done_is_said_without_a_traceback(run, arguments, says):
    done = run(*arguments)
    assert done.exit_code == 2
    assert says in done.output
