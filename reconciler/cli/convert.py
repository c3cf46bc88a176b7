"""`dra-reconciler convert`: convert manifests of any version and shape for Kubernetes 1.36."""

import copy
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import click
import yaml

from reconciler.api.convert.names import Rename
from reconciler.api.convert.objects import converted
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.validation.fields import WrongType
from reconciler.api.validation.kinds import Review
from reconciler.api.validation.served_kinds import BUILTIN
from reconciler.cli.common.exits import Exit
from reconciler.cli.common.input import read_manifests, report_ignored, report_refused, report_warnings
from reconciler.cli.common.options import files_option, output_option
from reconciler.cli.common.output import as_documents, as_list
from reconciler.cli.common.plain_text import plain
from reconciler.cli.common.progress import track_progress

_KINDS = {(kind.group, kind.kind): kind for kind in BUILTIN}
_ADMIN = {"resource.kubernetes.io/admin-access": "true"}
"""Labels of every namespace: manifests do not say which namespaces allow admin access"""


@click.command()
@files_option(required=True)
@output_option("yaml", "json", explained="YAML documents, or one JSON List.")
@click.option(
    "--rename-map",
    type=click.File("w", encoding="utf-8", lazy=True),
    help="Write the renames to this file, as YAML, instead of to standard error.",
)
def convert(files: tuple[str, ...], output: str, rename_map: TextIO | None) -> None:
    """Convert manifests of any version and shape to objects that Kubernetes 1.36 accepts.

    Reads the same input as `allocate`. Expands mixins and includes, replaces composite devices by counters,
    moves counters into separate slices and splits slices that are too large. A claim gets the same devices
    before and after. Fields that the API does not have go into the annotation
    dra-reconciler.io/device-extensions; invalid names are replaced, always in the same way.
    """
    with track_progress(quiet=output == "json") as progress:
        bundle = read_manifests(files, progress)
        progress.stage("converting")
        result = converted(_in_order(bundle), objections)
    report_warnings(bundle.warnings)
    report_refused(bundle.refused)
    report_ignored(bundle.ignored)
    for note in result.notes:
        click.echo(plain(f"note: {note}"), err=True)
    if rename_map is not None:
        rename_map.write(_map(result.renames))
    else:
        for rename in result.renames:
            click.echo(plain(f"renamed: {rename}"), err=True)
    for problem in result.problems:
        click.echo(plain(f"error: {problem}"), err=True)
    written = (
        as_list(result.objects) if output == "json" else as_documents(result.objects, explicit_start=True)
    )
    click.echo(written, nl=False)
    if bundle.refused or result.problems:
        sys.exit(Exit.FAILED)


def _in_order(bundle: Bundle) -> list[Any]:
    entries = [entry for by_key in bundle.entries.values() for entry in by_key.values()]
    return [entry.raw for entry in sorted(entries, key=lambda entry: entry.number)]


def objections(obj: dict[str, Any]) -> list[str]:
    """Validate an object with the rules of the embedded API server; return the errors."""
    kind = _KINDS[obj["apiVersion"].rpartition("/")[0], obj["kind"]]
    copied = copy.deepcopy(obj)
    review = Review(copied, None, kind.stored, "", _ADMIN)
    try:
        kind.defaults(copied, datetime.now(UTC))
        return [f"{cause.field}: {cause.message}" for cause in kind.validate(review)]
    except WrongType as exc:
        return [str(exc)]


def _map(renames: Sequence[Rename]) -> str:
    return yaml.safe_dump([rename._asdict() for rename in renames], sort_keys=False)
