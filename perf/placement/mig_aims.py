"""What the policies gain on partitions, beside what they are to gain."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

RANDOM_NODE, FIRST_FIT, PLAIN, LEARNED, LIMIT = (
    "random-node",
    "first-fit",
    "least-loss",
    "learned",
    "repacking",
)
GAIN = {PLAIN: 8.0, LEARNED: 9.0}
"""Per cent more slices in use than with random nodes"""
OF_THE_WAY = {"uniform": 50.0, "mixed": 40.0}
"""Per cent of the way from first fit to free repacking"""
POINTS = 5.0
"""No profile's acceptance may be more percentage points below that of first fit"""


def aims(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each mix and policy: means over all seeds."""
    return [
        _line(mix, policy, of)
        for mix in dict.fromkeys(row["mix"] for row in rows)
        if {RANDOM_NODE, FIRST_FIT} <= (of := _by_policy(rows, mix)).keys()
        for policy in GAIN
        if policy in of
    ]


def _by_policy(rows: Sequence[Mapping[str, Any]], mix: str) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["mix"] == mix:
            found.setdefault(row["policy"], []).append(row)
    return found


def _line(mix: str, policy: str, of: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    use = {name: float(np.mean([row["in_use"] for row in of_name])) for name, of_name in of.items()}
    gain = (use[policy] / use[RANDOM_NODE] - 1) * 100
    text = f"{mix} {policy}: {gain:+.1f} % over random nodes (aim {GAIN[policy]:+.0f} %)"
    if use.get(LIMIT, 0.0) > use[FIRST_FIT]:
        way = (use[policy] - use[FIRST_FIT]) / (use[LIMIT] - use[FIRST_FIT]) * 100
        text += f"; {way:.0f} % of the way to repacking"
        text += f" (aim {OF_THE_WAY[mix]:.0f} %)" if mix in OF_THE_WAY else ""
    profile, points = worst(of[policy], of[FIRST_FIT])
    return f"{text}; {profile} {points:+.1f} points against first fit (at least {-POINTS:+.0f})"


def worst(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> tuple[str, float]:
    """The profile whose acceptance loses most, and by how many percentage points."""
    points = {
        name: 100
        * float(np.mean([a["by_kind"][name] - b["by_kind"][name] for a, b in zip(ours, theirs, strict=True)]))
        for name in ours[0]["by_kind"]
    }
    least = min(points, key=points.__getitem__)
    return least, points[least]
