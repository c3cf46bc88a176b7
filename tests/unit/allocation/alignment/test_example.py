"""The example of the documentation, as a reader runs it."""

import json
from pathlib import Path

from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.checkout import DOCS

EXAMPLE = str(DOCS / "examples" / "joint-allocation.yaml")


def test_the_table_says_who_got_what_and_how_near():
    result = CliRunner().invoke(main, ["allocate", "-f", EXAMPLE])
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "aligned: claim default/near: resource.kubernetes.io/pcieRoot" in lines
    refused = {line.split()[3].rstrip(":,"): line for line in lines if line.startswith("not allocated: ")}
    assert refused["default/pairs"].endswith(
        "request nic: 2 of 10 devices match class and selectors; 1 is free; the request needs 2 devices"
    )
    assert refused["default/within"].endswith(
        "no node has devices for default/within gpu, default/within nic that share numaNode, "
        "which joint allocation requires"
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


def test_explain_shows_the_alignment_as_a_gate_with_the_nearest_miss():
    result = CliRunner().invoke(main, ["explain", "within", "-f", EXAMPLE])
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "0 aligned on numaNode, on no node" in lines
    assert "without the alignment on numaNode it could be allocated" in lines
    miss = "node-1: numaNode 0: 3 of 3 for request gpu, 0 of 1 for request nic"
    assert f"nearest miss: {miss}" in lines
