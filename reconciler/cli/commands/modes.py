"""The options and the help of `dra-reconciler modes`."""

import click

from reconciler.cli.common.options import (
    cluster_options,
    manifest_options,
    output_option,
    rules_options,
)
from reconciler.cli.common.running import runs


@click.command()
@manifest_options
@cluster_options
@output_option(
    "table", "wide", "json", "yaml", explained="wide adds columns, and names all devices that are locked out."
)
@rules_options
@runs("reconciler.cli.modes:modes")
def modes() -> None:
    """Show physical devices with parts that exclude each other: allocated parts and parts locked out.

    A physical device is a counter set. Devices that exclude each other without a common counter set have
    lines of their own. Allocations are read from the ResourceClaims. Also shows how the compatibility groups
    of each driver are compared, and why, and which of Koordinator's devices pods hold for exclusive use.
    """
