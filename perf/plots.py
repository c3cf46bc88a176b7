"""Result files as pictures. Needs matplotlib, which the extra `perf` brings."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure as Picture

from perf.printing import number
from perf.results import Report, Run, gain
from perf.workload import Curve

COLOUR = "#1f6f8b"
WIDE_RANGE = 50
"""Values that differ by more than this factor are drawn on a logarithmic axis"""


def draw(reports: Sequence[Report], folder: Path, suffix: str) -> list[Path]:
    """Draw everything that the reports hold into a folder; returns the files.

    Several reports share their pictures, one line each: the same workload at several commits.
    """
    mpl.rcParams["svg.hashsalt"] = "perf"  # the same results give the same file
    folder.mkdir(parents=True, exist_ok=True)
    asked = any(run.oracle for run in reports[-1].runs)
    against = {"against-kubernetes": _against(reports[-1])} if asked else {}
    pictures = {**against, **dict(_curves(reports))}
    paths = []
    for name, picture in pictures.items():
        path = folder / f"{name.replace(' ', '-')}.{suffix}"
        picture.savefig(path, metadata={"Date": None} if suffix == "svg" else None)
        paths.append(path)
    return paths


def _against(report: Report) -> Picture:
    """How many times faster than Kubernetes' allocator we are, where it was asked in the same run."""
    bars = [
        (run.title, figure, theirs)
        for run in report.runs
        for figure in run.figures
        if figure.better and (theirs := run.beside(figure)) is not None
    ]
    picture = Picture(figsize=(9, 1.2 + 0.5 * len(bars)), layout="constrained")
    axes = picture.subplots()
    for at, (_, figure, theirs) in enumerate(bars):
        factor = gain(theirs, figure)
        axes.barh(at, factor, 0.6, color=COLOUR)
        text = f" {factor:,.1f}x: {number(figure.median)} {figure.unit} against {number(theirs.median)}"
        axes.text(factor, at, text, va="center")
    axes.set_yticks(range(len(bars)), [f"{title}: {figure.name}" for title, figure, _ in bars])
    axes.invert_yaxis()
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 1), high * 500)  # room for the text behind the longest bar
    axes.set_xlabel("times faster than the allocator of Kubernetes")
    axes.set_title(f"{report.machine.cpu}, {report.machine.cores} cores; commit {report.commit}", fontsize=8)
    return picture


def _curves(reports: Sequence[Report]) -> Iterable[tuple[str, Picture]]:
    lines: dict[tuple[str, str, str, str], list[tuple[str, Sequence[tuple[float, float]]]]] = {}
    for report in reports:
        for workload in dict.fromkeys(run.workload for run in report.runs):
            runs = [run for run in report.runs if run.workload == workload]
            for curve in _joined(runs):
                key = workload, curve.name, curve.x, curve.y
                lines.setdefault(key, []).append((report.commit or report.began, curve.points))
    for (workload, name, x, y), drawn in lines.items():
        picture = Picture(figsize=(7, 4), layout="constrained")
        axes = picture.subplots()
        for label, points in drawn:
            axes.plot([at for at, _ in points], [value for _, value in points], marker=".", label=label)
        axes.set(xlabel=x, ylabel=y, title=f"{workload}: {name}")
        if _wide([at for _, points in drawn for at, _ in points]):
            axes.set_xscale("log")
        if _wide([value for _, points in drawn for _, value in points]):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        if len(drawn) > 1:
            axes.legend()
        yield f"{workload}-{name}", picture


def _joined(runs: Sequence[Run]) -> Iterable[Curve]:
    """The curves of a workload; what its cases give point by point becomes one line."""
    found: dict[str, Curve] = {}
    for curve in (curve for run in runs for curve in run.curves):
        known = found.get(curve.name)
        points = sorted([*known.points, *curve.points]) if known else curve.points
        found[curve.name] = curve._replace(points=points)
    return found.values()


def _wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > WIDE_RANGE
