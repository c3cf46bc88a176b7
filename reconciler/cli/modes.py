"""`dra-reconciler modes`: what is allocated on each physical device, and what that locks out."""

import asyncio
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TextIO

import click

from reconciler.api.manifests.bundle import with_own_uid
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.plugins import PLUGINS
from reconciler.cli.cluster import list_objects
from reconciler.cli.connection import Connection
from reconciler.cli.exits import Unreachable, errors_as
from reconciler.cli.input import read_files, read_valid
from reconciler.cli.options import cluster_options, manifest_options, output_option, strict_option
from reconciler.cli.output import Console, Table, echo_value, print_line, print_table, remark
from reconciler.cli.rule_options import rules_options
from reconciler.errors import Rejected, counted, shortened
from reconciler.plugins.plugin import Shown
from reconciler.state.devices.exclusion_modes import Held, Mode, group_modes, problems, sharing_modes
from reconciler.state.devices.exclusion_modes import modes as modes_of
from reconciler.state.devices.readiness import offered
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.trial import store_of

_AS = {"pairwise": "pairwise", "kep-5963": "as in KEP-5963"}
OWN = ("ResourceSlice", "ResourceClaim")
KINDS = (*OWN, "Device")
_WIDE = ("NODE", "COMPATIBLE ONLY WITH")
"""Columns of -o wide"""


@click.command()
@manifest_options
@strict_option
@cluster_options
@output_option(
    "table", "wide", "json", "yaml", explained="wide adds columns, and names all devices that are locked out."
)
@rules_options
def modes(files: tuple[str, ...], connection: Connection, output: str, rules: Semantics) -> None:
    """Show physical devices with parts that exclude each other: allocated parts and parts locked out.

    A physical device is a counter set. Devices that exclude each other without a common counter set have
    lines of their own. Allocations are read from the ResourceClaims. Also shows how the compatibility groups
    of each driver are compared, and why, which of Koordinator's devices pods hold for exclusive use, and to
    which mode holders lock shared devices (a preview: DRASharingAffinity).

    \b
    Examples:
      dra-reconciler modes
      dra-reconciler modes -f manifests/ -o wide
    """
    if files:
        bundle = read_files(files)
        objects: Iterable[ApiObject] = (
            *bundle.of(ResourceSlice),
            *map(with_own_uid, bundle.of(ResourceClaim)),
        )
        machines: Collection[ApiObject] = [*bundle.objects()]
    else:
        with errors_as(Unreachable):
            objects, machines = _listed(connection)
    snapshot = store_of(objects, rules).snapshot()
    alone = [one for plugin in PLUGINS if (one := plugin.modes(machines)) is not None]
    if output in ("json", "yaml"):
        echo_value(
            {**_json(snapshot), "exclusiveUse": [value for one in alone for value in one.values]}, output
        )
    else:
        _print(snapshot, alone, sys.stdout, wide=output == "wide")


def _listed(connection: Connection) -> tuple[Iterable[ApiObject], Collection[ApiObject]]:
    """Slices and claims; objects of plugins, where they are served, with the pods that may hold devices."""
    raws = asyncio.run(list_objects(KINDS, connection, leniently=True))
    objects = read_valid(one for one in raws if one["kind"] in OWN)
    others = list(read_valid(one for one in raws if one["kind"] not in OWN))
    if not others:
        return objects, ()
    try:
        pods = read_valid(asyncio.run(list_objects((Pod.__name__,), connection._replace(quiet=True))))
    except Rejected as exc:
        remark(f"note: exclusive use of {type(others[0]).__name__}s is not considered: {exc}")
        return objects, ()
    return objects, (*others, *pods)


def _json(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "modes": [_mode(mode) for mode in modes_of(snapshot)],
        "groupModes": [
            {"driver": one.driver, "mode": one.mode, "because": one.because} for one in group_modes(snapshot)
        ],
        "sharingModes": [
            {
                "device": str(lock.device),
                "mode": lock.mode or None,
                "claims": [str(claim) for claim in lock.claims],
            }
            for lock in sharing_modes(snapshot)
        ],
        "problems": list(problems(snapshot)),
    }


def _mode(mode: Mode) -> dict[str, Any]:
    return {
        "driver": mode.pool.driver,
        "pool": mode.pool.pool,
        "counterSet": mode.scope or None,
        "node": mode.node or None,
        "held": [
            {
                "device": held.device.device,
                "groups": list(held.groups),
                "compatibleOnlyWith": held.expression or None,
                "claims": [str(claim) for claim in held.claims],
            }
            for held in mode.held
        ],
        "lockedOut": list(mode.locked_out),
        "conflicts": list(mode.conflicts),
    }


def _print(snapshot: Snapshot, alone: Sequence[Shown], out: TextIO, *, wide: bool) -> None:
    console = Console(out)
    found = modes_of(snapshot)
    table = Table(("POOL", "COUNTER SET", "HELD", "GROUPS", "CLAIM", "LOCKED OUT", *_WIDE * wide), names=2)
    for mode in found:
        only = "\n".join(held.expression or "-" for held in mode.held) or "-"
        more = (mode.node or "-", only) if wide else ()
        locked_out = (", ".join(mode.locked_out) if wide else shortened(mode.locked_out, 8)) or "-"
        table.add((str(mode.pool), mode.scope or "-", *_columns(mode.held), locked_out, *more))
    if found:
        print_table(console, table, wide=wide)
    locks = sharing_modes(snapshot)
    if locks:
        table = Table(("SHARED DEVICE", "MODE (PREVIEW)", "CLAIMS"), names=1)
        for lock in locks:
            table.add((str(lock.device), lock.mode or "unknown", ", ".join(map(str, lock.claims))))
        print_table(console, table, wide=wide)
    for shown in alone:
        if shown.rows:
            table = Table(shown.columns, names=2)
            for row in shown.rows:
                table.add(row)
            print_table(console, table, wide=wide)
    if not found and not locks and not any(shown.rows for shown in alone):
        print_line(console, f"no devices exclude each other by groups or expressions{_blocked(snapshot)}")
    for mode in found:
        for conflict in mode.conflicts:
            print_line(
                console, f"conflict in {' '.join(filter(None, (str(mode.pool), mode.scope)))}: {conflict}"
            )
    for one in group_modes(snapshot):
        print_line(console, f"groups of {one.driver} are compared {_AS[one.mode]}: {one.because}")
    for problem in problems(snapshot):
        print_line(console, f"problem: {problem}")


def _blocked(snapshot: Snapshot) -> str:
    """Devices that cannot be had since others consume their counters: `top` counts them."""
    occupancy = snapshot.occupancy
    blocked = int((offered(snapshot.topology) & ~(occupancy.free | occupancy.held | occupancy.sharing)).sum())
    return f"; {counted(blocked, 'device')} blocked by counters, see top" if blocked else ""


def _columns(held: Iterable[Held]) -> tuple[str, str, str]:
    """Devices, groups and claims, one line per device."""
    lines = [
        (one.device.device, ", ".join(one.groups) or one.expression or "-", ", ".join(map(str, one.claims)))
        for one in held
    ]
    if not lines:
        return "-", "-", "-"
    devices, groups, claims = zip(*lines, strict=True)
    return "\n".join(devices), "\n".join(groups), "\n".join(claims)
