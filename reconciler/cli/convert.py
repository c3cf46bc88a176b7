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
from reconciler.cli.common.output import as_documents, as_list
from reconciler.cli.common.progress import track_progress


def convert(
    files: tuple[str, ...],
    output: str,
    rename_map: TextIO | None,
    order_by_size: bool,
    keep_other_kinds: bool,
) -> None:
    """Carry out the command. Its options and its help are in `cli/commands/convert.py`."""
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
