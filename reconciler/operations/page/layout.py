"""The layout of a counter set: slots by position, other counters by amount.

As in the diagrams of KEP-4815, each slot is a column, each profile a row, each device a span of slots.
"""

import re
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Amounts

_NUMBERED = re.compile(r"(.*?)[-_.]?(\d{1,6})", re.DOTALL)
MOST_SLOTS = 64
"""Slots of one group; with more, the spans could not be distinguished"""


class Slots(Struct, frozen=True):
    """Counters that are adjacent slots, each with a total of 1."""

    name: str
    columns: tuple[int, ...]
    """Their positions among the counters, in the order of their numbers"""
    labels: tuple[str, ...]
    """Their numbers"""


class Run(Struct, frozen=True):
    """Adjacent slots from `start` up to, not including, `stop`."""

    start: int
    stop: int


def slots_of(counters: Sequence[str], totals: Sequence[int], draws: Amounts) -> list[Slots]:
    """The groups of slots among the counters of a set.

    totals (C,)   in the unit of each counter
    draws  (n, C) consumption of the devices

    A group is two or more counters with a total of 1 whose names differ in a number at the end, and that
    devices consume completely or not at all.
    """
    groups: dict[str, list[tuple[int, int]]] = {}
    published = np.array(totals, dtype=np.int64)
    whole = ((draws == 0) | (draws == published)).all(axis=0)
    for column, name in enumerate(counters):
        found = _NUMBERED.fullmatch(name)
        if found is None or totals[column] != 1 or not whole[column]:
            continue
        groups.setdefault(found[1], []).append((int(found[2]), column))
    made = []
    for name, members in sorted(groups.items()):
        members.sort()
        if 2 <= len(members) <= MOST_SLOTS:
            columns = tuple(column for _, column in members)
            made.append(Slots(name or "slot", columns, tuple(str(number) for number, _ in members)))
    return made


def runs(drawn: Sequence[bool]) -> tuple[Run, ...]:
    """The runs of adjacent consumed slots."""
    found, start = [], None
    for at, one in enumerate((*drawn, False)):
        if one and start is None:
            start = at
        elif not one and start is not None:
            found.append(Run(start, at))
            start = None
    return tuple(found)


def lanes(profiles: Sequence[object], spans: Sequence[tuple[Run, ...]]) -> list[list[int]]:
    """Rows of devices. Devices of one profile share a row if they do not overlap.

    profiles (n,) key of devices that differ only in position
    spans    (n,) the slots of each device; devices without slots are ignored

    Widest first, then by position.
    """
    order = sorted(
        (at for at in range(len(spans)) if spans[at]),
        key=lambda at: (-_width(spans[at]), str(profiles[at]), spans[at][0].start, at),
    )
    made: list[tuple[object, list[int]]] = []
    for at in order:
        for profile, row in made:
            if profile == profiles[at] and not any(_overlap(spans[at], spans[other]) for other in row):
                row.append(at)
                break
        else:
            made.append((profiles[at], [at]))
    return [row for _, row in made]


def _width(spans: tuple[Run, ...]) -> int:
    return sum(run.stop - run.start for run in spans)


def _overlap(one: tuple[Run, ...], other: tuple[Run, ...]) -> bool:
    return any(a.start < b.stop and b.start < a.stop for a in one for b in other)
