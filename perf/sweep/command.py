"""The command `python -m perf sweep`."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from perf.sweep import executors, summary
from perf.sweep.executors import dask, processes
from perf.sweep.results import Result, Results, Task, tasks_of
from perf.sweep.spec import Batches, read_spec
from reconciler.errors import Rejected

BETWEEN_LINES = 10.0
"""Seconds"""
Advance = Callable[[int, int], None]
"""Called with the scenarios that have results, and those that failed"""


@contextmanager
def shown(total: int, before: int) -> Iterator[Advance]:
    """Show the progress on standard error. `before` scenarios have results already."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _in_lines(total)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("scenarios", total=total, completed=before)
        yield lambda done, failed: progress.update(
            task,
            completed=done + failed,
            description=f"scenarios, {failed} failed" if failed else "scenarios",
        )


def _in_lines(total: int) -> Advance:
    told = monotonic()

    def advance(done: int, failed: int) -> None:
        nonlocal told
        if (now := monotonic()) - told >= BETWEEN_LINES or done + failed == total:
            told = now
            print(f"{done} of {total} scenarios, {failed} failed", file=sys.stderr, flush=True)

    return advance


INDEX = "JOB_COMPLETION_INDEX"
"""What an Indexed Job of Kubernetes tells each of its pods"""


@click.command("sweep")
@click.argument("spec", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="SPEC.yaml")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder.")
@click.option(
    "--executor",
    default="processes",
    show_default=True,
    type=click.Choice(["processes", "dask", "none"]),
    help="Where scenarios are played; `none` only sums up what is there.",
)
@click.option(
    "--workers",
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="all processors",
    type=click.IntRange(1, 1024),
    help="Processes on this machine.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Of Dask; started on this machine without it.")
@click.option("--shards", type=click.IntRange(1, 100_000), help="Play only one of so many parts.")
@click.option("--shard", envvar=INDEX, type=click.IntRange(min=0), help=f"Which part.  [default: {INDEX}]")
@click.option(
    "--plots", "suffix", default="svg", show_default=True, type=click.Choice(["svg", "png", "none"])
)
def sweep(
    spec: Path,
    out: Path,
    executor: str,
    workers: int,
    scheduler: str | None,
    shards: int | None,
    shard: int | None,
    suffix: str,
) -> None:
    """Play thousands of scenarios and sum them up. Results are kept: run it again to resume."""
    if scheduler is not None and executor != "dask":
        raise click.UsageError("--scheduler needs --executor dask")
    if shards is not None and (shard is None or shard >= shards):
        raise click.UsageError(f"--shards {shards} needs --shard or {INDEX}, a number from 0 to {shards - 1}")
    results = Results(out)
    try:
        tasks = tasks_of(read_spec(spec))
        if shards is not None:
            tasks = [task for task in tasks if int(task.digest[:15], 16) % shards == shard]
        found = {task.digest: one for task in tasks if (one := results.load(task.digest)) is not None}
        missing = [task for task in tasks if task.digest not in found]
        print(f"{len(tasks)} scenarios, {len(found)} with results", file=sys.stderr)
        failed: list[tuple[Task, Result]] = []
        if missing and executor != "none":
            with shown(len(tasks), len(found)) as advance:

                def done(batch: Sequence[Task], of: Sequence[Result]) -> None:
                    batches.learn(batch, of)
                    for task, result in zip(batch, of, strict=True):
                        if result.error:
                            failed.append((task, result))
                        else:
                            results.save(task, result)
                            found[task.digest] = result
                    advance(len(found), len(failed))

                batches = Batches(missing)
                _run(executor, batches, workers, scheduler, done)
    except Rejected as exc:
        raise click.ClickException(str(exc)) from exc
    except KeyboardInterrupt:
        print("stopped; finished batches are kept: run the same command again to go on", file=sys.stderr)
        raise
    for task, result in failed[:10]:
        print(f"{task.scenario.model_dump_json()}: {result.error}", file=sys.stderr)
    if shards is None:
        _sum_up([(task, found[task.digest]) for task in tasks if task.digest in found], out, suffix)
    if len(found) < len(tasks):
        raise click.ClickException(
            f"{len(tasks) - len(found)} of {len(tasks)} scenarios have no result, {len(failed)} failed"
        )


def _run(executor: str, batches: Batches, workers: int, scheduler: str | None, done: executors.Done) -> None:
    if executor == "dask":
        dask.run(batches, scheduler, workers, done)
    else:
        processes.run(batches, workers, done)


def _sum_up(played: Sequence[tuple[Task, Result]], out: Path, suffix: str) -> None:
    """Write all rows, the summary and the pictures, and print the summary."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "rows.jsonl").open("w") as file:
        for task, result in played:
            file.write(json.dumps({**task.scenario.model_dump(), **result.row}) + "\n")
    lines = summary.lines(played)
    (out / "summary.json").write_text(json.dumps([line.to_json() for line in lines], indent=1) + "\n")
    console = Console(width=None if sys.stdout.isatty() else 140)
    for play in dict.fromkeys(line.play for line in lines):
        console.print(summary.table(lines, play), highlight=False)
    if suffix == "none":
        return
    try:
        from perf.sweep.plots import draw  # noqa: PLC0415 - of an extra, and slow to import
    except ImportError:
        print("no plots: install the extra `perf`", file=sys.stderr)
        return
    for path in draw(lines, out / "plots", suffix):
        print(path)
