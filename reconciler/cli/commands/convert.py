"""The options and the help of `dra-reconciler convert`."""

import click

from reconciler.cli.common.options import (
    files_option,
    output_option,
)
from reconciler.cli.common.running import runs


@click.command()
@files_option(required=True)
@output_option("yaml", "json", explained="YAML documents, or one JSON List.")
@click.option(
    "--rename-map",
    type=click.File("w", encoding="utf-8", lazy=True),
    help="Write the renames to this file, as YAML, instead of to standard error.",
)
@click.option(
    "--order-by-size",
    is_flag=True,
    help="List smaller devices of a pool first: claims that match several sizes get the smallest.",
)
@click.option(
    "--keep-other-kinds",
    is_flag=True,
    help="Also write the objects of other kinds, unchanged and in their place.",
)
@runs("reconciler.cli.convert:convert")
def convert() -> None:
    """Convert manifests of any version and shape to objects that Kubernetes 1.36 accepts.

    Reads the same input as `allocate`. Expands mixins and includes, replaces composite devices by counters,
    moves counters into separate slices and splits slices that are too large. A claim gets the same devices
    before and after. Fields that the API does not have go into the annotation
    dra-reconciler.io/device-extensions; invalid names are replaced, always in the same way. Other kinds are
    left out, unless --keep-other-kinds is set.
    """
