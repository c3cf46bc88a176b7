"""The options and the help of `dra-reconciler doctor`."""

import click

from reconciler.cli.common.options import (
    cluster_options,
    contexts_option,
    manifest_options,
    output_option,
    rules_options,
)
from reconciler.cli.common.running import runs


@click.command()
@manifest_options
@cluster_options
@contexts_option
@output_option(
    "table",
    "wide",
    "name",
    "json",
    "yaml",
    "sarif",
    explained="table: a block for each finding; wide: a line for each; name: the objects with findings.",
)
@click.option("--strict", is_flag=True, help="Exit with code 3 if there are warnings, for CI.")
@rules_options
@runs("reconciler.cli.doctor:doctor")
def doctor() -> None:
    """Find problems in ResourceSlices, DeviceClasses and ResourceClaims, with a remedy for each."""
