"""The table of `top --gangs`: what each gang is, where it is, and why it is pending."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.allocation.gangs.kinds import GangGranted
from reconciler.analysis.manifest_world import supply_of
from reconciler.api.manifests.bundle import Bundle, Claims
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Node
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.cluster import (
    KINDS,
    Connection,
    from_cluster,
    list_objects,
    note_held_room,
    split_held_room,
)
from reconciler.cli.explain_cluster import gang_now
from reconciler.cli.input import read_files
from reconciler.cli.options import FOR_PEOPLE
from reconciler.cli.output import Console, Table, echo_value, print_table
from reconciler.cli.world import intake_of, planners
from reconciler.control.gangs.planner import GangLine, GangOverview, UngateAll
from reconciler.control.intake import Intake
from reconciler.control.steps import Blocked

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
    rows = from_cluster(_gang_rows(bundle, connection, rules))
    if output not in FOR_PEOPLE:
        echo_value({"gangs": [_gang_as_json(*row) for row in rows]}, output)
    elif rows:
        print_table(console, _gangs_table(rows), wide=output == "wide")
    else:
        console.print(NO_GANGS)


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
