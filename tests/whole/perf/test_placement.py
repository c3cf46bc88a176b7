"""The measurements of placement, on a trace and a load small enough for a test."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from perf.__main__ import main

NODES = """sn,cpu_milli,memory_mib,gpu,model
a,8000,1000,2,T4
b,8000,1000,1,A10
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,1000,100,1,500,
p1,1000,100,2,1000,T4
p2,1000,100,1,500,A10|T4
p3,1000,100,0,0,
p4,1000,100,1,1000,A10
"""
PUBLISHED = (
    "workload,sc_policy,tune,seed,total_gpus,100,130\nopenb_pod_list_default,06-FGD,1.3,42,3,90.5,91\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS)
    (tmp_path / "expected_results").mkdir()
    (tmp_path / "expected_results" / "analysis_allo_discrete.csv").write_text(PUBLISHED)
    orders = {"default/42/rank": np.array([1, 0]), "default/42/order": np.array([0, 3, 1])}
    np.savez(tmp_path / "orders.npz", **orders)  # type: ignore[arg-type]
    return tmp_path


def _openb(trace: Path, *arguments: str):
    files = ["--trace", str(trace), "--arrivals", str(trace / "orders.npz")]
    return CliRunner().invoke(main, ["placement", "openb", *files, *arguments])


def test_a_trace_is_played_and_printed_beside_the_published_figures(trace: Path):
    """The half GPU goes to the node whose rank is first, so both GPUs of the other stay whole."""
    done = _openb(trace, "--policy", "first-fit", "--policy", "fgd", "--policy", "expected-fill", "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["policy"] for row in rows] == ["first-fit", "fgd", "expected-fill"]
    assert {row["failed"] for row in rows} == {0}
    assert rows[0]["published"] == {"FGD": {"at_100": 90.5, "at_130": 91.0}}


def test_a_demand_is_learnt_from_what_arrived(trace: Path):
    done = _openb(trace, "--policy", "expected-fill", "--learn")
    assert done.exit_code == 0, done.output
    assert "default 42 expected-fill (learning)" in done.stdout


def test_a_seed_that_is_not_recorded_is_an_error(trace: Path):
    done = _openb(trace, "--seeds", "7")
    assert done.exit_code == 1
    assert "default/7: is not recorded; choose another variant or seed" in done.output


def test_partitions_come_and_go():
    arguments = ["--mix", "mixed", "--arrivals", "60", "--policy", "least-loss", "--policy", "random-node"]
    done = CliRunner().invoke(main, ["placement", "mig", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    row, other = json.loads(done.stdout)["runs"]
    assert row["accepted"] == other["accepted"] == 1
    assert set(row["by_kind"]) <= {"7g.40gb", "3g.20gb", "2g.10gb", "1g.5gb"}
