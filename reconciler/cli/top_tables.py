"""The tables of `top`: the usage of devices."""

from collections.abc import Iterable, Sequence
from typing import Any

from reconciler.analysis.capacity.layout import shown
from reconciler.analysis.capacity.lines import By, CounterUsage, Line, ProfileUsage
from reconciler.cli.output import Table

NONE = "-"
_WIDE: dict[By, list[str]] = {
    "driver": ["USE", "FULL", "FITS", "STRANDED"],
    "pool": ["USE", "FULL", "STRANDED", "NODE"],
    "node": ["USE", "FULL", "STRANDED"],
}
"""Columns of -o wide"""


def usage_tables(lines: Sequence[Line], by: By, *, wide: bool) -> list[Table]:
    """The table of lines; by driver also the tables of profiles and counters."""
    found = [_summary(lines, by, wide=wide)]
    if by == "driver":
        profiles = [(line, one) for line in lines for one in line.profiles]
        counters = [(line, one) for line in lines for one in line.counters]
        found += [_profiles(profiles)] if profiles else []
        found += [_counters(counters)] if counters else []
    return found


def usage_as_json(lines: Iterable[Line], by: By) -> dict[str, Any]:
    """Return all figures."""
    return {"by": by, "items": [_usage_line(line) for line in lines]}


def _summary(lines: Iterable[Line], by: By, *, wide: bool) -> Table:
    names = {"driver": ("DRIVER",), "pool": ("DRIVER", "POOL"), "node": ("NODE", "DRIVER")}[by]
    last = {"driver": ["LARGEST FIT"], "pool": ["FITS"], "node": ["FITS"]}[by]
    last += _WIDE[by] if wide else []
    numbers = ("DEVICES", "HELD", "SHARED", "FREE", "BLOCKED", "TAINTED")
    table = Table((*names, *numbers, *last), right=numbers, names=len(names))
    for line in lines:
        own = {"DRIVER": line.driver, "POOL": line.pool, "NODE": line.node or NONE}
        own |= {"LARGEST FIT": line.largest or NONE, "FITS": _fitting(line), "STRANDED": _stranded(line)}
        own |= {"USE": f"{line.use:.0%}", "FULL": f"{line.full} of {line.physical}"}
        counts = (line.devices, line.held, line.shared, line.allocatable, line.blocked, line.tainted)
        table.add((*(own[name] for name in names), *map(str, counts), *(own[name] for name in last)))
    return table


def _profiles(found: Iterable[tuple[Line, ProfileUsage]]) -> Table:
    numbers = ("DEVICES", "HELD", "FITS", "FRAGMENTED")
    table = Table(("DRIVER", "PROFILE", *numbers), right=numbers, names=2)
    for line, one in found:
        part = NONE if one.fragmentation is None else f"{one.fragmentation:.0%}"
        table.add((line.driver, one.profile, str(one.devices), str(one.held), _number(one), part))
    return table


def _counters(found: Iterable[tuple[Line, CounterUsage]]) -> Table:
    numbers = ("TOTAL", "FREE", "STRANDED")
    table = Table(("DRIVER", "COUNTER", *numbers), right=numbers, names=2)
    for line, one in found:
        stranded = f"{shown(one.stranded)}{'' if one.exact else ' or more'}"
        table.add((line.driver, one.counter, shown(one.total), shown(one.left), stranded))
    return table


def _number(one: ProfileUsage) -> str:
    """The number that fits; a range if the search gave up."""
    return str(one.fits) if one.fits == one.at_most else f"{one.fits}-{one.at_most}"


def _fitting(line: Line) -> str:
    return ", ".join(f"{one.profile}: {_number(one)}" for one in line.profiles if one.at_most) or NONE


def _stranded(line: Line) -> str:
    return ", ".join(f"{one.counter}: {shown(one.stranded)}" for one in line.counters if one.stranded) or NONE


def _usage_line(line: Line) -> dict[str, Any]:
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
        "physicalDevices": line.physical,
        "fullDevices": line.full,
        "use": round(line.use, 4),
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
