"""Plays traces of the public MIG-scheduler-benchmark (FouoF): two nodes with four H100 each, and a queue.

A job asks for memory and takes the first partition that has enough. How long it runs follows from the compute
that the partition has. Published runs had fake agents, a real API server and scheduler; here the engine
decides in process, and the oldest job that fits comes first.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from perf.deciding import read_claim
from perf.fleets.mig import CLASS, DRIVER
from perf.fleets.objects import Json, claim, device_class, exactly, node, node_names, pool
from perf.placement import loss_system
from perf.placement.cluster import Cluster, Kind, Running
from perf.placement.loss_system import Arrival
from perf.placement.printing import AS_JSON, shown
from perf.workload import Progress
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.policy import Policy
from reconciler.allocation.policies.selection import policy_named
from reconciler.errors import Malformed

NODES, GPUS_A_NODE, SLICES = 2, 4, 7
CREATE, DELETE = 250, 100
"""Milliseconds that a partition takes to be created and deleted"""
COUNTED_FROM = 30_000
"""Milliseconds after which the use of slices counts, until the last arrival"""


class Profile(NamedTuple):
    """A partition of an H100 with 80 GB, as the benchmark's agents publish it."""

    slices: int
    memory_mi: int
    compute: int
    """Per cent of the GPU"""
    starts: tuple[int, ...]


PROFILES = {
    "1g.10gb": Profile(1, 10_240, 14, (0, 1, 2, 3, 4, 5, 6)),
    "2g.20gb": Profile(2, 20_480, 28, (0, 2, 4)),
    "3g.40gb": Profile(3, 40_960, 42, (0, 4)),
    "7g.80gb": Profile(7, 81_920, 100, (0,)),
}


class Job(NamedTuple):
    """A job."""

    arrival_ms: int
    work: int
    """Per cent of a GPU x milliseconds"""
    memory_mi: int


def read_jobs(folder: Path) -> list[Job]:
    """The jobs of the only trace in a folder, by arrival. Raises Malformed."""
    path = _only(folder, "*trace.jsonl")
    jobs = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            raw = json.loads(line)
            jobs.append(Job(int(raw["arrivalMS"]), int(raw["computeCoreMS"]), int(raw["memoryMB"])))
        except (ValueError, TypeError, KeyError) as exc:
            raise Malformed(
                str(path), f"line {number}", f"is not a job with compute and memory: {exc}"
            ) from exc
    if not jobs:
        raise Malformed(str(path), "", "has no jobs")
    return sorted(jobs, key=lambda job: job.arrival_ms)


def published(folder: Path) -> list[dict[str, Any]]:
    """The published figures of the only summary in a folder; empty without one. Raises Malformed."""
    if not list(folder.glob("*summary.csv")):
        return []
    path = _only(folder, "*summary.csv")
    columns = {
        "in_use": "gpc_utilization",
        "mean_wait": "mean_wait_ms",
        "p95_wait": "p95_wait_ms",
        "makespan": "makespan_ms",
    }
    try:
        with path.open(newline="") as file:
            return [
                {"policy": row["backend"], **{ours: float(row[theirs]) for ours, theirs in columns.items()}}
                for row in csv.DictReader(file)
            ]
    except (OSError, ValueError, KeyError) as exc:
        raise Malformed(str(path), "", f"cannot be read: {exc}") from exc


def play(jobs: list[Job], policy: Policy | None, progress: Progress) -> dict[str, Any]:
    """Play all jobs. Times in milliseconds."""
    memory = sorted({job.memory_mi for job in jobs})
    kinds = [_kind(amount) for amount in memory]
    arriving = [Arrival(job.arrival_ms, memory.index(job.memory_mi), job.work) for job in jobs]
    cluster = Cluster(objects(), policy)
    waited = loss_system.play_queue(
        cluster, kinds, arriving, progress, running=_runs, count_from=COUNTED_FROM
    )
    window = arriving[-1].at - COUNTED_FROM
    done = waited.to_json()
    return {
        **done,
        "mean_wait": done["mean_wait"] + CREATE,
        "p95_wait": done["p95_wait"] + CREATE,
        "in_use": waited.in_use / (SLICES * GPUS_A_NODE * NODES * window),
        **cluster.times.to_json(),
    }


