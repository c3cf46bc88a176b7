"""`dra-reconciler defragment`: the plan for people, for programs and as evictions."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.analysis.relocation.defragment import defragment
from reconciler.analysis.relocation.moves_planner import Limit
from reconciler.cli import main
from tests.tools.builders import Object
from tests.tools.machines import Machine, Part, claim_of, device_class, halves, objects_of, pod_of, wholes
from tests.tools.processes import Overheard, answered


def fleet() -> list[Object]:
    """Two machines with a quarter held of each, and a half of the second."""
    objects = [device_class(), *objects_of("n0", halves()), *objects_of("n1", halves())]
    for name, profile, on, one in (
        ("a", "quarter", "n0", "quarter-1"),
        ("b", "quarter", "n1", "quarter-0"),
        ("c", "half", "n1", "half-2"),
    ):
        objects += [claim_of(name, profile, on, one), pod_of(name, on)]
    return objects


@pytest.fixture
def say(tmp_path: Path) -> Callable[..., Result]:
    """Runs the command on the fleet."""
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump_all(fleet()))
    return lambda *arguments: CliRunner().invoke(main, ["defragment", "-f", str(path), *arguments])


def test_moves_the_map_and_the_profiles_are_printed(say):
    result = say("--gain", "whole=1")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "1 move gains 1 device of whole: 0 now, 1 after; 1 a move",
        "no plan gains more than 1",
        "proven: no plan with this gain has fewer moves",
    ]
    rows = [line.split() for line in lines]
    assert ["1", "default/a", "a", "n0/quarter-1", "n1/quarter-1", "1"] in rows
    assert ["n0/set", ".a..", "...."] in rows
    assert ["n1/set", "#.##", "#a##"] in rows
    assert ["d", "whole", "0", "1"] in rows


def test_programs_get_everything(say):
    found = json.loads(say("-o", "json").stdout)
    told = {key: found[key] for key in ("before", "after", "gainWanted", "gainAtMost", "optimal")}
    assert told == {"before": 0, "after": 1, "gainWanted": 1, "gainAtMost": 1, "optimal": True}
    (step,) = found["steps"]
    assert step["moves"][0]["controller"] == "ReplicaSet/r"
    seen = step["moves"][0]["to"]
    assert seen == {"node": "n1", "devices": [{"driver": "d", "pool": "n1", "device": "quarter-1"}]}


def test_evictions_are_printed_as_commands(say):
    (line,) = say("-o", "commands").stdout.splitlines()
    assert line.startswith('echo \'{"apiVersion": "policy/v1", "kind": "Eviction"')
    assert line.endswith("| kubectl create --raw /api/v1/namespaces/default/pods/a/eviction -f -")


def test_without_a_name_whole_nodes_are_freed_where_nothing_shares_counters(tmp_path: Path):
    objects = [device_class(), *objects_of("n0", wholes(2)), *objects_of("n1", wholes(2))]
    for on in ("n0", "n1"):
        objects += [claim_of(f"on-{on}", "gpu", on, "g0"), pod_of(f"on-{on}", on)]
    (path := tmp_path / "fleet.yaml").write_text(yaml.safe_dump_all(objects))
    result = CliRunner().invoke(main, ["defragment", "-f", str(path)])
    assert result.stdout.startswith("1 move gains 1 free node: 0 now, 1 after"), result.output


@pytest.mark.loopback
async def test_a_cluster_is_only_read():
    api = Overheard()
    objects = fleet()
    for one in objects:
        if one["kind"] == "ResourceClaim":  # the server gives pods other uids
            del one["status"]["reservedFor"]
    api.load(objects)
    result = await answered(api, "defragment", "--gain", "whole=1")
    assert result.stdout.startswith("1 move gains 1 device of whole: 0 now, 1 after"), result.output
    assert set(api.methods) == {"GET"}


def test_too_much_is_refused_with_what_is_possible(say):
    result = say("--gain", "whole=2")
    assert result.exit_code == 1
    assert "found a gain of 1 of 2; no plan gains more than 1" in result.stdout


GAVE_UP = "the search gave up at a limit"


@pytest.mark.parametrize(
    ("limit", "name", "said"),
    [
        (Limit(decisions=0), "decisions", "decisions"),
        (Limit(moves=0), "moves", "moves"),
        (Limit(more=lambda: False), "stopped", "time"),
    ],
)
def test_a_search_that_gives_up_says_so(
    say, monkeypatch: pytest.MonkeyPatch, limit: Limit, name: str, said: str
):
    assert GAVE_UP not in say("--gain", "whole=1").stdout
    monkeypatch.setattr("reconciler.cli.defragment.answer_of", partial(defragment, limit=limit))
    result = say("--gain", "whole=1")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "found a gain of 0 of 1; no plan gains more than 1",
        f"{GAVE_UP} ({said}); another plan may gain more",
    ]
    found = json.loads(say("--gain", "whole=1", "-o", "json").stdout)
    assert (found["gaveUp"], found["limitsReached"]) == (True, [name])


def test_it_says_that_not_all_sets_of_many_pods_were_tried(tmp_path: Path):
    """Eleven pods on one of three machines: only whether all of them can leave was looked at."""
    names = [f"s{at}" for at in range(11)]
    parts = [Part("whole", "whole", dict.fromkeys(names, 1)), *(Part(one, "part", {one: 1}) for one in names)]
    machine = Machine(tuple(parts), tuple((one, 1) for one in names))
    objects = [device_class(), *(one for on in ("n0", "n1", "n2") for one in objects_of(on, machine))]
    for one in names:
        objects += [claim_of(one, "part", "n0", one), pod_of(one, "n0")]
    for on in ("n1", "n2"):
        objects += [claim_of(f"on-{on}", "part", on, "s0"), pod_of(f"on-{on}", on, controller="")]
    (path := tmp_path / "fleet.yaml").write_text(yaml.safe_dump_all(objects))
    result = CliRunner().invoke(main, ["defragment", "-f", str(path), "--gain", "whole=1", "-o", "json"])
    found = json.loads(result.stdout)
    assert (found["gaveUp"], found["limitsReached"]) == (True, ["sets"])


@pytest.mark.parametrize("gain", ["1", "2"])
def test_a_limit_that_costs_no_gain_is_not_mentioned(say, monkeypatch: pytest.MonkeyPatch, gain: str):
    monkeypatch.setattr("reconciler.cli.defragment.answer_of", partial(defragment, limit=Limit(moves=1)))
    assert GAVE_UP not in say("--gain", f"whole={gain}").stdout
    assert json.loads(say("--gain", f"whole={gain}", "-o", "json").stdout)["gaveUp"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gain", "whole"], "--gain whole: write NAME=N with a positive number"),
        (["--target", "whole=200%"], "--target whole=200%: write a percentage from 1% to 100%"),
        (["--gain", "whole=1", "--target", "90%"], "Set --gain or --target, not both."),
    ],
)
def test_wrong_options_are_explained(say, arguments: list[str], message: str):
    result = say(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
