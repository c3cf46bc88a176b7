"""Means of a sweep as pictures. Needs matplotlib, which the extra `perf` brings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure as Picture

from perf.placement.plots import COLOURS
from perf.sweep.summary import Line

ROOM = 50
"""Letters of names of groups that fit below the axis side by side"""
FIGURES = 2
"""Of each play, the most important first"""


def draw(lines: Sequence[Line], folder: Path, suffix: str) -> list[Path]:
    """Draw the first figures of each play into a folder; returns the files."""
    mpl.rcParams["svg.hashsalt"] = "perf"  # the same results give the same file
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for play in dict.fromkeys(line.play for line in lines):
        of = [line for line in lines if line.play == play]
        for figure in list(dict.fromkeys(name for line in of for name in line.figures))[:FIGURES]:
            paths.append(folder / f"{play}-{figure.replace('_', '-')}.{suffix}")
            picture = _picture([line for line in of if figure in line.figures], figure)
            picture.savefig(paths[-1], metadata={"Date": None} if suffix == "svg" else None)
    return paths


def _picture(lines: Sequence[Line], figure: str) -> Picture:
    """Means of each group, a colour for each policy, with their 95 % intervals."""
    groups = list(dict.fromkeys(line.group for line in lines))
    policies = list(dict.fromkeys(line.policy for line in lines))
    picture = Picture(figsize=(max(7.0, 1.2 * len(groups) + 2), 4), layout="constrained")
    axes = picture.subplots()
    for at, policy in enumerate(policies):
        of = {line.group: line.figures[figure] for line in lines if line.policy == policy}
        places = np.array([groups.index(group) for group in of], dtype=np.float64)
        axes.errorbar(
            places + 0.6 * ((at + 0.5) / len(policies) - 0.5),
            [one.mean for one in of.values()],
            yerr=[one.half_width for one in of.values()],
            fmt="o",
            capsize=3,
            color=COLOURS[at % len(COLOURS)],
            label=policy,
        )
    crowded = sum(map(len, groups)) > ROOM
    slanted: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
    axes.set_xticks(range(len(groups)), groups, **slanted)
    axes.set(ylabel=figure.replace("_", " "), title=f"{lines[0].play}, with 95 % intervals")
    axes.grid(axis="y", alpha=0.3)
    axes.margins(x=0.1, y=0.15)
    picture.legend(loc="outside right upper", fontsize=8)
    return picture
