"""`dra-reconciler convert`: convert manifests of any version and shape for Kubernetes 1.36."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

import click
import yaml

from reconciler.api.convert.names import Rename
from reconciler.api.manifests.documents import Document
from reconciler.api.validation.kinds import Object
from reconciler.cli.common.conversion import convert_bundle, report_conversion
from reconciler.cli.common.exits import Exit
from reconciler.cli.common.input import read_manifests, report_ignored, report_refused, report_warnings
from reconciler.cli.common.options import files_option, output_option
from reconciler.cli.common.output import as_documents, as_list
from reconciler.cli.common.progress import track_progress


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
def convert(
    files: tuple[str, ...],
    output: str,
    rename_map: TextIO | None,
    order_by_size: bool,
    keep_other_kinds: bool,
) -> None:
    """Convert manifests of any version and shape to objects that Kubernetes 1.36 accepts.

    Reads the same input as `allocate`. Expands mixins and includes, replaces composite devices by counters,
    moves counters into separate slices and splits slices that are too large. A claim gets the same devices
    before and after. Fields that the API does not have go into the annotation
    dra-reconciler.io/device-extensions; invalid names are replaced, always in the same way. Other kinds are
    left out, unless --keep-other-kinds is set.
    """
    with track_progress(quiet=output == "json") as progress:
        bundle = read_manifests(files, progress)
        progress.stage("converting")
        conversion = convert_bundle(bundle, order_by_size=order_by_size)
        result = conversion.result
    report_warnings(bundle.warnings)
    report_refused(bundle.refused)
    if not keep_other_kinds:
        report_ignored(bundle.ignored)
    report_conversion(result, renames=rename_map is None)
    if rename_map is not None:
        rename_map.write(_map(result.renames))
    objects = list(result.objects)
    if keep_other_kinds:
        objects = _merged(conversion.numbered, bundle.others)
    written = as_list(objects) if output == "json" else as_documents(objects, explicit_start=True)
    click.echo(written, nl=False)
    if bundle.refused or result.problems:
        sys.exit(Exit.FAILED)


def _merged(made: Iterable[tuple[int, Object]], others: Mapping[int, Document]) -> list[Object]:
    """The converted objects with their numbers, and the others as written, in the order of the input."""
    numbered = [*made, *((number, dict(document.raw)) for number, document in others.items())]
    return [obj for _, obj in sorted(numbered, key=lambda pair: pair[0])]


def _map(renames: Sequence[Rename]) -> str:
    return yaml.safe_dump([rename._asdict() for rename in renames], sort_keys=False)
