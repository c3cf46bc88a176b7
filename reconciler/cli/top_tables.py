"""The tables of `top`: usage of devices, and gangs."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.allocation.gangs.kinds import GangGranted
from reconciler.analysis.capacity.layout import shown
from reconciler.analysis.capacity.lines import By, CounterUsage, Line, ProfileUsage
from reconciler.api.manifests.bundle import Bundle, Claims
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Node
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.cluster import KINDS, Connection, list_objects, note_held_room, split_held_room
from reconciler.cli.explain_cluster import gang_now
from reconciler.cli.input import read_files, supply_of
from reconciler.cli.options import FOR_PEOPLE
from reconciler.cli.output import Console, Table, echo_value, print_table
from reconciler.cli.top_view import exit_if_invalid
from reconciler.cli.world import intake_of, planners
from reconciler.control.gangs.planner import GangLine, GangOverview, UngateAll
from reconciler.control.intake import Intake
from reconciler.control.planner import Blocked

NONE = "-"
_WIDE: dict[By, list[str]] = {
    "driver": ["FITS", "STRANDED"],
    "pool": ["STRANDED", "NODE"],
    "node": ["STRANDED"],
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


GangRow = tuple[GangLine, str, str]
"""A gang, the reason why it is pending, and a message"""
NO_GANGS = "there are no gangs"
FITS, UNGATED = "can be placed now", "its gates are being removed"
GIVEN_BACK = "is partly written and will be given back"


def show_gangs(
    connection: Connection, files: tuple[str, ...], rules: Semantics, output: str, console: Console
) -> None:
    """Print the gangs once. Raises ReconcilerError or OSError."""
    bundle = read_files(files) if files else None
    rows = asyncio.run(_gang_rows(bundle, connection, rules))
    if output not in FOR_PEOPLE:
        echo_value({"gangs": [_gang_as_json(*row) for row in rows]}, output)
    elif rows:
        print_table(console, _gangs_table(rows), wide=output == "wide")
    else:
        console.print(NO_GANGS)
    exit_if_invalid(bundle)


async def _gang_rows(bundle: Bundle | None, connection: Connection, rules: Semantics) -> list[GangRow]:
    if bundle is None:
        raws, held = split_held_room(await list_objects(KINDS, connection, volumes=True))
        note_held_room(held)
        intake = intake_of(raws, rules)
        for one in held:
            intake.nominating.restore(one, "the leader holds it")
    else:
        intake = intake_of((), rules)
        claims = Claims(bundle)
        supply = [*bundle.of(Node), *supply_of(bundle)]
        for thing in (*supply, *map(claims.typed, claims.entries), *claims.pods):
            intake.take(Changed(type(thing).__name__, thing))
    return list(_gangs(intake))


def _gangs(intake: Intake) -> Iterable[GangRow]:
    """The waiting gangs first."""
    overview, (_, planner) = GangOverview(intake), planners(intake)
    waiting, others = overview.keys()
    for gang in (*waiting, *others):
        line = overview.line(gang)
        if line is None:
            continue
        match gang_now(gang, planner, intake) if line.waits else None:
            case Blocked(reason=reason, message=message):
                yield line, reason, message
            case GangGranted():
                yield line, "", FITS
            case UngateAll():
                yield line, "", UNGATED
            case _:
                yield line, "", ""


def _gangs_table(rows: Iterable[GangRow]) -> Table:
    headings = ("GANG", "SOURCE", "SIZE", "BOUND", "RELEASED", "GATED", "DOMAIN", "PENDING")
    table = Table(headings, right=("SIZE", "BOUND", "RELEASED", "GATED"))
    for line, reason, message in rows:
        table.add(
            (
                str(line.gang),
                str(line.gang.source),
                "?" if line.least is None else str(line.least),
                str(line.bound),
                str(line.released),
                str(line.gated),
                ", ".join(f"{key}={value}" for key, value in line.domain) or "-",
                ": ".join(filter(None, (reason, message))) or "-",
            )
        )
    return table


def _gang_as_json(line: GangLine, reason: str, message: str) -> Mapping[str, Any]:
    return {
        "namespace": line.gang.namespace,
        "name": line.gang.name,
        "source": str(line.gang.source),
        "size": line.least,
        "bound": line.bound,
        "released": line.released,
        "gated": line.gated,
        "nodes": line.nodes,
        "domain": dict(line.domain),
        "reason": reason,
        "message": message,
    }
