"""What a measurement leaves: the machine, figures of each repeat, and their summary, kept as JSON."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
import pydantic
from pydantic import BaseModel, ConfigDict, computed_field

from perf.workload import Curve, Figure, Outcome

ROOT = Path(__file__).parent.parent
ADDITIONS = 5_000_000
COPIED_BYTES = 256 * 2**20


class Calibration(NamedTuple):
    """How fast the machine is at this moment; others may be using it too."""

    loop_seconds: float
    """Five million additions in Python"""
    copy_gb_per_second: float
    """Bytes read plus bytes written"""

    def __str__(self) -> str:
        return f"loop {self.loop_seconds:.2f} s, copy {self.copy_gb_per_second:.0f} GB/s"


class Machine(NamedTuple):
    """The machine and the versions."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    numpy: str
    pydantic: str

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:.0f} GiB, {self.system}; "
            f"Python {self.python}, NumPy {self.numpy}, pydantic {self.pydantic}"
        )


def machine() -> Machine:
    """The machine that runs us."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(memory, 1),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        numpy=np.__version__,
        pydantic=pydantic.VERSION,
    )


def commit() -> str:
    """The commit of the working tree, with a mark if something in it differs. Empty outside of one."""
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        return f"{name} with changes" if _git("status", "--porcelain", "--untracked-files=no") else name
    except (OSError, subprocess.CalledProcessError):  # an installed copy, or no git
        return ""


def calibrate() -> Calibration:
    """Measure in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "perf.results"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return Calibration(*json.loads(done.stdout))


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _measure() -> Calibration:
    began = perf_counter()
    total = 0
    for number in range(ADDITIONS):
        total += number
    loop = perf_counter() - began
    source = np.ones(COPIED_BYTES // 8)
    target = source.copy()
    best = np.inf
    for _ in range(5):
        began = perf_counter()
        np.copyto(target, source)
        best = min(best, perf_counter() - began)
    return Calibration(loop, 2 * COPIED_BYTES / best / 1e9)


if __name__ == "__main__":
    print(json.dumps(_measure()))


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
