"""A sweep: the same rows wherever they are played, resumed, summed up."""

import ast
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from perf.__main__ import main
from perf.fleets import gpus
from perf.fleets.objects import claim, exactly
from perf.sweep import results
from perf.sweep.results import Result, Results, Task, tasks_of
from perf.sweep.scenario import Mig
from perf.sweep.spec import SECONDS, Batches, play, read_spec
from perf.sweep.summary import lines
from reconciler.control.decisions.allocating import Allocated
from reconciler.errors import Malformed
from tests.tools.checkout import ROOT
from tests.tools.examples import in_soak
from tests.tools.kustomize import built, of_kind
from tests.tools.naive_policies import GPUS
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import claim as small_claim
from tests.tools.small_openb import write_openb

SWEEP = {
    "sweeps": [
        {
            "play": "mig",
            "mix": ["small", "big"],
            "nodes": 1,
            "arrivals": 40,
            "seed": {"from": 100, "to": 101},
            "policy": ["random-node", "least-loss"],
        },
        {"play": "churn", "nodes": 5, "arrivals": 30, "seed": 1, "policy": "best-fit"},
        {"play": "replay", "file": "scen*.json", "order": ["given", "name"]},
    ]
}
SCENARIOS = 8 + 1 + 2


def write_spec(folder: Path) -> Path:
    fleet = list(gpus.fleet(1))
    kinds = {"deviceClasses": "DeviceClass", "resourceSlices": "ResourceSlice", "nodes": "Node"}
    scenario = {name: [one for one in fleet if one["kind"] == kind] for name, kind in kinds.items()}
    scenario["claims"] = [claim("a", [exactly("r", gpus.CLASS)])]
    (folder / "scenario.json").write_text(json.dumps(scenario))
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(SWEEP))
    return path


def run(spec: Path, out: str, *arguments: str, index: int | None = None):
    env = None if index is None else {"JOB_COMPLETION_INDEX": str(index)}
    command = ["sweep", str(spec), "--out", str(spec.parent / out), "--plots", "none", *arguments]
    return CliRunner(env=env).invoke(main, command)