def demand_of(jobs: list[Job]) -> Demand:
    """What the jobs ask for. A job that asks for memory is worth the smallest partition that has it."""
    memory = [job.memory_mi for job in jobs]
    return Demand(
        tuple(
            Shape(
                _kind(amount).claim.spec,
                0,
                memory.count(amount),
                min(1000 * one.slices // SLICES for one in PROFILES.values() if one.memory_mi >= amount),
            )
            for amount in sorted(set(memory))
        )
    )


def objects() -> Iterator[Json]:
    """The fleet, with the devices in the benchmark's order."""
    yield device_class(CLASS, f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'mig'")
    for name in node_names(NODES):
        yield node(name)
        devices, sets = [], []
        for gpu in range(GPUS_A_NODE):
            sets.append({"name": f"gpu-{gpu}", "counters": _counters(0, SLICES)})
            for profile, shape in PROFILES.items():
                devices += [_device(gpu, profile, shape, start) for start in shape.starts]
        yield from pool(DRIVER, name, devices, reach={"nodeName": name}, counter_sets=sets)


def _device(gpu: int, profile: str, shape: Profile, start: int) -> Json:
    drawn = {"counterSet": f"gpu-{gpu}", "counters": _counters(start, shape.slices)}
    return {
        "name": f"gpu{gpu}-mig-{profile.replace('.', '')}-{start}",
        "attributes": {"type": {"string": "mig"}, "profile": {"string": profile}},
        "capacity": {"memory": {"value": f"{shape.memory_mi}Mi"}},
        "consumesCounters": [drawn],
    }


def _counters(start: int, slices: int) -> Mapping[str, Json]:
    return {f"memory-slice-{at}": {"value": "1"} for at in range(start, start + slices)}


def _kind(memory_mi: int) -> Kind:
    enough = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('{memory_mi}Mi')) >= 0"
    return Kind(f"{memory_mi} Mi", read_claim(claim("job", [exactly("gpu", CLASS, enough)])), 0)


def _runs(arrival: Arrival, running: Running) -> tuple[float, float]:
    """How long a job keeps its partition, and the slices of the partition."""
    name = running.plan.allocation.devices.results[0].device.split("-")[2]
    shape = next(one for profile, one in PROFILES.items() if profile.replace(".", "") == name)
    return CREATE - (-arrival.lasting // shape.compute) + DELETE, shape.slices


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise Malformed(str(folder), pattern, f"matches {len(found)} files; choose a folder with one")
    return found[0]


COMPARED = ("first-fit", "best-fit", "least-loss")
DIFFERENCES = (
    "Published runs had fake agents, a real API server and a real scheduler. Here the engine decides in\n"
    "process: no time of binding counts, and the oldest job that fits always comes first."
)
HOUR = 3_600_000
"""Milliseconds"""


@click.command("mig-bench")
@click.option(
    "--trace",
    "folder",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with a trace (*trace.jsonl) and its published figures (*summary.csv).",
)
@click.option("--policy", "policies", multiple=True, type=click.Choice(POLICIES), help="Only these policies.")
@AS_JSON
def mig_bench_(folder: Path, policies: Sequence[str], as_json: bool) -> None:
    """Play a trace of the MIG-scheduler-benchmark (FouoF): slices in use and waits, beside the published."""
    rows: list[dict[str, Any]] = []
    try:
        jobs, theirs = read_jobs(folder), published(folder)
        demand = demand_of(jobs)
        for name in policies or COMPARED:
            with shown(name) as progress:
                rows.append({"policy": name, **play(jobs, policy_named(name, demand), progress)})
    except Malformed as exc:
        raise click.ClickException(str(exc)) from exc
    if as_json:
        print(json.dumps({"ours": rows, "published": theirs, "differences": DIFFERENCES}, indent=1))
        return
    console = Console()
    console.print(_table([*rows, *theirs]))
    console.print(DIFFERENCES, highlight=False, soft_wrap=True)


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    headings = ("policy", "slices in use", "mean wait h", "p95 wait h", "makespan h", "p50 ms")
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        waits = (f"{row[name] / HOUR:.3f}" for name in ("mean_wait", "p95_wait", "makespan"))
        decision = f"{row['p50_ms']:.3f}" if "p50_ms" in row else "published"
        table.add_row(row["policy"], f"{row['in_use'] * 100:.2f} %", *waits, decision)
    return table
