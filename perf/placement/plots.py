"""Results of placement as pictures. Needs matplotlib, which the extra `perf` brings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Picture

from perf.placement.random_node import RANDOM_NODE

Row = Mapping[str, Any]
Bars = Mapping[str, Sequence[float]]
"""Series -> a value for each group"""
COLOURS = ("#1f6f8b", "#99c24d", "#f18f01", "#8d99ae", "#2b2d42", "#c73e1d", "#6a4c93")


def draw(rows: Sequence[Row], folder: Path, suffix: str) -> list[Path]:
    """Draw all that the rows of `openb`, `mig` and `churn` hold into a folder; returns the files."""
    mpl.rcParams["svg.hashsalt"] = "perf"  # the same results give the same file
    folder.mkdir(parents=True, exist_ok=True)
    kinds: list[tuple[str, Callable[[Row], bool], Callable[[Sequence[Row]], Picture]]] = [
        ("placement-openb", lambda row: "variant" in row, _openb),
        ("placement-partitions", lambda row: "mix" in row and "in_use" in row, _mig),
        ("placement-queue", lambda row: "mix" in row and "mean_wait" in row, _queue),
        ("placement-churn", lambda row: "variant" not in row and "mix" not in row, _churn),
    ]
    paths = []
    for name, belongs, picture in kinds:
        if of_kind := [row for row in rows if belongs(row)]:
            paths.append(folder / f"{name}.{suffix}")
            picture(of_kind).savefig(paths[-1], metadata={"Date": None} if suffix == "svg" else None)
    return paths


def _openb(rows: Sequence[Row]) -> Picture:
    """Per cent in use at 100 per cent arrived: ours, learning, the published one, and the bound."""
    variants = _distinct(rows, "variant")
    series: dict[str, Callable[[Row], float | None]] = {
        "FGD, published": lambda row: row["published"].get("FGD", {}).get("at_100"),
        "expected-fill, learning": lambda row: row["at_100"] if row["learn"] else None,
        "expected-fill": lambda row: None if row["learn"] else row["at_100"],
        "bound": lambda row: row["bound_at_100"],
    }
    bars = {
        name: [_mean(map(value, (row for row in rows if row["variant"] == variant))) for variant in variants]
        for name, value in series.items()
    }
    return _bars(
        bars, variants, "GPUs in use at 100 % arrived, %", "openb; the axis starts at 84 %", lowest=84
    )


def _mig(rows: Sequence[Row]) -> Picture:
    """Slices in use: per cent more than with random nodes, or of all if these were not played."""
    use, mixes = _by_policy(rows, "mix", "in_use"), _distinct(rows, "mix")
    base = use.pop(RANDOM_NODE, None)
    if base is None:
        return _bars(_percent(use), mixes, "slices in use, %", "MIG partitions", lowest=0)
    gains = {
        policy: [(ours / theirs - 1) * 100 for ours, theirs in zip(values, base, strict=True)]
        for policy, values in use.items()
    }
    return _bars(gains, mixes, "slices in use, % more than with random nodes", "MIG partitions", lowest=0)


def _queue(rows: Sequence[Row]) -> Picture:
    """How long claims wait."""
    waits = _by_policy(rows, "mix", "mean_wait")
    return _bars(waits, _distinct(rows, "mix"), "mean wait, in mean durations", "MIG with a queue", lowest=0)


def _churn(rows: Sequence[Row]) -> Picture:
    """GPUs in use."""
    use = _percent(_by_policy(rows, "load", "held"))
    loads = [f"load {load}" for load in _distinct(rows, "load")]
    return _bars(use, loads, "GPUs in use, %", "Claims that come and go on mixed models", lowest=0)


def _by_policy(rows: Sequence[Row], groups: str, figure: str) -> dict[str, list[float]]:
    """Policy -> the mean of a figure for each distinct value of the field `groups`."""
    return {
        policy: [
            _mean(row[figure] for row in rows if (row[groups], row["policy"]) == (group, policy))
            for group in _distinct(rows, groups)
        ]
        for policy in _distinct(rows, "policy")
    }


def _percent(bars: Bars) -> Bars:
    return {name: [100 * value for value in values] for name, values in bars.items()}


def _bars(bars: Bars, groups: Sequence[str], y: str, title: str, *, lowest: float) -> Picture:
    picture = Picture(figsize=(max(7.0, 0.8 * len(groups)), 4), layout="constrained")
    axes = picture.subplots()
    width = 0.8 / len(bars)
    for at, (name, values) in enumerate(bars.items()):
        places = np.arange(len(groups)) + (at - (len(bars) - 1) / 2) * width
        axes.bar(places, values, width, label=name, color=COLOURS[at % len(COLOURS)])
    axes.set_xticks(range(len(groups)), groups, rotation=30 if len(groups) > 6 else 0)
    axes.set(ylabel=y, title=title)
    axes.set_ylim(bottom=lowest)
    picture.legend(fontsize=8, ncols=4, loc="outside lower center")
    return picture


def _distinct(rows: Sequence[Row], field: str) -> list[Any]:
    return list(dict.fromkeys(row[field] for row in rows))


def _mean(values: Iterable[float | None]) -> float:
    found = [value for value in values if value is not None]
    return float(np.mean(found)) if found else float("nan")
