"""Results as tables for a terminal."""

from collections.abc import Iterable, Iterator

from rich.table import Table

from perf.phases import PREFIX
from perf.results import Report, Run, Summary, gain
from perf.workload import Workload

NOTEWORTHY = 1.1
"""Medians that differ by less than this factor are within what repeats of the same code differ by."""


def catalogue(workloads: Iterable[Workload]) -> Table:
    """What can be run."""
    table = Table("workload", "what it measures", "sizes", box=None, pad_edge=False)
    for workload in workloads:
        sizes = [" ".join(filter(None, [case, size_text(size)])) for case, size in workload.cases.items()]
        table.add_row(workload.name, workload.about, "\n".join(sizes))
    return table


def headline(run: Run) -> str:
    """What was run, at which size, on how fast a machine, with how much memory."""
    return f"{run.title} ({conditions(run)})"


def conditions(run: Run) -> str:
    """The size, the speed of the machine, and the memory that was needed."""
    return f"{size_text(run.size)}; {run.calibration}; peak {max(run.peak_mib):,.0f} MiB"


def run_table(run: Run) -> Table:
    """The figures of a run, with those of Kubernetes' allocator where a program was asked for them."""
    table = Table(box=None, pad_edge=False)
    table.add_column("figure", min_width=28)
    for heading in ("median", f"p99 of {len(run.peak_mib)}", "worst", "", "Kubernetes", "factor"):
        table.add_column(heading, justify="right" if heading else "left")
    for figure in run.figures:
        if figure.name.startswith(PREFIX):
            continue
        theirs, factor = beside(run, figure)
        ours = [number(value) for value in (figure.median, figure.p99, figure.worst)]
        table.add_row(figure.name, *ours, figure.unit, theirs, factor)
    return table


def phases_table(run: Run) -> Table | None:
    """The phases of what was created, in their order; None if the run has none."""
    rows = list(phases(run))
    if not rows:
        return None
    table = Table(box=None, pad_edge=False)
    table.add_column("phase", min_width=28)
    for heading in ("p50", "p99", ""):
        table.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        table.add_row(*row)
    return table


def phases(run: Run) -> Iterator[tuple[str, str, str, str]]:
    """Each phase of what was created, in their order: its name, p50, p99 and unit."""
    found = {one.name.removeprefix(PREFIX): one for one in run.figures if one.name.startswith(PREFIX)}
    for name, p50 in found.items():
        if name.endswith(" p50"):
            p99 = found[name.removesuffix("p50") + "p99"]
            yield name.removesuffix(" p50"), number(p50.median), number(p99.median), p50.unit


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
        differs = (
            "" if old.size == run.size else f"sizes differ: {size_text(old.size)} and {size_text(run.size)}"
        )
        table.add_row(f"[bold]{run.title}", str(old.calibration), str(run.calibration), "", differs)
        for was, now in _pairs(old, run):
            times = gain(was, now)
            table.add_row(f"  {now.name}", _with_unit(was), _with_unit(now), f"{times:.2f}", _verdict(times))
        table.add_row("  peak memory", f"{max(old.peak_mib):.0f} MiB", f"{max(run.peak_mib):.0f} MiB", "", "")
    return table


def _pairs(old: Run, new: Run) -> list[tuple[Summary, Summary]]:
    before = {figure.name: figure for figure in old.figures}
    return [(before[now.name], now) for now in new.figures if now.name in before and now.better]


def _verdict(times: float) -> str:
    if times >= NOTEWORTHY:
        return "[green]better"
    return "[red]worse" if times <= 1 / NOTEWORTHY else ""


def beside(run: Run, figure: Summary) -> tuple[str, str]:
    """What the other allocator needed for the same, and how many times better we are; empty if unknown."""
    theirs = run.beside(figure)
    if theirs is None:
        return "", ""
    return number(theirs.median), f"{gain(theirs, figure):,.1f}x"


def _with_unit(figure: Summary) -> str:
    return f"{number(figure.median)} {figure.unit}"


def number(value: float) -> str:
    """Three digits, or all before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def size_text(size: object) -> str:
    """The names and numbers of a size."""
    return ", ".join(f"{name}={value:,}" for name, value in dict(size).items())  # type: ignore[call-overload]