def rows(spec: Path, out: str) -> str:
    return (spec.parent / out / "rows.jsonl").read_text()


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_spec(tmp_path)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of a sweep that one process has played; its results are in `here`."""
    spec = write_spec(tmp_path_factory.mktemp("sweep"))
    done = run(spec, "here", "--workers", "1")
    assert done.exit_code == 0, done.output
    assert len(rows(spec, "here").splitlines()) == SCENARIOS
    return spec


@in_soak
def test_processes_make_the_same_rows(played: Path):
    done = run(played, "processes", "--workers", "2")
    assert done.exit_code == 0, done.output
    assert rows(played, "processes") == rows(played, "here")


needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="Dask comes with the extra `sweep`")


def by_dask(spec: Path, out: str, *arguments: str) -> None:
    """In a process of its own: Dask's threads and warnings are not for the other tests."""
    to = ["--out", str(spec.parent / out), "--plots", "none", "--executor", "dask"]
    command = [sys.executable, "-m", "perf", "sweep", str(spec), *to, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@contextmanager
def dask(log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One of the processes that somebody who has Dask starts on a machine."""
    command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard", "--host", "127.0.0.1"]
    with log.open("wb") as to, subprocess.Popen(command, cwd=ROOT, stdout=to, stderr=to) as process:
        try:
            yield process
        finally:
            process.kill()


def address_of(scheduler: subprocess.Popen[bytes], file: Path) -> str:
    """It writes where it listens, once it does."""
    deadline = time.monotonic() + PATIENCE
    while not (file.exists() and file.read_text().endswith("}")):
        assert scheduler.poll() is None, "the scheduler ended"
        assert time.monotonic() < deadline, "the scheduler does not listen"
        time.sleep(0.05)
    address = json.loads(file.read_text())["address"]
    assert isinstance(address, str)
    return address


@in_soak
@needs_dask
def test_a_scheduler_that_runs_elsewhere_makes_the_same_rows(played: Path, tmp_path: Path):
    file = tmp_path / "scheduler.json"
    logs = tmp_path / "scheduler.log", tmp_path / "worker.log"
    with dask(logs[0], "scheduler", "--port", "0", "--scheduler-file", str(file)) as scheduler:
        address = address_of(scheduler, file)
        local = ["--no-nanny", "--nthreads", "1", "--local-directory", str(tmp_path)]
        with dask(logs[1], "worker", address, *local):
            by_dask(played, "elsewhere", "--scheduler", address)
    assert "Receive client connection" in logs[0].read_text(), "it was not asked"
    assert rows(played, "elsewhere") == rows(played, "here")


def test_pods_of_a_job_make_the_same_rows_together(played: Path):
    """Each plays its part alone; the same command, without a part, finds all and plays nothing."""
    parts = [run(played, "shared", "--shards", "3", "--workers", "1", index=index) for index in range(3)]
    told = [int(part.stderr.partition(" scenarios")[0]) for part in parts]
    assert (sum(told), max(told) < SCENARIOS) == (SCENARIOS, True)
    assert not (played.parent / "shared" / "rows.jsonl").exists()
    collected = run(played, "shared", "--executor", "none")
    assert collected.exit_code == 0, collected.output
    assert rows(played, "shared") == rows(played, "here")


@pytest.mark.loopback
async def test_files_of_a_journal_are_decided_under_other_policies(tmp_path: Path):
    """Best fit chose the node of which less is left; first fit takes the first."""
    cluster = Cluster([*GPUS, small_claim("c")])
    async with reconciling(cluster, journal=str(tmp_path / "journal"), policy=["best-fit"]) as running:
        await running.heard(Allocated, 1)
    section = {"play": "journal", "file": "journal/*.gz", "policy": ["recorded", "first-fit"]}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump({"sweeps": [section]}))
    recorded, first_fit = (task.scenario.row() for task in tasks_of(read_spec(tmp_path / "sweep.yaml")))
    assert recorded["same"] == recorded["decisions"] >= 1
    assert (first_fit["other_node"], first_fit["decisions"]) == (1, recorded["decisions"])


def test_the_trace_openb_is_played(tmp_path: Path):
    write_openb(tmp_path)
    section = {"play": "openb", "trace": ".", "arrivals": "orders.npz", "policy": ["first-fit", "fgd"]}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump({"sweeps": [section]}))
    for scenario in read_spec(tmp_path / "sweep.yaml"):
        assert scenario.row() == {"at_100": None, "at_130": None, "failed": 0}  # 2.5 of 3 GPUs arrive


def test_the_manifest_plays_every_part_with_options_that_exist():
    job = of_kind(built("sweep/play"), "Job")["spec"]
    (container,) = job["template"]["spec"]["containers"]
    arguments = container["args"]
    assert job["completionMode"] == "Indexed"
    assert int(arguments[arguments.index("--shards") + 1]) == job["completions"]
    (collecting,) = of_kind(built("sweep/collect"), "Job")["spec"]["template"]["spec"]["containers"]
    options = {name for option in main.commands["sweep"].params for name in option.opts}
    for given in (arguments, collecting["args"]):
        assert set(re.findall(r"--[\w-]+", str(given))) <= options
    assert read_spec(ROOT / "deploy" / "sweep" / "play" / "sweep.yaml")


def test_what_has_a_result_is_not_played_again(played: Path, monkeypatch: pytest.MonkeyPatch):
    """A result that was cut short by hand is."""
    shutil.copytree(played.parent / "here", played.parent / "resumed")
    first = min((played.parent / "resumed" / "rows").rglob("*.json"))
    first.write_text("{")
    done = run(played, "resumed", "--executor", "none")
    assert f"{SCENARIOS} scenarios, {SCENARIOS - 1} with results" in done.stderr
    assert f"1 of {SCENARIOS} scenarios have no result, 0 failed" in done.stderr
    sent: list[int] = []

    def counted(batch: Sequence[Task]) -> list[Result]:
        sent.append(len(batch))
        return play(batch)

    monkeypatch.setattr("perf.sweep.executors.processes.play", counted)
    assert run(played, "resumed", "--workers", "1").exit_code == 0
    assert sent == [1]
    assert rows(played, "resumed") == rows(played, "here")


def test_other_code_and_other_inputs_are_other_results(spec: Path, monkeypatch: pytest.MonkeyPatch):
    """Files count by content, not by name."""
    before = [task.digest for task in tasks_of(read_spec(spec))]
    other = spec.parent / "other"
    other.mkdir()
    for name in ("sweep.yaml", "scenario.json"):
        shutil.copy(spec.parent / name, other / name)
    assert [task.digest for task in tasks_of(read_spec(other / "sweep.yaml"))] == before
    (other / "scenario.json").write_text("{}")
    (spec.parent / "scenario.json").rename(spec.parent / "scenario-2.json")
    changed = [task.digest for task in tasks_of(read_spec(other / "sweep.yaml"))]
    assert (changed[:9], set(changed[9:]) & set(before)) == (before[:9], set())
    monkeypatch.setattr("perf.sweep.results.code_digest", lambda: "other")
    assert not set(before) & {task.digest for task in tasks_of(read_spec(spec))}


def test_the_digest_of_the_code_covers_what_rows_follow_from_alone():
    files = {path.relative_to(ROOT).as_posix() for path in results.files_of(results.START)}
    needed = {
        "kernels/fit.py",
        "perf/placement/loss_system.py",
        "perf/placement/__init__.py",
        "reconciler/allocation/dra/allocate.py",
        "reconciler/cel/grammar.py",
        "reconciler/operations/journal/replaying.py",
    }
    assert needed <= files
    assert _by_parsing("perf/sweep/scenario.py", set()) <= files
    assert not {"perf/sweep/summary.py", "perf/sweep/command.py", "reconciler/cli/top.py"} & files


def _by_parsing(path: str, known: set[str]) -> set[str]:
    """The slow twin: files that a file imports, directly or not, by Python's own parser."""
    known.add(path)
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
        else:
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            file = f"{name.replace('.', '/')}.py"
            if file not in known and (ROOT / file).exists():
                _by_parsing(file, known)
    return known


def test_a_scenario_that_fails_stops_no_other(spec: Path):
    (spec.parent / "scenario.json").write_text('{"steps": [{"allocate": "absent"}]}')
    done = run(spec, "failing", "--workers", "1")
    assert done.exit_code == 1
    assert "steps[0]: allocate: 0 claims are named 'absent'" in done.stderr
    assert f"2 of {SCENARIOS} scenarios have no result, 2 failed" in done.stderr
    assert len(rows(spec, "failing").splitlines()) == SCENARIOS - 2


def test_a_worker_with_other_files_makes_no_rows(spec: Path):
    task = tasks_of(read_spec(spec))[0]._replace(digest="0" * 64)
    (result,) = play([task])
    assert (result.row, "use the same checkout" in result.error) == ({}, True)


def test_short_scenarios_are_sent_together_and_long_ones_alone():
    """Until one of a kind was played, its kind goes alone; then as many as take the time of a batch."""
    tasks = tasks_of(
        [Mig(play="mig", arrivals=arrivals, seed=seed) for arrivals in (10, 99) for seed in range(30)]
    )
    batches, sizes = Batches(tasks), []
    took = {10: SECONDS / 8, 99: SECONDS * 3}
    while batch := batches.next():
        each = [task.scenario.model_dump()["arrivals"] for task in batch]
        batches.learn(batch, [Result("", {}, took[arrivals]) for arrivals in each])
        sizes.append((set(each), len(batch)))
    assert sizes[:2] == [({10}, 1), ({99}, 1)]
    assert sizes.count(({10}, 8)) == 3
    assert sum(size for of, size in sizes if of == {99}) == 30
    assert max(size for of, size in sizes if 99 in of) == 1


def test_means_have_intervals_and_gains_are_those_of_equal_seeds():
    """Seeds differ by 0.2, the policies by 0.1 with each seed: the gain is certain, the means are not."""
    tasks = tasks_of(
        [Mig(play="mig", seed=seed, policy=policy) for policy in ("first-fit", "spread") for seed in (1, 2)]
    )
    use = (0.5, 0.7, 0.6, 0.8)
    first, second = lines([(t, Result(t.digest, {"in_use": u}, 0)) for t, u in zip(tasks, use, strict=True)])
    assert first.figures["in_use"].mean == pytest.approx(0.6)
    assert first.figures["in_use"].half_width == pytest.approx(12.71 * 0.1)  # one degree of freedom
    assert (first.gains, second.runs) == ({}, 2)
    assert second.gains["in_use"] == pytest.approx((0.1, 0.0))


def test_a_summary_is_printed_and_drawn(played: Path):
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra `perf`")
    done = run(played, "here", "--executor", "none", "--plots", "png")
    assert re.search(r"mix small +least-loss +2 ", done.stdout)
    assert (played.parent / "here" / "plots" / "mig-in-use.png").stat().st_size > 5000
    summary = json.loads((played.parent / "here" / "summary.json").read_text())
    assert {line["play"] for line in summary} == {"mig", "churn", "replay"}


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"play": "chess"}, "sweeps[0].play: must be one of mig, churn, openb, replay, journal"),
        ({"play": "mig", "policy": "best"}, "sweeps[0].policy: is 'best'; choose random-node, first-fit"),
        ({"play": "mig", "mix": "large"}, "sweeps[0].mix: is 'large'; choose uniform"),
        ({"play": "mig", "loads": 1}, "sweeps[0].loads: Extra inputs are not permitted"),
        ({"play": "mig", "seed": {"from": 3, "to": 1}}, "sweeps[0].seed: must be a value, a list, or {from:"),
        ({"play": "mig", "seed": {"from": 0, "to": 10**9}}, "sweeps[0].seed: has more than 1000000 numbers"),
        ({"play": "mig", "seed": []}, "sweeps[0].seed: is an empty list"),
        ({"play": "journal", "file": "none*.gz"}, "sweeps[0].file: none*.gz: no such file"),
        (
            {"play": "mig", "seed": {"from": 1, "to": 9999}, "nodes": {"from": 1, "to": 999}},
            "sweeps[0]: has 9989001 scenarios; at most 1000000 are allowed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_in_the_file_names_section_and_field(tmp_path: Path, section, says: str):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({"sweeps": [section]}))
    with pytest.raises(Malformed, match=re.escape(says)):
        read_spec(path)


def test_a_part_without_an_index_is_refused(spec: Path):
    done = run(spec, "out", "--shards", "2")
    assert (done.exit_code, "needs --shard or JOB_COMPLETION_INDEX" in done.output) == (2, True)


def test_results_are_read_as_they_were_written(tmp_path: Path):
    (task,) = tasks_of([Mig(play="mig")])
    Results(tmp_path).save(task, Result(task.digest, {"in_use": 0.1 + 0.2}, 1.5))
    assert Results(tmp_path).load(task.digest) == Result(task.digest, {"in_use": 0.1 + 0.2}, 1.5)
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".json"]
