"""Two commits in turns: pairs of runs, their ratios, and the folders that they run in."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from perf import versus as command
from perf.results import Machine
from perf.versus import (
    Checkout,
    Compared,
    Ratio,
    Side,
    Versus,
    in_turns,
    interpreter,
    measure,
    resolve,
    versus,
    versus_table,
    worktrees,
)
from perf.workload import Figure, Outcome, Workload
from tests.tools.examples import in_soak

TOLD = """
import json, sys
name, size = sys.argv[1], json.loads(sys.argv[2])
print(json.dumps({"done": 1, "of": 2}), flush=True)
figures = [["claims/s", %d * size["nodes"], "/s", "more"], ["granted", 3, "claims", ""]]
print(json.dumps({"outcome": {"figures": figures, "curves": []}, "peak_mib": 50.0}))
"""


def nothing(_size, _progress):
    return Outcome([])


WORKLOAD = Workload("burst", "something", nothing, {"": {"nodes": 2}}, tiny={"nodes": 1})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits of a program that tells figures as ours does: 10 a node, then 20."""
    root = tmp_path / "repository"
    (root / "perf").mkdir(parents=True)
    (root / "perf" / "__init__.py").touch()
    git(root, "init", "--quiet")
    for rate in (10, 20):
        (root / "perf" / "child.py").write_text(TOLD % rate)
        git(root, "add", ".")
        git(root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", str(rate))
    return root


def git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout


def ratio(base: tuple[float, ...], head: tuple[float, ...], better: str = "more") -> Ratio:
    return Ratio.model_validate({"name": "f", "unit": "/s", "better": better, "base": base, "head": head})


def test_the_gain_is_that_of_pairs_and_not_of_medians():
    """The machine is ten times slower in the second half, for both."""
    one = ratio((100.0, 100.0, 10.0, 10.0), (200.0, 200.0, 20.0, 20.0))
    assert one.gain == (2.0, 2.0, 2.0)
    assert one.verdict == "better"
    assert ratio((2.0, 2.0), (1.0, 4.0), "less").gain == (0.875, 1.25, 1.625)


@pytest.mark.parametrize(
    ("head", "verdict"),
    [
        ((0.9, 1.2, 0.9, 1.2), ""),
        ((1.005, 1.006, 1.004, 1.005), ""),
        ((0.8, 0.9, 0.9, 0.7), "worse"),
        ((1.1, 1.2, 1.1, 1.3), "better"),
    ],
)
def test_a_difference_is_one_if_the_quartiles_agree(head: tuple[float, ...], verdict: str):
    assert ratio((1.0, 1.0, 1.0, 1.0), head).verdict == verdict


def test_each_commit_runs_first_in_half_of_the_rounds_and_the_first_round_does_not_count():
    order: list[str] = []

    def run(checkout, _name, _size, progress):
        progress(1, 1)
        order.append(str(checkout.root))
        return [Figure("claims/s", float(len(order)), "/s", "more")]

    sides: dict[Side, Checkout] = {
        "base": Checkout(Path("b"), sys.executable),
        "head": Checkout(Path("h"), sys.executable),
    }
    done = in_turns(sides, WORKLOAD, "", {"nodes": 2}, 2, told=lambda *_: None, run=run)
    assert order == ["h", "b", "b", "h", "h", "b"]
    assert [(one.base, one.head) for one in done.ratios] == [((3.0, 6.0), (4.0, 5.0))]


def test_two_commits_run_from_folders_that_are_gone_afterwards(repository: Path):
    with worktrees("HEAD~1", "HEAD", repository) as checkouts:
        done = in_turns(checkouts, WORKLOAD, "", {"nodes": 2}, 2, told=lambda *_: None)
        folders = [checkout.root for checkout in checkouts.values()]
    found = [(one.name, one.gain) for one in done.ratios]
    assert found == [("claims/s", (2.0, 2.0, 2.0)), ("peak memory", (1.0, 1.0, 1.0))]
    assert not any(folder.exists() for folder in folders)
    assert len(git(repository, "worktree", "list").splitlines()) == 1


@in_soak
def test_a_commit_runs_with_the_packages_of_its_own_lock(tmp_path: Path):
    """A lock without packages is enough to see it, and needs no network."""
    (tmp_path / "requirements.lock").write_text("# nothing\n")
    python = interpreter(tmp_path, tmp_path / "environments")
    found = subprocess.run([python, "-c", "import numpy"], capture_output=True, text=True, check=False)
    assert "No module named 'numpy'" in found.stderr
    assert interpreter(tmp_path, tmp_path / "environments") == python
    assert len(list((tmp_path / "environments").iterdir())) == 1


def test_a_commit_without_a_lock_runs_with_this_interpreter(tmp_path: Path):
    assert interpreter(tmp_path, tmp_path / "environments") == sys.executable


def test_the_command_prints_json_with_the_spread(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(repository)
    for name, function in (("resolve", resolve), ("worktrees", worktrees)):
        monkeypatch.setattr(command, name, lambda *a, f=function: f(*a, repository))
    arguments = ["HEAD~1", "HEAD", "burst", "--rounds", "2", "--set", "nodes=3", "--json"]
    result = CliRunner().invoke(versus, arguments, catch_exceptions=False)
    found = json.loads(result.stdout)
    assert found["rounds"] == 2
    (one,) = found["compared"]
    assert one["size"]["nodes"] == 3
    assert one["ratios"][0]["base"] == [30.0, 30.0]
    assert one["ratios"][0]["gain"] == [2.0, 2.0, 2.0]


def test_what_is_no_commit_is_refused_by_name():
    result = CliRunner().invoke(versus, ["no-such-commit", "HEAD"])
    assert result.exit_code == 1
    assert "no-such-commit is not a commit" in result.stderr


@in_soak
def test_a_tiny_workload_of_ours_runs_from_another_folder(tmp_path: Path):
    """The code is that of the folder, and not of the installed package."""
    for name in ("perf", "kernels", "reconciler"):
        (tmp_path / name).symlink_to(Path(command.__file__).parents[1] / name)
    figures = measure(
        Checkout(tmp_path, sys.executable), "whole-gpu", {"nodes": 4, "claims": 6}, lambda *_: None
    )
    assert {"claims/s", "claim worst", "peak memory"} <= {figure.name for figure in figures}


def test_the_table_has_both_medians_and_the_quartiles():
    here = Machine("cpu", 2, 24.0, "Linux", "3.11", "2.4", "2.14")
    one = Compared(workload="w", case="", size={"nodes": 2}, ratios=(ratio((1.0, 1.0), (2.0, 3.0)),))
    done = Versus(base="aaa", head="bbb", machine=here, cpu=None, rounds=2, compared=(one,))
    console = Console(width=200, file=sys.stdout, record=True)
    console.print(versus_table(done))
    text = console.export_text()
    for part in ("aaa", "bbb", "2.500", "2.250 to 2.750", "better"):
        assert part in text
