"""Rows of a sweep summed up: means over seeds, and differences between policies seed by seed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from perf.sweep.results import Result, Task

T95 = {
    1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 8: 2.31, 10: 2.23,
    15: 2.13, 20: 2.09, 30: 2.04, 60: 2.00,
}  # fmt: skip
"""Degrees of freedom -> standard errors on each side that hold 95 % of Student's distribution"""
Z95 = 1.96
"""The same for many degrees of freedom"""


class Mean(NamedTuple):
    """A mean and the half width of its 95 % interval; zero width for a single run."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.half_width:.2g}" if self.half_width else f"{self.mean:.4g}"


class Line(NamedTuple):
    """All runs of one policy in one group."""

    play: str
    group: str
    """The fields in which groups of this play differ, in words"""
    policy: str
    runs: int
    figures: Mapping[str, Mean]
    gains: Mapping[str, Mean]
    """Difference to the first policy of the group, run by run with the same seed or file"""

    def to_json(self) -> dict[str, Any]:
        """As it is written to `summary.json`."""
        figures, gains = (
            {name: one._asdict() for name, one in means.items()} for means in (self.figures, self.gains)
        )
        return {**self._asdict(), "figures": figures, "gains": gains}


Played = tuple[Task, Result]


def lines(played: Sequence[Played]) -> list[Line]:
    """A line for each policy of each group, in the order of the sweep."""
    groups: dict[tuple[str, str], list[Played]] = {}
    differing = _differing(task for task, _ in played)
    for task, result in played:
        groups.setdefault((task.scenario.model_dump()["play"], _group(task, differing)), []).append(
            (task, result)
        )
    return [line for (play, group), of in groups.items() for line in _of_group(play, group, of)]


def table(found: Sequence[Line], play: str) -> Table:
    """The lines of one play for a terminal."""
    of = [line for line in found if line.play == play]
    names = list(dict.fromkeys(name for line in of for name in line.figures))
    table = Table(play, "policy", "runs", *(n.replace("_", " ") for n in names), box=None, pad_edge=False)
    first = next(iter(names), "")
    table.add_column(f"gain in {first.replace('_', ' ')}")
    for line in of:
        figures = (str(line.figures.get(name, "")) for name in names)
        table.add_row(line.group, line.policy, str(line.runs), *figures, str(line.gains.get(first, "")))
    return table


def _of_group(play: str, group: str, played: Sequence[Played]) -> Iterator[Line]:
    by_policy: dict[str, dict[tuple[object, ...], Mapping[str, Any]]] = {}
    for task, result in played:
        repetition = tuple(getattr(task.scenario, name) for name in task.scenario.APART if name != "policy")
        by_policy.setdefault(task.scenario.policy, {})[repetition] = result.row
    base = next(iter(by_policy.values()))
    for policy, rows in by_policy.items():
        shown = played[0][0].scenario.SHOWN
        figures = {name: _mean([row.get(name) for row in rows.values()]) for name in shown}
        gains = {
            name: _mean([_minus(row.get(name), base[at].get(name)) for at, row in rows.items() if at in base])
            for name in (shown if rows is not base else ())
        }
        yield Line(play, group, policy, len(rows), _known(figures), _known(gains))


def _mean(values: Iterable[float | None]) -> Mean | None:
    found = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(found):
        return None
    if len(found) == 1:
        return Mean(float(found[0]), 0.0)
    error = float(found.std(ddof=1)) / len(found) ** 0.5
    return Mean(float(found.mean()), _errors(len(found) - 1) * error)


def _errors(freedom: int) -> float:
    """Of `T95`, linear in the inverse of the degrees of freedom between its entries."""
    inverse = [0.0, *(1 / one for one in reversed(T95))]
    return float(np.interp(1 / freedom, inverse, [Z95, *reversed(T95.values())]))


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _known(means: Mapping[str, Mean | None]) -> dict[str, Mean]:
    return {name: mean for name, mean in means.items() if mean is not None}


def _differing(tasks: Iterable[Task]) -> Mapping[str, Sequence[str]]:
    """Play -> the fields, without repetitions and policies, that have more than one value."""
    values: dict[str, dict[str, set[object]]] = {}
    for task in tasks:
        fields = task.scenario.model_dump(exclude=set(task.scenario.APART))
        seen = values.setdefault(fields.pop("play"), {})
        for name, value in fields.items():
            seen.setdefault(name, set()).add(value)
    return {play: [name for name, several in of.items() if len(several) > 1] for play, of in values.items()}


def _group(task: Task, differing: Mapping[str, Sequence[str]]) -> str:
    fields = task.scenario.model_dump()
    return ", ".join(f"{name} {fields[name]}" for name in differing[fields["play"]])
