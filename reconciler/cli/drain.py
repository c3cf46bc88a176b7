"""`dra-reconciler drain`: whether everything that uses nodes or devices can go elsewhere. Writes nothing."""

import sys

import click

from reconciler.analysis.relocation.drain import (
    Drained,
    drain,
    of_driver_version,
    of_pool,
    of_taint,
    without_devices,
    without_nodes,
)
from reconciler.analysis.relocation.report import drain_as_json
from reconciler.analysis.relocation.world import World
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.common.cluster_listing import list_objects
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.exits import Exit, NoAnswer, errors_as
from reconciler.cli.common.fleet_source import read_files
from reconciler.cli.common.output import echo_value
from reconciler.cli.common.progress import track_progress
from reconciler.cli.common.room_source import KINDS, of_cluster, of_manifests
from reconciler.cli.common.waiting import wait_for
from reconciler.cli.views.making_room import print_drain


def command(
    nodes: tuple[str, ...],
    pool: str | None,
    driver_version: str | None,
    taint: str | None,
    files: tuple[str, ...],
    connection: Connection,
    output: str,
    rules: Semantics,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/drain.py`."""
    if files and connection.named:
        raise click.UsageError("Name manifests with -f, or a cluster, not both.")
    if sum(map(bool, (nodes, pool, driver_version, taint))) != 1:
        raise click.UsageError("Name nodes, or one of --pool, --driver-version and --taint.")
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        if files:
            world = of_manifests(read_files(files, progress), rules)
        else:
            progress.stage("reading the cluster")
            raws = wait_for(list_objects(KINDS, connection, volumes=True, budgets=True))
            world = of_cluster(raws, rules)
        progress.stage("placing")
        answer = drain(world, _remove(world, frozenset(nodes), pool, driver_version, taint))
    if output == "table":
        print_drain(answer, sys.stdout)
    else:
        echo_value(drain_as_json(answer), output)
    sys.exit(Exit.OK if answer.empties else Exit.FAILED)


def _remove(
    world: World, nodes: frozenset[str], pool: str | None, driver_version: str | None, taint: str | None
) -> Drained:
    """Remove what is drained. Raises NoAnswer if nothing is."""
    if nodes:
        return without_nodes(nodes, world)
    if pool is not None:
        found, what = without_devices(of_pool(pool), world), f"in pool {pool}"
    elif driver_version is not None:
        found = without_devices(of_driver_version(driver_version), world)
        what = f"with driverVersion {driver_version}"
    else:
        assert taint is not None
        found, what = without_devices(of_taint(taint, world), world), f"with taint {taint}"
    if not found.devices:
        raise NoAnswer(f"there is no device {what}")
    return found
