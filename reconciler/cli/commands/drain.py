"""The options and the help of `dra-reconciler drain`."""

import click

from reconciler.cli.common.held_room import held_room_option
from reconciler.cli.common.options import (
    cluster_options,
    files_option,
    output_option,
    release_and_rules_options,
)
from reconciler.cli.common.running import runs


@click.command()
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@click.option("--pool", metavar="[DRIVER/]POOL", help="Drain the devices of this pool.")
@click.option(
    "--driver-version", metavar="[DRIVER=]VERSION", help="Drain the devices with this driverVersion."
)
@click.option("--taint", metavar="KEY", help="Drain the devices with a taint of this key.")
@files_option(required=False)
@cluster_options
@held_room_option
@output_option("table", "json", "yaml")
@release_and_rules_options
@runs("reconciler.cli.drain:command")
def drain() -> None:
    """Find out whether everything on nodes or devices can go elsewhere, in which order, and what cannot.

    Names nodes, or devices by pool, driver version or taint. Pods leave one after another, gangs as a whole
    or down to their minimum, and each is placed before the next one leaves. Writes nothing; see
    docs/make-room.md.
    """
