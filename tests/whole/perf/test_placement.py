"""The measurements of placement, on a trace and a load small enough for a test."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from perf.__main__ import main
from perf.placement import churn, evolution, loss_system, mig, repacking
from perf.placement.cluster import Cluster
from perf.placement.profiles import MIXES, PLACES, PROFILES, mean_size, preferences, worth
from reconciler.allocation.policies.least_loss import LeastLoss
from tests.tools.small_openb import write_openb


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    write_openb(tmp_path)
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
    row, other = json.loads(done.stdout)
    assert row["accepted"] == other["accepted"] == 1
    assert set(row["by_kind"]) <= {"7g.40gb", "3g.20gb", "2g.10gb", "1g.5gb"}


def test_partitions_wait_in_a_queue():
    """Far more than fits: whatever waits, every claim runs in the end."""
    arguments = ["--mix", "small", "--load", "30", "--arrivals", "700", "--queue", "--policy", "first-fit"]
    done = CliRunner().invoke(main, ["placement", "mig", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert 0 < row["mean_wait"] < row["p95_wait"] < row["makespan"]


def test_learnt_weights_are_kept_and_played_beside_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evolution, "GENERATIONS", 1)
    monkeypatch.setattr(mig, "TRAINING_ARRIVALS", 20)
    arguments = ["--mix", "uniform", "--arrivals", "30", "--limit", "--learned", str(tmp_path)]
    policies = ["--policy", "random-node", "--policy", "first-fit"]
    done = CliRunner().invoke(main, ["placement", "mig", *arguments, *policies])
    assert done.exit_code == 0, done.output
    found = [line.split()[1] for line in done.stdout.splitlines()[1:]]
    assert found == [*policies[1::2], "learned", "repacking"]
    assert len(json.loads((tmp_path / "uniform.json").read_text())["shapes"]) == len(PLACES)


def test_loads_played_on_tables_are_those_that_the_engine_plays():
    """Learning and measuring agree on what weights do: twice what fits on the GPUs of one node."""
    load = loss_system.arrivals(300, mean_size("uniform") / 16, MIXES["uniform"], seed=7)
    weights = evolution.HEAVIEST - 100 * np.arange(len(PLACES), dtype=np.int64)[None]
    runs = evolution.Runs.of([load])
    cluster = Cluster(mig.objects(nodes=1), LeastLoss(mig.demand_of_places(weights[0])))
    played = loss_system.play(cluster, mig.kinds(), load, len(load) // 5, lambda *_: None)
    assert played.accepted.total() < played.asked.total()
    outcome = evolution.play(*preferences(worth(weights)), runs, gpus=8)
    assert float(outcome.used[0]) == pytest.approx(played.worth)
    found = outcome.accepted[0].tolist()
    assert found == pytest.approx([played.accepted[name] / played.asked[name] for name in PROFILES])


def test_nothing_that_a_gpu_can_hold_costs_more_than_the_gpu():
    """So the limit of repacking is one. Some filling is worth a GPU at each of the prices."""
    costs = np.array(sorted(repacking.fillings())) @ repacking.PRICES.T
    assert costs.max(axis=0) == pytest.approx(np.ones(len(repacking.PRICES)))
    assert repacking.PRICES.shape[1] == len(PROFILES)


def test_claims_come_and_go_on_mixed_models():
    arguments = ["--nodes", "10", "--arrivals", "150", "--load", "1.2"]
    policies = ["--policy", "first-fit", "--policy", "expected-fill", "--policy", "random-node"]
    done = CliRunner().invoke(main, ["placement", "churn", *arguments, *policies, "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["policy"] for row in rows] == ["first-fit", "expected-fill", "random-node"]
    assert all(0 < row["accepted"] <= 1 for row in rows)


def test_each_part_of_the_mixed_fleet_is_asked_for_as_much():
    """The share of the arrivals times what they take is in proportion to the GPUs."""
    asked = churn.asked()
    for model in churn.MODELS:
        load = sum(one.kind.worth * one.share for one in asked if one.kind.name.startswith(model.name))
        assert load == pytest.approx(model.nodes * model.gpus)


def test_results_of_placement_are_drawn(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra `perf`")
    openb = {"variant": "default", "learn": False, "at_100": 96.0, "published": {}, "bound_at_100": 97.0}
    mixes = [{"mix": "big", "policy": name, "in_use": 0.8} for name in ("random-node", "least-loss")]
    files = {
        "openb": [openb],
        "mig": mixes,
        "queue": [{"mix": "big", "policy": "least-loss", "mean_wait": 0.1}],
        "churn": [{"load": load, "policy": "fgd", "held": load / 2} for load in (0.9, 1.2)],
    }
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    paths = [str(tmp_path / f"{name}.json") for name in files]
    done = CliRunner().invoke(main, ["placement", "plot", *paths, "--out", str(tmp_path / "plots")])
    assert done.exit_code == 0, done.output
    names = ["openb", "partitions", "queue", "churn"]
    assert [Path(line).name for line in done.stdout.split()] == [f"placement-{name}.svg" for name in names]


def test_what_loads_use_is_drawn_without_random_nodes_too(tmp_path: Path):
    plots = pytest.importorskip("perf.placement.plots", reason="matplotlib comes with the extra `perf`")
    rows = [{"mix": "big", "policy": "least-loss", "in_use": 0.8}]
    assert [path.name for path in plots.draw(rows, tmp_path, "svg")] == ["placement-partitions.svg"]
    assert "<!-- slices in use, % -->" in (tmp_path / "placement-partitions.svg").read_text()
