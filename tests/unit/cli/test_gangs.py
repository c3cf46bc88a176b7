"""Gangs in `allocate` and `explain`, on manifests."""

import json
from pathlib import Path

from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.checkout import ROOT
from tests.tools.gangs import annotated
from tests.tools.small_fleet import device_class, devices, node, template

EXAMPLE = ROOT / "docs" / "examples" / "gang-podgroup.yaml"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


def too_large(folder: Path) -> str:
    """A gang of two for one device."""
    pods = [annotated(name, size=2, templates=("t",)) for name in ("p0", "p1")]
    objects = [device_class(), node("n"), devices("n", "d0"), template("t"), *pods]
    path = folder / "gang.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    return str(path)


def test_allocate_places_a_gang_in_one_domain_with_one_claim_for_the_group():
    code, output = run("allocate", "-f", str(EXAMPLE))
    assert code == 0
    assert "gang default/pair: 2 pods placed, all in example.com/rack=r1: pair-0 on node-a" in output
    assert output.count("default/pair-channel") == 1


def test_allocate_gives_nothing_to_a_gang_that_does_not_fit(tmp_path: Path):
    _, output = run("allocate", "-f", too_large(tmp_path))
    assert "0 claims allocated, 2 pending" in output
    assert "1 of 2 pods fit together" in output


def test_explain_names_the_reason_of_the_gang(tmp_path: Path):
    _, output = run("explain", "--pod", "p1", "-f", too_large(tmp_path))
    assert "1 of 2 pods fit together" in output


def test_whatif_says_where_a_gang_fits_and_how_often():
    code, output = run("whatif", "-f", str(EXAMPLE))
    assert code == 0
    assert "fits once: gang default/pair" in output
    assert "copy 1 of gang default/pair: 2 pods on 2 nodes, all in example.com/rack=r1" in output
    assert "copy 2 does not fit: gang default/pair: GangUnplaced" in output
    _, output = run("whatif", "-f", str(EXAMPLE), "-o", "json")
    assert [one["unit"] for one in json.loads(output)["gangs"][0]["pods"]] == [
        "pod default/pair-0",
        "pod default/pair-1",
    ]


def test_whatif_says_what_a_gang_lacks(tmp_path: Path):
    code, output = run("whatif", "--count", "1", "-f", too_large(tmp_path))
    assert code == 1
    assert "1 of 2 pods fit together" in output


def test_top_lists_gangs_with_their_pods_and_what_they_wait_for(tmp_path: Path):
    code, output = run("top", "--gangs", "-f", too_large(tmp_path))
    assert code == 0
    assert output.split()[:8] == ["GANG", "SOURCE", "SIZE", "BOUND", "RELEASED", "GATED", "DOMAIN", "PENDING"]
    assert "default/g" in output
    assert "GangUnplaced" in output
    _, output = run("top", "--gangs", "-o", "json", "-f", too_large(tmp_path))
    (gang,) = json.loads(output)["gangs"]
    assert (gang["size"], gang["gated"], gang["bound"], gang["reason"]) == (2, 2, 0, "GangUnplaced")


def test_top_shows_the_domain_of_a_gang_that_runs(tmp_path: Path):
    pods = [annotated(f"p{n}", size=2, topology="rack", gates=(), nodeName=f"n{n}") for n in range(2)]
    waiting = [annotated(f"q{n}", size=2, gang="h") for n in range(2)]
    objects = [node("n0", rack="r1"), node("n1", rack="r1"), *pods, *waiting]
    path = tmp_path / "gangs.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    _, output = run("top", "--gangs", "-o", "json", "-f", str(path))
    waits, runs = json.loads(output)["gangs"]
    assert (waits["name"], waits["message"]) == ("h", "can be placed now")
    assert (runs["bound"], runs["nodes"], runs["domain"]) == (2, 2, {"rack": "r1"})


def test_top_of_gangs_has_no_other_groups():
    code, output = run("top", "--gangs", "--by", "node", "-f", str(EXAMPLE))
    assert code == 2
    assert "--gangs has no --by" in output
