"""Results as tables for a terminal."""

from collections.abc import Iterable, Iterator

from rich.table import Table

from perf.phases import PREFIX
from perf.results import Run, Summary, gain
from perf.workload import Workload


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


def beside(run: Run, figure: Summary) -> tuple[str, str]:
    """What the other allocator needed for the same, and how many times better we are; empty if unknown."""
    theirs = run.beside(figure)
    if theirs is None:
        return "", ""
    return number(theirs.median), f"{gain(theirs, figure):,.1f}x"


def number(value: float) -> str:
    """Three digits, or all before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def size_text(size: object) -> str:
    """The names and numbers of a size."""
    return ", ".join(f"{name}={value:,}" for name, value in dict(size).items())  # type: ignore[call-overload]
