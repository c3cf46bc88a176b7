"""`dra-reconciler top --gangs`: the gangs of a cluster or of manifests, with what each waits for."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.allocation.gangs.question import GangGranted
from reconciler.api.manifests.bundle import Bundle, storage_of
from reconciler.api.manifests.claims import Claims
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Namespace, Node
from reconciler.api.objects.gangs import CoschedulingPodGroup, PodGroup
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.objects.taint_rules import DeviceTaintRule
from reconciler.cli.common.cluster_intake import KINDS, intake_of, planners
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.console import Console
from reconciler.cli.common.fleet_source import read_files
from reconciler.cli.common.held_room import note, split
from reconciler.cli.common.options import FOR_PEOPLE
from reconciler.cli.common.output import echo_value, print_table
from reconciler.cli.common.table import Table
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.explain_cluster import gang_now
from reconciler.cli.top_view import exit_if_invalid
from reconciler.control.gangs.planner import GangLine, GangOverview, UngateAll
from reconciler.control.intake import Intake
from reconciler.control.planner import Blocked

Row = tuple[GangLine, str, str]
"""A gang, the reason why it is pending, and a message"""
NO_GANGS = "there are no gangs"
FITS, UNGATED = "can be placed now", "its gates are being removed"
GIVEN_BACK = "is partly written and will be given back"


def show_gangs(
    connection: Connection, files: tuple[str, ...], rules: Semantics, output: str, console: Console
) -> None:
    """Print the gangs once. Raises ReconcilerError or OSError."""
    bundle = read_files(files) if files else None
    rows = wait_for(_rows(bundle, connection, rules))
    if output not in FOR_PEOPLE:
        echo_value({"gangs": [_as_json(*row) for row in rows]}, output)
    elif rows:
        print_table(console, _table(rows), wide=output == "wide")
    else:
        console.print(NO_GANGS)
    exit_if_invalid(bundle)


async def _rows(bundle: Bundle | None, connection: Connection, rules: Semantics) -> list[Row]:
    if bundle is None:
        raws, held = split(await list_objects(KINDS, connection, volumes=True))
        note(held)
        intake = intake_of(raws, rules)
        for one in held:
            intake.nominating.restore(one, "the leader holds it")
    else:
        intake = intake_of((), rules)
        for thing in _objects(bundle):
            intake.take(Changed(type(thing).__name__, thing))
    return list(_gangs(intake))


def _objects(bundle: Bundle) -> Iterable[Any]:
    """The objects of manifests in the order in which the reconciler lists them."""
    claims = Claims(bundle)
    yield from (*bundle.of(PodGroup), *bundle.of(CoschedulingPodGroup), *bundle.of(Namespace))
    yield from (*storage_of(bundle), *bundle.of(Node), *bundle.of(DeviceClass))
    yield from (*bundle.of(DeviceTaintRule), *bundle.of(ResourceSlice))
    yield from map(claims.typed, claims.entries)
    yield from claims.pods


def _gangs(intake: Intake) -> Iterable[Row]:
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


def _table(rows: Iterable[Row]) -> Table:
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


def _as_json(line: GangLine, reason: str, message: str) -> Mapping[str, Any]:
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
