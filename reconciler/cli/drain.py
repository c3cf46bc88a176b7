"""`dra-reconciler drain`: whether everything that uses nodes or devices can go elsewhere. Writes nothing."""

from functools import partial
from typing import TextIO

import click

from reconciler.analysis.relocation import drain as draining
from reconciler.analysis.world import World
from reconciler.api.objects.semantics import Semantics
from reconciler.cli.connection import Connection
from reconciler.cli.exits import NoAnswer, errors_as, exit_unless
from reconciler.cli.make_room import leaving_table
from reconciler.cli.names import completing
from reconciler.cli.options import fleet_options
from reconciler.cli.output import Console, print_line, print_table, show, track_progress
from reconciler.cli.world import read_world
from reconciler.errors import counted


@click.command()
@click.argument("nodes", nargs=-1, metavar="[NODE]...", shell_complete=completing("Node"))
@click.option("--pool", metavar="[DRIVER/]POOL", help="Drain the devices of this pool.")
@click.option(
    "--driver-version", metavar="[DRIVER=]VERSION", help="Drain the devices with this driverVersion."
)
@click.option("--taint", metavar="KEY", help="Drain the devices with a taint of this key.")
@fleet_options("table", "json", "yaml")
def drain(
    nodes: tuple[str, ...],
    pool: str | None,
    driver_version: str | None,
    taint: str | None,
    files: tuple[str, ...],
    connection: Connection,
    output: str,
    rules: Semantics,
) -> None:
    """Find out whether everything on nodes or devices can go elsewhere, in which order, and what cannot.

    Names nodes, or devices by pool, driver version or taint. Pods leave one after another, gangs as a whole
    or down to their minimum, and each is placed before the next one leaves. Writes nothing; see
    docs/make-room.md.

    \b
    Examples:
      dra-reconciler drain node-17
      dra-reconciler drain h100-0 -f manifests/
    """
    if sum(map(bool, (nodes, pool, driver_version, taint))) != 1:
        raise click.UsageError("Name nodes, or one of --pool, --driver-version and --taint.")
    with errors_as(NoAnswer), track_progress(quiet=output != "table") as progress:
        world = read_world(files, connection, rules, progress, budgets=True)
        progress.stage("placing")
        answer = draining.drain(world, _remove(world, frozenset(nodes), pool, driver_version, taint))
    show(output, partial(print_drain, answer), answer.as_json)
    exit_unless(answer.empties)


def _remove(
    world: World, nodes: frozenset[str], pool: str | None, driver_version: str | None, taint: str | None
) -> draining.Drained:
    """Remove what is drained. Raises NoAnswer if nothing is."""
    if nodes:
        return draining.without_nodes(nodes, world)
    if pool is not None:
        found, what = draining.without_devices(draining.of_pool(pool), world), f"in pool {pool}"
    elif driver_version is not None:
        found = draining.without_devices(draining.of_driver_version(driver_version), world)
        what = f"with driverVersion {driver_version}"
    else:
        assert taint is not None
        found, what = draining.without_devices(draining.of_taint(taint, world), world), f"with taint {taint}"
    if not found.devices:
        raise NoAnswer(f"there is no device {what}")
    return found


def print_drain(answer: draining.DrainAnswer, out: TextIO) -> None:
    """Print the verdict, then the steps in order, then what cannot go."""
    console = Console(out)
    moving = [step for step in answer.steps if step.move.refusal is None]
    if not answer.steps and not answer.unused:
        print_line(console, "empty: nothing that has to go elsewhere")
    elif answer.empties:
        print_line(console, f"can be emptied, in this order: {counted(len(moving), 'step')}")
    else:
        what = "cannot be emptied" if not answer.gave_up else "no way found to empty it, a search gave up"
        how = "" if answer.proved else "; another order might help"
        left = len(answer.stuck) + len(answer.unused)
        print_line(console, f"{what}: {left} of {len(answer.steps) + len(answer.unused)}{how}")
    for step in moving:
        if step.waits_for:
            pods = ", ".join(map(str, step.move.unit.pods))
            print_line(console, f"budget {step.waits_for[0]} allows no eviction now: {pods}")
    if answer.ignored:
        print_line(console, f"stay with their node: {', '.join(map(str, answer.ignored))}")
    for claim in answer.unused:
        print_line(console, f"claim {claim} holds devices without a pod: deallocate or delete it")
    for heading, steps in (("GOES TO", moving), ("COULD GO TO", answer.stuck)):
        if steps:
            console.print()
            print_table(console, leaving_table((step.move for step in steps), answer.devices, heading))
