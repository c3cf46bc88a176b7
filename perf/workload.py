"""What a workload is: something to run at some size, and the figures that come out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from perf.fleets.objects import Json

Size = Mapping[str, int]
Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is; never while something is timed."""


class Figure(NamedTuple):
    """One number of one run."""

    name: str
    value: float
    unit: str
    better: Literal["more", "less", ""] = "less"
    """Empty for what is only for the record"""


class Curve(NamedTuple):
    """How something grows."""

    name: str
    x: str
    y: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gives."""

    figures: Sequence[Figure]
    curves: Sequence[Curve] = ()


@dataclass(frozen=True, slots=True)
class OracleTask:
    """How another allocator can be asked the same: see `perf/oracle.py`."""

    problem: Callable[[Size], tuple[Iterable[Json], Sequence[Json]]]
    """Nodes, classes and slices; and the claims in their order"""
    figures: Callable[[Sequence[float]], Sequence[Figure]]
    """From the seconds of each claim, by the names that the workload uses"""


@dataclass(frozen=True, slots=True)
class Workload:
    """Something to measure. Each case is run in processes of its own."""

    name: str
    about: str
    run: Callable[[Size, Progress], Outcome]
    cases: Mapping[str, Size]
    """By name; a workload of one size has one case without a name"""
    tiny: Size
    """A size that takes a blink, for tests of what is measured"""
    repeats: int = field(default=3)
    problem: Callable[[Size], str] = lambda _: ""
    """Why a size cannot be run, and what to do; empty if it can"""
    oracle: OracleTask | None = None


def rate(name: str, seconds: Sequence[float]) -> Figure:
    """How many a second, over all of them."""
    return Figure(name, len(seconds) / sum(seconds), "/s", "more")


def latencies(seconds: Sequence[float], of: str = "claim") -> list[Figure]:
    """The median, the 99th percentile and the worst, in microseconds."""
    p50, p99, worst = (np.percentile(seconds, [50, 99, 100]) * 1e6).tolist()
    return [
        Figure(f"{of} p50", p50, "us"),
        Figure(f"{of} p99", p99, "us"),
        Figure(f"{of} worst", worst, "us"),
    ]


def one_by_one(seconds: Sequence[float], of: str = "claim") -> list[Figure]:
    """Decisions one after another: how many a second, and how long one takes."""
    return [rate(f"{of}s/s", seconds), *latencies(seconds, of)]


def filling(seconds: Sequence[float], points: int = 20) -> Curve:
    """The mean time of a decision by how many came before it."""
    width = max(len(seconds) // points, 1)
    means = [
        (float(start + width), float(np.mean(seconds[start : start + width])) * 1e6)
        for start in range(0, len(seconds) - width + 1, width)
    ]
    return Curve("time of a claim while the fleet fills", "claims decided", "us a claim", means)


def progress_bar() -> ProgressBar:
    """A bar on standard error, which goes away at the end."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    return ProgressBar(*columns, console=Console(stderr=True), transient=True)


def known(other: Mapping[str, int], size: Size) -> Mapping[str, int]:
    """The sizes among these that a workload has."""
    return {name: value for name, value in other.items() if name in size}


def parsed(text: str) -> tuple[str, int]:
    """`NAME=NUMBER`. Raises BadParameter."""
    name, _, value = text.partition("=")
    if not value.isdigit():
        raise click.BadParameter(f"write {name or 'name'}=NUMBER, not {text!r}", param_hint="--set")
    return name, int(value)
