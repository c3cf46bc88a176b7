"""The command line: `python -m perf` with `list`, `run`, `versus`, `plot`, `replay` and others."""

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from perf import printing
from perf.catalogue import WORKLOADS
from perf.child import Failed, run_in_child
from perf.live import KUBECONFIG
from perf.oracle import Unanswered, ask
from perf.page import page
from perf.placement.command import placement
from perf.replay import replay
from perf.results import Report, Run, calibrate, commit, load, machine, save, summed_up
from perf.sweep.command import sweep
from perf.versus import versus
from perf.workload import Figure, Outcome, Size, Workload, known, parsed, progress_bar
from reconciler.allocation.policies.demand import NO_DEMAND
from reconciler.allocation.policies.names import FIRST_FIT, POLICIES
from reconciler.allocation.policies.selection import policy_named
from reconciler.errors import Malformed

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def main() -> None:
    """Measure the engine on synthetic fleets."""


@main.command("list")
def list_() -> None:
    """Show all workloads and their sizes."""
    Console().print(printing.catalogue(WORKLOADS.values()))


@main.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", type=click.Choice(list(WORKLOADS)))
@click.option("--repeats", type=click.IntRange(min=1), help="How often; otherwise as the workload says.")
@click.option("--set", "sizes", multiple=True, metavar="NAME=NUMBER", help="Another size than `list` shows.")
@click.option("--case", "cases", multiple=True, help="Only these cases of the workloads that have several.")
@click.option("--out", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Keep as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option(
    "--oracle",
    type=FILE,
    metavar="PATH",
    help="A program that answers scenario files: fills the column Kubernetes; see perf/README.md.",
)
@click.option("--solver", is_flag=True, help="Ask CP-SAT, too, and print how much of its time ours is.")
@click.option("--kubeconfig", type=FILE, help="Run e2e against this cluster, which must be made for that.")
def run(
    names: Sequence[str],
    repeats: int | None,
    sizes: Sequence[str],
    cases: Sequence[str],
    out: Path | None,
    as_json: bool,
    oracle: Path | None,
    solver: bool,
    kubeconfig: Path | None,
) -> None:
    """Run workloads by name, all of them without one. Each repeat runs in a process of its own."""
    chosen = [WORKLOADS[name] for name in names or WORKLOADS]
    if kubeconfig is not None:
        os.environ[KUBECONFIG] = str(kubeconfig.resolve())
    other = dict(parsed(size) for size in sizes) | ({"solver": 1} if solver else {})
    report = Report(
        began=datetime.now(UTC).isoformat(timespec="seconds"), commit=commit(), machine=machine(), runs=()
    )
    console = Console(width=None if sys.stdout.isatty() else 140)
    if not as_json:
        console.print(f"{report.machine}; commit {report.commit or 'unknown'}", highlight=False)
    for workload in chosen:
        for case, size in workload.cases.items():
            if cases and case and case not in cases:
                continue
            sized = {**size, **known(other, size)}
            if problem := workload.problem(sized):
                raise click.BadParameter(f"{workload.name}: {problem}", param_hint="--set")
            done = _repeat(workload, case, sized, repeats or workload.repeats, oracle)
            if kubeconfig is not None:
                done = done.model_copy(update={"case": f"{case} on a cluster".lstrip()})
            report = report.model_copy(update={"runs": (*report.runs, done)})
            if not as_json:
                console.print(f"\n[bold]{printing.headline(done)}", highlight=False, soft_wrap=True)
                console.print(printing.run_table(done), highlight=False)
                if (phases := printing.phases_table(done)) is not None:
                    console.print(phases, highlight=False)
            if out is not None:  # after every run: a long session that is cut short keeps what it has
                save(report, out)
    if as_json:
        print(report.model_dump_json(indent=1))


@main.command("page")
@click.argument("files", nargs=-1, required=True, metavar="RESULTS...", type=FILE)
def page_(files: Sequence[Path]) -> None:
    """Print files that `run --out` wrote as a page in Markdown; of several, the newest one counts."""
    click.echo(page([load(file) for file in files]), nl=False)


@main.command()
@click.argument("files", nargs=-1, required=True, metavar="RESULTS...", type=FILE)
@click.option(
    "--out", default="perf-plots", show_default=True, type=click.Path(file_okay=False, path_type=Path)
)
@click.option("--format", "suffix", default="svg", show_default=True, type=click.Choice(["svg", "png"]))
def plot(files: Sequence[Path], out: Path, suffix: str) -> None:
    """Draw files that `run --out` wrote, one line a file."""
    from perf.plots import draw  # noqa: PLC0415 - of an extra, and slow to import

    for path in draw([load(file) for file in files], out, suffix):
        print(path)


@main.command("replay")
@click.argument("scenario", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, the devices of every claim included.")
@click.option("--policy", default=FIRST_FIT, show_default=True, type=click.Choice(POLICIES))
@click.option(
    "--order",
    default="given",
    show_default=True,
    type=click.Choice(["given", "name"]),
    help="Try nodes as the file lists them, or by name as the controller does.",
)
def replay_(scenario: Path, as_json: bool, policy: str, order: str) -> None:
    """Play a scenario file: a fleet, claims, and the order in which they come and go."""
    with progress_bar() as progress:
        task = progress.add_task(scenario.name, total=1.0)
        try:
            done = replay(
                scenario,
                lambda at, of: progress.update(task, completed=at, total=of),
                by_name=order == "name",
                policy=policy_named(policy, NO_DEMAND),
            )
        except Malformed as exc:
            raise click.ClickException(str(exc)) from exc
    summary = done.to_json()
    if as_json:
        print(json.dumps(summary))
        return
    for name, value in summary.items():
        if name == "reasons":
            for claim, reason in value.items():
                print(f"{claim}: {reason}")
        elif name != "devices":
            print(f"{name:18} {value}")


@main.command("soak")
@click.option("--minutes", type=click.FloatRange(min=0.1), default=10.0, show_default=True)
@click.option("--rate", type=float, default=2.0, show_default=True, help="Pods or gangs a second.")
@click.option("--nodes", type=int, default=50, show_default=True, help="Nodes of 208 MIG partitions.")
@click.option("--whole", type=int, default=1250, show_default=True, help="Nodes of eight whole GPUs.")
@click.option("--units", type=int, default=300, show_default=True, help="Pods and gangs at once.")
@click.option(
    "--trouble-seconds", type=float, default=45.0, show_default=True, help="Between kills and stops."
)
@click.option("--kubeconfig", default="", help="On this cluster, which must be made for that.")
@click.option(
    "--folder", default="perf-soak", show_default=True, type=click.Path(file_okay=False, path_type=Path)
)
def soak_(folder: Path, **flags: Any) -> None:
    """Run two replicas under churn, faults and kills in real time.

    Prints figures as JSON; the folder gets these, logs, journals and a plot. Exit code 1 if
    anything was found.
    """
    from perf.soak import Plan, draw, soak  # noqa: PLC0415 - brings what tests share with it

    plan = Plan(**flags)
    try:
        folder.mkdir(parents=True)
    except OSError as exc:
        problem = f"cannot make {folder}: {exc.strerror}; name a new folder"
        raise click.BadParameter(problem, param_hint="--folder") from exc
    with progress_bar() as progress:
        task = progress.add_task("soak", total=plan.minutes * 60)
        found = soak(plan, folder, lambda done, how: progress.update(task, completed=done, description=how))
    draw(found, folder / "soak.svg")
    (folder / "soak.json").write_text(json.dumps(found), "utf-8")
    print(
        json.dumps(
            {name: value for name, value in found.items() if name not in ("samples", "latency")}, indent=1
        )
    )
    sys.exit(bool(found["findings"] or found["lost"]))


main.add_command(placement)
main.add_command(sweep)
main.add_command(versus)


def _repeat(workload: Workload, case: str, size: Size, repeats: int, oracle: Path | None) -> Run:
    with progress_bar() as progress:
        task = progress.add_task(f"{workload.name} {case}", total=1.0)
        calibration = calibrate()
        results = []
        for turn in range(repeats):
            progress.update(task, description=f"{workload.name} {case} {turn + 1}/{repeats}", completed=0)
            try:
                results.append(
                    run_in_child(
                        workload.name,
                        size,
                        lambda done, of: progress.update(task, completed=done, total=of),
                    )
                )
            except Failed as failed:
                raise click.ClickException(str(failed)) from failed
        theirs: Sequence[Figure] = ()
        if oracle is not None and workload.oracle is not None:
            progress.update(task, description=f"{workload.name} {case} {oracle.name}", total=None)
            try:
                theirs = ask(oracle, f"{workload.name} {case}".strip(), workload.oracle, size)
            except Unanswered as exc:
                raise click.ClickException(str(exc)) from exc
    outcomes = [outcome for outcome, _ in results]
    return Run(
        workload=workload.name,
        case=case,
        size=size,
        calibration=calibration,
        peak_mib=tuple(peak for _, peak in results),
        figures=summed_up(outcomes),
        curves=tuple(outcomes[0].curves),
        oracle=summed_up([Outcome(theirs)]),
    )


if __name__ == "__main__":
    main()
