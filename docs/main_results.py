"""The table in `performance.md`, made from the results that are kept: `python -m docs.main_results`."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from perf.printing import number
from perf.results import Report, Run, latest, load

PAGE = Path(__file__).parent / "performance.md"
KEPT = Path(__file__).parents[1] / "perf" / "kept"
_BEGIN = "<!-- The table is made by `python -m docs.main_results`: do not edit it. -->\n\n"
_END = "\n<!-- End of the table -->\n"

PEAK = "peak memory"
"""Stands for the most memory that a repeat needed"""


class Highlight(NamedTuple):
    """One row of the table."""

    what: str
    title: str
    """Of the run: its workload and case"""
    figures: tuple[str, ...]
    kubernetes: str = ""
    """What Kubernetes' own allocator needed for the same on a machine of the same kind"""


HIGHLIGHTS = (
    Highlight(
        "10,400 MIG partitions, the first 400 claims", "mig-fill", ("claims/s, first 400",), "15 to 17/s"
    ),
    Highlight("the same, 2,000 claims until the fleet is full", "mig-fill", ("claims/s",)),
    Highlight("1 to 8 whole GPUs a claim, 10,000 GPUs", "whole-gpu", ("claims/s",), "361 to 514/s"),
    Highlight("sub-slices of a TPU torus", "tpu-multihost", ("claims/s",)),
    Highlight("requests with alternatives", "prioritized", ("claims/s",)),
    Highlight("Koordinator: pods with GPUs and VFs on one switch", "koordinator", ("pods/s",)),
    Highlight(
        "claims of one template: decided in the process; in whole turns",
        "burst",
        ("in the process, claims/s of processor time", "whole turns, claims/s of processor time"),
    ),
    Highlight("`fit`: 50 sets of 4 pods, request to answer, p50", "fit anywhere", ("request to answer p50",)),
    Highlight(
        "one slice of 10,400 devices changes, until the masks are right, p50",
        "delta",
        ("picture and masks p50",),
    ),
    Highlight(
        "100,000 devices, listing to first decision; peak memory", "listing-gpus 100k", ("by the clock", PEAK)
    ),
    Highlight("a million devices; peak memory", "listing-gpus 1M", ("by the clock", PEAK)),
    Highlight(
        "who has to leave for one whole GPU, p50; worst",
        "make-room 7g on 10,400 partitions",
        ("advice p50", "advice max"),
    ),
    Highlight("moves that regain 20 whole GPUs", "defragment 20 x 7g on 10,400 partitions", ("plan",)),
    Highlight(
        "real API server on the same cores: creation of a claim to its allocation, p50; p99",
        "e2e on a cluster",
        ("creation to allocation p50", "creation to allocation p99"),
    ),
    Highlight(
        "the same: part of what two bare writes reach, from a start; while running; announced claims",
        "e2e on a cluster",
        (
            "claims/s, part of the write floor",
            "claims/s, part of the write floor, running",
            "claims/s, part of the write floor, announced",
        ),
    ),
    Highlight(
        "the same: our share of the time to bound pods, with a template; announced; named; allocated before",
        "e2e on a cluster",
        (
            "our share of that time",
            "our share of that time, claim announced",
            "our share of the time to bound pods",
            "our share of that time, claim allocated before",
        ),
    ),
    Highlight(
        "a process at rest, 10,400 devices, 500 pods that report their status every minute",
        "rest",
        ("of a core at rest",),
    ),
)


def page() -> str:
    """The whole page, with the table as the kept results have it now."""
    before, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    reports = [load(file) for file in KEPT.glob("*.json")]
    return before + _BEGIN + table(reports) + _END + after


def table(reports: Sequence[Report]) -> str:
    """The rows that the reports have figures for."""
    rows = ["| what | ours | Kubernetes' allocator |", "|---|---|---|", *_rows(reports)]
    return "\n".join(rows) + "\n"


def _rows(reports: Sequence[Report]) -> Iterator[str]:
    known = {run.title: run for _, run in latest(reports)}
    for row in HIGHLIGHTS:
        run = known.get(row.title)
        if run is not None:
            ours = "; ".join(_figure(run, name) for name in row.figures)
            anchor = re.sub(r"[^\w\- ]", "", row.title.lower()).replace(" ", "-")
            yield f"| [{row.what}](../perf/RESULTS.md#{anchor}) | {ours} | {row.kubernetes} |"


def _figure(run: Run, name: str) -> str:
    if name == PEAK:
        return f"{max(run.peak_mib):,.0f} MiB"
    figure = {one.name: one for one in run.figures}[name]
    value = number(figure.median)
    return value + figure.unit if figure.unit.startswith("/") else f"{value} {figure.unit}"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"wrote {PAGE.relative_to(Path.cwd())}\n")
