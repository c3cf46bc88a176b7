"""The fleet in numbers: devices by driver, use of each chart, nodes by use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.metrics.capacity import STATES, Holdings
from reconciler.operations.metrics.catalogue import OTHER
from reconciler.operations.page.charts import Charts
from reconciler.operations.page.names import shown
from reconciler.operations.page.query import Query
from reconciler.operations.page.sources import PendingUnit

BAR = 200.0
LEVELS = ("unused", "up to 1/3", "up to 2/3", "more than 2/3", "full")
MOST_SQUARES = 2000
"""Squares of the overview; with more charts, each square is the mean of several"""
SQUARE = 12
MOST_ROWS = 50
MAX_PENDING = 100
MOST_NAMED = 8
"""Claims named in a row"""


@dataclass(frozen=True, slots=True)
class DriverRow:
    """A driver in the table."""

    name: str
    url: str
    counts: tuple[int, ...]
    """By state, in the order of STATES"""
    total: int
    bar: tuple[tuple[str, float, float], ...]
    """State, start and length"""


@dataclass(frozen=True, slots=True)
class UseMap:
    """All charts as squares, coloured by use."""

    summary: str
    width: int
    height: int
    levels: tuple[str, ...]
    """A path for each level"""
    names: tuple[tuple[str, int], ...]
    """Level and number of squares"""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in the table."""

    name: str
    url: str
    used: int
    """Percent"""
    charts: int


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A pending claim or pod in the table."""

    claims: tuple[str, ...]
    pod: str
    named: str
    reason: str
    message: str
    remedy: str
    url: str


def driver_rows(holdings: Holdings, query: Query) -> list[DriverRow]:
    """A row for each driver."""
    made = []
    for driver, states in holdings.devices.items():
        counts = tuple(states.get(state, 0) for state in STATES)
        url = "" if driver == OTHER else query.url(driver=driver, page=1)
        made.append(DriverRow(shown(driver), url, counts, sum(counts), bar(counts)))
    return made


def bar(counts: Sequence[int]) -> tuple[tuple[str, float, float], ...]:
    """State, start and length of each piece of a bar; `counts` in the order of STATES."""
    total, at, made = sum(counts), 0.0, []
    for state, count in zip(STATES, counts, strict=True):
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
    level = np.where(means <= 0, 0, np.where(means >= 1, 4, 1 + np.floor(means * 3).astype(np.intp)))
    columns = min(len(means), max(28, round((len(means) * 12) ** 0.5)))
    squares: list[list[str]] = [[] for _ in LEVELS]
    for at, one in enumerate(level.tolist()):
        row, column = divmod(at, columns)
        squares[one].append(f"M{column * SQUARE + 1} {row * SQUARE + 1}h10v10h-10z")
    what = "counter set or group of devices" if each == 1 else f"{each} counter sets or groups of devices"
    counts = np.bincount(level, minlength=len(LEVELS)).tolist()
    summary = f"Each square is one {what}: {counts[4]} of {len(means)} are full, {counts[0]} are unused."
    if each > 1:
        summary = summary.replace("is one", "stands for")
    paths = tuple(["".join(of_level) for of_level in squares])
    height = -(-len(means) // columns) * SQUARE
    return UseMap(summary, columns * SQUARE, height, paths, tuple(zip(LEVELS, counts, strict=True)))


def node_rows(charts: Charts, used: NDArray[np.float64], query: Query) -> tuple[list[NodeRow], int]:
    """The nodes with highest use, of those with local pools, and the number of all such nodes."""
    names = charts.nodes
    if not names:
        return [], 0
    here = charts.node_of >= 0
    count = np.bincount(charts.node_of[here], minlength=len(names))
    total = np.bincount(charts.node_of[here], weights=used[here], minlength=len(names))
    mean = total / np.maximum(count, 1)
    order = np.lexsort((np.arange(len(names)), -mean))[:MOST_ROWS]
    rows = [
        NodeRow(shown(names[at]), query.url(node=names[at], page=1), int(mean[at] * 100), int(count[at]))
        for at in order.tolist()
    ]
    return rows, len(names)


def pending_row(one: PendingUnit) -> PendingRow:
    """The row of a pending claim or pod."""
    claims = tuple([shown(str(key)) for key in one.claims[:MOST_NAMED]])
    if len(one.claims) > MOST_NAMED:
        claims = (*claims, f"and {len(one.claims) - MOST_NAMED} more")
    named = shown(str(one.key))
    return PendingRow(
        claims=claims or (f"{one.kind} {named}" if one.kind == "pod" else named,),
        pod=named if one.kind == "pod" and claims else "",
        named=f"{one.kind} {named}",
        reason=shown(one.reason),
        message=shown(one.message, 400),
        remedy=one.remedy,
        url=question_url(one.kind, one.key),
    )


def question_url(kind: str, key: ObjectKey) -> str:
    """The address of the explanation of a pending claim or pod."""
    pairs = {"kind": kind, "namespace": key.namespace, "name": key.name}
    encoded = {name: value.encode(errors="replace") for name, value in pairs.items()}
    return f"/explanation?{urlencode(encoded)}"


def pending_summary(rows: Sequence[PendingRow], by_reason: Mapping[str, int], *, more: bool) -> str:
    """The sentence above the table."""
    total = sum(by_reason.values())
    if not total:
        return "No claim is pending."
    reasons = ", ".join(f"{count} {shown(reason)}" for reason, count in sorted(by_reason.items()) if count)
    return f"{total} pending: {reasons}." + (f" The table has the first {len(rows)}." if more else "")
