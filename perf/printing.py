"""Results as tables for a terminal."""

from collections.abc import Iterable

from rich.table import Table

from perf.baseline import KUBERNETES
from perf.results import Report, Run, Summary
from perf.workload import Workload

NOTEWORTHY = 1.1
"""Medians that differ by less than this factor are within what repeats of the same code differ by."""


def catalogue(workloads: Iterable[Workload]) -> Table:
    """What can be run."""
    table = Table("workload", "what it measures", "sizes", box=None, pad_edge=False)
    for workload in workloads:
        sizes = [" ".join(filter(None, [case, _size(size)])) for case, size in workload.cases.items()]
        table.add_row(workload.name, workload.about, "\n".join(sizes))
    return table


def headline(run: Run) -> str:
    """What was run, at which size, on how fast a machine, with how much memory."""
    return f"{run.title} ({_size(run.size)}; {run.calibration}; peak {max(run.peak_mib):,.0f} MiB)"


def run_table(run: Run) -> Table:
    """The figures of a run, with Kubernetes' own where they were measured."""
    table = Table(box=None, pad_edge=False)
    table.add_column("figure", min_width=28)
    for heading in ("median", f"p99 of {len(run.peak_mib)}", "", "Kubernetes", "factor"):
        table.add_column(heading, justify="right" if heading else "left")
    for figure in run.figures:
        theirs, factor = _beside(run, figure)
        table.add_row(figure.name, _number(figure.median), _number(figure.p99), figure.unit, theirs, factor)
    return table


def comparison(before: Report, after: Report) -> Table:
    """The medians of two reports and their ratio; above 1 the second is better."""
    table = Table(box=None, pad_edge=False)
    table.add_column("figure")
    for heading in (before.commit or "first", after.commit or "second", "gain"):
        table.add_column(heading, justify="right")
    table.add_column("")
    known = {(run.workload, run.case): run for run in before.runs}
    for run in after.runs:
        old = known.get((run.workload, run.case))
        if old is None:
            continue
        table.add_section()
        differs = "" if old.size == run.size else f"sizes differ: {_size(old.size)} and {_size(run.size)}"
        table.add_row(f"[bold]{run.title}", str(old.calibration), str(run.calibration), "", differs)
        for was, now in _pairs(old, run):
            gain = _gain(was, now)
            table.add_row(f"  {now.name}", _with_unit(was), _with_unit(now), f"{gain:.2f}", _verdict(gain))
        table.add_row("  peak memory", f"{max(old.peak_mib):.0f} MiB", f"{max(run.peak_mib):.0f} MiB", "", "")
    return table


def _pairs(old: Run, new: Run) -> list[tuple[Summary, Summary]]:
    before = {figure.name: figure for figure in old.figures}
    return [(before[now.name], now) for now in new.figures if now.name in before and now.better]


def _gain(was: Summary, now: Summary) -> float:
    over, under = (now, was) if now.better == "more" else (was, now)
    return over.median / under.median if under.median else float("nan")


def _verdict(gain: float) -> str:
    if gain >= NOTEWORTHY:
        return "[green]better"
    return "[red]worse" if gain <= 1 / NOTEWORTHY else ""


def _beside(run: Run, figure: Summary) -> tuple[str, str]:
    reference = KUBERNETES.get((run.workload, figure.name))
    if reference is None:
        return "", ""
    return str(reference), f"{reference.factor(figure.median, figure.better):.1f}x"


def _with_unit(figure: Summary) -> str:
    return f"{_number(figure.median)} {figure.unit}"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _size(size: object) -> str:
    return ", ".join(f"{name}={value:,}" for name, value in dict(size).items())  # type: ignore[call-overload]
