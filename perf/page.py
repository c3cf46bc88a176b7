"""Result files as the page `RESULTS.md`."""

from collections.abc import Iterable, Iterator, Sequence

from perf.catalogue import WORKLOADS
from perf.phases import PREFIX
from perf.printing import beside, conditions, number, phases
from perf.results import Report, Run, latest

INTRODUCTION = """# Results

Made by `python -m perf page perf/kept/*.json` from what `run --out` wrote; do not edit. [README](README.md)
says what is measured and how to repeat it, and
[PLACEMENT](PLACEMENT.md) how much of a fleet each policy fills.

Every row has the median of the repeats, their 99th percentile and the worst. *Kubernetes* is Kubernetes' own
allocator in the same run: one thread, the first node that fits, the same claims on the same fleet. Of the
machine, just before each run: *loop* is the time of five million additions in Python, *copy* the rate of
copying memory.
"""


def page(reports: Sequence[Report]) -> str:
    """The page. Where several reports have a case of a workload, the newest one counts."""
    order = {name: at for at, name in enumerate(WORKLOADS)}
    known = sorted(latest(reports), key=lambda found: order.get(found[1].workload, len(order)))
    sections = [part for report, run in known for part in _section(report, run)]
    return "\n".join([INTRODUCTION, *_machines(reports), *sections])


def _machines(reports: Iterable[Report]) -> Iterator[str]:
    for machine in dict.fromkeys(str(report.machine) for report in reports):
        yield f"Measured on {machine}.\n"


def _section(report: Report, run: Run) -> Iterator[str]:
    about = WORKLOADS[run.workload].about if run.workload in WORKLOADS else ""
    yield f"## {run.title}\n"
    yield f"{about[:1].upper()}{about[1:]}.\n" if about else ""
    yield f"{report.began[:10]}, commit `{report.commit or 'unknown'}`: {conditions(run)}.\n"
    columns = ["figure", "median", f"p99 of {len(run.peak_mib)}", "worst", "unit"]
    rows = [
        [one.name, *map(number, (one.median, one.p99, one.worst)), one.unit, *beside(run, one)]
        for one in run.figures
        if not one.name.startswith(PREFIX)
    ]
    yield from _table([*columns, "Kubernetes", "factor"] if run.oracle else columns, rows)
    if found := list(phases(run)):
        yield from _table(["phase", "p50", "p99", "unit"], found)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|---{'|---:' * (len(columns) - 1)}|"
    for row in rows:
        yield f"| {' | '.join(row[: len(columns)])} |"
    yield ""
