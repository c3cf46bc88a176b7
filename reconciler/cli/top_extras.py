"""`top --demand` and `top --gangs`: the learnt demand, and gangs with what they wait for."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from reconciler.allocation.gangs.kinds import GangGranted
from reconciler.analysis.manifest_world import supply_of
from reconciler.analysis.policy_comparison import shares
from reconciler.api.manifests.bundle import Bundle, Claims
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import ConfigMap, Node
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.validating import validated
from reconciler.cli.cluster import (
    KINDS,
    Connection,
    connected,
    from_cluster,
    list_objects,
    note_held_room,
    split_held_room,
)
from reconciler.cli.exits import NoAnswer
from reconciler.cli.explain_cluster import gang_now
from reconciler.cli.input import read_files
from reconciler.cli.options import FOR_PEOPLE
from reconciler.cli.output import Console, Table, echo_value, print_table, remark
from reconciler.cli.world import intake_of, planners
from reconciler.cluster.kinds import config_map
from reconciler.control.demand import COMPARED, DEMAND, Kept, read_kept
from reconciler.control.gangs.planner import GangLine, GangOverview, GiveBack, UngateAll
from reconciler.control.intake import Intake
from reconciler.control.steps import Blocked
from reconciler.errors import Gone
from reconciler.operations.page.sources import PolicyRow
from reconciler.operations.policy_comparison import read_comparison


def show_demand(
    name: str, files: tuple[str, ...], connection: Connection, console: Console, output: str
) -> None:
    """Print what a ConfigMap holds, once.

    Raises NoAnswer if there is nothing, ReconcilerError and OSError if it cannot be read.
    """
    namespace, slash, last = name.partition("/")
    if files or not slash or not namespace or not last:
        raise click.UsageError(
            "--demand needs NAMESPACE/NAME of a ConfigMap, and a cluster instead of files."
        )
    key = ObjectKey(namespace, last)
    found = from_cluster(_read(key, connection))
    if DEMAND not in found.data:
        raise NoAnswer(f"ConfigMap {key} holds no demand yet: the leader writes it once a minute")
    kept, refused = read_kept(found.data, f"ConfigMap {key}")
    for problem in refused:
        remark(f"warning: {problem}")
    samples, rows = _compared(found)
    if output in FOR_PEOPLE:
        _print(kept, samples, rows, console, wide=output == "wide")
    else:
        echo_value(_as_json(kept, samples, rows), output)


def _compared(found: ConfigMap) -> tuple[int, tuple[PolicyRow, ...]]:
    if COMPARED not in found.data:
        return 0, ()
    try:
        return read_comparison(found.data[COMPARED])
    except ValueError as exc:
        remark(f"warning: ConfigMap {found.key}: {COMPARED}: {exc}")
        return 0, ()


def _print(kept: Kept, samples: int, rows: tuple[PolicyRow, ...], console: Console, *, wide: bool) -> None:
    demand = Table(("DEMAND", "SHARE"), right=("SHARE",))
    for words, share in shares(kept.demand):
        demand.add((words, f"{100 * share:.1f}%"))
    print_table(console, demand, wide=wide)
    if rows:
        counts = ("SAME", "OTHER DEVICES", "OTHER NODE", "PLACES LOST")
        policies = Table(("POLICY", "USED", *counts), right=counts)
        for row in rows:
            used = "yes" if row.used else "-"
            numbers = (row.same, row.other_devices, row.other_node, f"{row.lost:.2f}")
            policies.add((row.name, used, *map(str, numbers)))
        console.print()
        print_table(console, policies, wide=wide)
    console.print(f"{samples} sampled decisions were repeated with each policy")


def _as_json(kept: Kept, samples: int, rows: tuple[PolicyRow, ...]) -> dict[str, Any]:
    return {
        "at": kept.at.isoformat() if kept.at is not None else None,
        "demand": [{"shape": words, "share": round(share, 4)} for words, share in shares(kept.demand)],
        "samples": samples,
        "policies": [
            {
                "policy": row.name,
                "used": row.used,
                "same": row.same,
                "otherDevices": row.other_devices,
                "otherNode": row.other_node,
                "placesLost": row.lost,
            }
            for row in rows
        ],
    }


async def _read(key: ObjectKey, connection: Connection) -> ConfigMap:
    async with connected(connection) as client:
        try:
            return validated(ConfigMap, await client.get(config_map(key), key))
        except Gone as exc:
            raise NoAnswer(f"there is no ConfigMap {key}; name that of demand_config_map") from exc


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
            case GiveBack(why=why):
                yield line, "", f"{GIVEN_BACK}: {why}"
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
