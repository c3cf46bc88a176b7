"""Results as they are kept: one file a session of measuring, runs in it, figures in those."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, computed_field

from perf.machine import Calibration, Machine
from perf.workload import Curve, Figure, Outcome


class Kept(BaseModel):
    """Part of a result file. Unknown fields are refused: such a file is of another version."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Summary(Kept):
    """One figure over all repeats."""

    name: str
    unit: str
    better: Literal["more", "less", ""]
    values: tuple[float, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def median(self) -> float:
        return float(np.median(self.values))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def p99(self) -> float:
        """The worst value but one in a hundred; nearly the worst, with fewer repeats."""
        return float(np.percentile(self.values, 1 if self.better == "more" else 99))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def worst(self) -> float:
        return min(self.values) if self.better == "more" else max(self.values)


class Run(Kept):
    """One case of a workload, repeated."""

    workload: str
    case: str
    size: Mapping[str, int]
    calibration: Calibration
    """Just before the first repeat"""
    peak_mib: tuple[float, ...]
    """Of each repeat's process"""
    figures: tuple[Summary, ...]
    curves: tuple[Curve, ...]
    """Of the first repeat"""
    oracle: tuple[Summary, ...] = ()
    """What the program of `--oracle` needed for the same, in the same run; empty without one"""

    def beside(self, figure: Summary) -> Summary | None:
        """The same figure of that program."""
        return next((one for one in self.oracle if one.name == figure.name), None)

    @property
    def title(self) -> str:
        return f"{self.workload} {self.case}".strip()


class Report(Kept):
    """Everything measured in one go."""

    format: Literal[1] = 1
    began: str
    commit: str
    machine: Machine
    runs: tuple[Run, ...]


def gain(was: Summary, now: Summary) -> float:
    """How many times better the second is; nan if it cannot be said."""
    over, under = (now, was) if now.better == "more" else (was, now)
    return over.median / under.median if under.median else float("nan")


def summed_up(outcomes: Sequence[Outcome]) -> tuple[Summary, ...]:
    """Each figure over all repeats, in the order of the first."""
    values: dict[str, list[Figure]] = {}
    for outcome in outcomes:
        for figure in outcome.figures:
            values.setdefault(figure.name, []).append(figure)
    return tuple(
        Summary(
            name=name,
            unit=figures[0].unit,
            better=figures[0].better,
            values=tuple(figure.value for figure in figures),
        )
        for name, figures in values.items()
    )


def latest(reports: Iterable[Report]) -> list[tuple[Report, Run]]:
    """The newest run of each case of each workload, with the report that has it."""
    by_age = sorted(reports, key=lambda report: report.began)
    return [*{(run.workload, run.case): (report, run) for report in by_age for run in report.runs}.values()]


def save(report: Report, path: Path) -> None:
    """Write a result file."""
    path.write_text(report.model_dump_json(indent=1) + "\n", "utf-8")


def load(path: Path) -> Report:
    """Read a result file."""
    return Report.model_validate_json(path.read_text("utf-8"))
