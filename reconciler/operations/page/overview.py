"""The fleet in numbers: devices by driver, use of each chart."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kernels.types import Codes
from reconciler.operations.metrics.capacity import STATES, Holdings
from reconciler.operations.metrics.catalogue import OTHER
from reconciler.operations.page.names import shown
from reconciler.operations.page.query import Query

BAR = 200.0
LEVELS = ("unused", "up to 1/3", "up to 2/3", "more than 2/3", "full")
MOST_SQUARES = 2000
"""Squares of the overview; with more charts, each square is the mean of several"""
SQUARE = 12


class DriverRow(Struct, frozen=True):
    """A driver in the table."""

    name: str
    url: str
    counts: tuple[int, ...]
    """By state, in the order of STATES"""
    total: int
    bar: tuple[tuple[str, float, float], ...]
    """State, start and length"""


class UseMap(Struct, frozen=True):
    """All charts as squares, coloured by use."""

    summary: str
    width: int
    height: int
    levels: tuple[str, ...]
    """A path for each level"""
    names: tuple[tuple[str, int], ...]
    """Level and number of charts"""


def driver_rows(holdings: Holdings, query: Query) -> list[DriverRow]:
    """A row for each driver."""
    made = []
    for driver, states in holdings.devices.items():
        counts = tuple(states.get(state, 0) for state in STATES)
        url = "" if driver == OTHER else query.narrowed(driver=driver)
        made.append(DriverRow(shown(driver), url, counts, sum(counts), bar(counts)))
    return made


def bar(counts: Sequence[int], states: Sequence[str] = STATES) -> tuple[tuple[str, float, float], ...]:
    """State, start and length of each piece of a bar; `counts` in the order of `states`."""
    total, at, made = sum(counts), 0.0, []
    for state, count in zip(states, counts, strict=True):
        if count:
            made.append((state, at, BAR * count / total))
            at += BAR * count / total
    return tuple(made)


def use_map(used: NDArray[np.float64]) -> UseMap | None:
    """`used` is (charts,), 0 to 1. None without charts."""
    if not len(used):
        return None
    each = -(-len(used) // MOST_SQUARES)
    starts = np.arange(0, len(used), each)
    means = np.add.reduceat(used, starts) / np.diff(np.append(starts, len(used)))
    columns = min(len(means), max(28, round((len(means) * 12) ** 0.5)))
    squares: list[list[str]] = [[] for _ in LEVELS]
    for at, one in enumerate(_levels(means).tolist()):
        row, column = divmod(at, columns)
        squares[one].append(f"M{column * SQUARE + 1} {row * SQUARE + 1}h10v10h-10z")
    what = "counter set or group of devices" if each == 1 else f"{each} counter sets or groups of devices"
    counts = np.bincount(_levels(used), minlength=len(LEVELS)).tolist()
    summary = f"Each square {'is one' if each == 1 else 'stands for'} {what}"
    summary += f": {counts[4]} of {len(used)} {'is' if counts[4] == 1 else 'are'} full, {counts[0]} unused."
    paths = tuple(["".join(of_level) for of_level in squares])
    height = -(-len(means) // columns) * SQUARE
    return UseMap(summary, columns * SQUARE, height, paths, tuple(zip(LEVELS, counts, strict=True)))


def _levels(used: NDArray[np.float64]) -> Codes:
    """(n,) position in LEVELS of parts from 0 to 1."""
    return np.where(used <= 0, 0, np.where(used >= 1, 4, 1 + np.floor(used * 3))).astype(np.int32)
