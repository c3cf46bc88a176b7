"""The example of the documentation, as a reader runs it."""

import json
from pathlib import Path

from click.testing import CliRunner

from reconciler.cli import main

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLE = str(DOCS / "examples" / "joint-allocation.yaml")


def test_the_table_says_who_got_what_and_how_near():
    result = CliRunner().invoke(main, ["allocate", "-f", EXAMPLE])
    assert result.exit_code == 3
    lines = result.stdout.splitlines()
    assert "aligned: claim default/near: resource.kubernetes.io/pcieRoot" in lines
    refusal = next(line for line in lines if line.startswith("not allocated: claim default/pairs"))
    assert refusal.endswith(
        "no node has devices for default/pairs gpu, default/pairs nic that meet the constraint on numaNode; "
        "joint allocation requires numaNode"
    )


def test_the_claims_carry_the_tiers_that_were_reached():
    result = CliRunner().invoke(main, ["allocate", "-f", EXAMPLE, "-o", "json"])
    near, wide = (claim for claim in json.loads(result.stdout)["items"])
    reached = near["metadata"]["annotations"]["dra-reconciler.io/joint-allocation-tiers"]
    assert reached == "resource.kubernetes.io/pcieRoot"
    devices = [one["device"] for one in near["status"]["allocation"]["devices"]["results"]]
    assert devices == ["gpu-2", "nic-0"]
    devices = [one["device"] for one in wide["status"]["allocation"]["devices"]["results"]]
    assert devices == ["gpu-4", "gpu-5"]


def test_the_page_names_the_example():
    assert f"docs/examples/{Path(EXAMPLE).name}" in (DOCS / "joint-allocation.md").read_text()


def test_explain_says_what_a_wish_stands_in_the_way_of():
    result = CliRunner().invoke(main, ["explain", "pairs", "-f", EXAMPLE])
    assert result.exit_code == 1
    assert "joint allocation requires numaNode" in result.stdout
