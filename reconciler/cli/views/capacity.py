"""The output of `top`: tables and JSON."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from reconciler.analysis.capacity import By, CounterUsage, Line, ProfileUsage
from reconciler.analysis.capacity.families import shown
from reconciler.cli.common.output import add_row, table_for

NONE = "-"


def tables(lines: Sequence[Line], by: By, console: Console) -> Group:
    """The table of lines; by driver also the tables of profiles and counters."""
    found: list[Table | Text] = [_summary(lines, by, console)]
    if by == "driver":
        profiles = [(line, one) for line in lines for one in line.profiles]
        counters = [(line, one) for line in lines for one in line.counters]
        found += [Text(), _profiles(profiles, console)] if profiles else []
        found += [Text(), _counters(counters, console)] if counters else []
    return Group(*found)


def as_json(lines: Iterable[Line], by: By) -> dict[str, Any]:
    """Return all figures."""
    return {"by": by, "items": [_line(line) for line in lines]}


def _summary(lines: Iterable[Line], by: By, console: Console) -> Table:
    names = {"driver": ("DRIVER",), "pool": ("DRIVER", "POOL", "NODE"), "node": ("NODE", "DRIVER")}[by]
    last = ("LARGEST FIT",) if by == "driver" else ("FITS", "STRANDED")
    numbers = ("DEVICES", "HELD", "SHARED", "ALLOCATABLE", "BLOCKED", "TAINTED")
    table = table_for(console, (*names, *numbers, *last), right=numbers)
    for line in lines:
        own = {"DRIVER": line.driver, "POOL": line.pool, "NODE": line.node or NONE}
        counts = (line.devices, line.held, line.shared, line.allocatable, line.blocked, line.tainted)
        more = (line.largest or NONE,) if by == "driver" else (_fitting(line), _stranded(line))
        add_row(table, (*(own[name] for name in names), *map(str, counts), *more))
    return table


def _profiles(found: Iterable[tuple[Line, ProfileUsage]], console: Console) -> Table:
    numbers = ("DEVICES", "HELD", "FITS", "FRAGMENTED")
    table = table_for(console, ("DRIVER", "PROFILE", *numbers), right=numbers)
    for line, one in found:
        part = NONE if one.fragmentation is None else f"{one.fragmentation:.0%}"
        cells = (line.driver, one.profile, str(one.devices), str(one.held), _number(one), part)
        add_row(table, cells)
    return table


def _counters(found: Iterable[tuple[Line, CounterUsage]], console: Console) -> Table:
    numbers = ("TOTAL", "FREE", "STRANDED")
    table = table_for(console, ("DRIVER", "COUNTER", *numbers), right=numbers)
    for line, one in found:
        stranded = f"{shown(one.stranded)}{'' if one.exact else ' or more'}"
        add_row(table, (line.driver, one.counter, shown(one.total), shown(one.left), stranded))
    return table


def _number(one: ProfileUsage) -> str:
    """The number that fits; a range if the search gave up."""
    return str(one.fits) if one.fits == one.at_most else f"{one.fits}-{one.at_most}"


def _fitting(line: Line) -> str:
    return ", ".join(f"{one.profile}: {_number(one)}" for one in line.profiles if one.at_most) or NONE


def _stranded(line: Line) -> str:
    return ", ".join(f"{one.counter}: {shown(one.stranded)}" for one in line.counters if one.stranded) or NONE


def _line(line: Line) -> dict[str, Any]:
    return {
        "driver": line.driver,
        "pool": line.pool or None,
        "node": line.node or None,
        "devices": line.devices,
        "held": line.held,
        "shared": line.shared,
        "allocatable": line.allocatable,
        "blocked": line.blocked,
        "tainted": line.tainted,
        "largestFit": line.largest or None,
        "profiles": [_profile(one) for one in line.profiles],
        "counters": [_counter(one) for one in line.counters],
    }


def _profile(one: ProfileUsage) -> dict[str, Any]:
    return {
        "profile": one.profile,
        "devices": one.devices,
        "held": one.held,
        "fits": one.fits,
        "fitsAtMost": one.at_most,
        "size": one.size,
        "fragmentation": one.fragmentation,
    }


def _counter(one: CounterUsage) -> dict[str, Any]:
    return {
        "counter": one.counter,
        "total": shown(one.total),
        "left": shown(one.left),
        "stranded": shown(one.stranded),
        "strandedExact": one.exact,
    }
