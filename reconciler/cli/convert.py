"""`dra-reconciler convert`: manifests of any version and shape, written as Kubernetes 1.36 takes them."""

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
from reconciler.cli.common.progress import working

_KINDS = {kind.kind: kind for kind in BUILTIN}
_ADMIN = {"resource.kubernetes.io/admin-access": "true"}
"""Which namespaces may ask for administrative access is not for manifests to say"""


@click.command(short_help="Write manifests of any version as resource.k8s.io/v1.")
@files_option(required=True)
@output_option("yaml", "json", explained="YAML documents, or one List in JSON.")
@click.option(
    "--rename-map",
    type=click.File("w", encoding="utf-8", lazy=True),
    help="Write what was renamed to this file, as YAML, instead of to standard error.",
)
def convert(files: tuple[str, ...], output: str, rename_map: TextIO | None) -> None:
    """Write manifests of any version and shape as an API server of Kubernetes 1.36 takes them.

    Reads the same as `allocate`. Mixins and includes are written out, composite devices become counters,
    counters go into slices of their own, and slices that are too large are split. Which devices a claim
    gets stays the same. What the API does not know goes into the annotation
    dra-reconciler.io/device-extensions; names that it does not take are replaced, always in the same way.
    """
    with working(quiet=output == "json") as work:
        bundle = read_manifests(files, work)
        work.stage("converting")
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
    entries = [entry for found in bundle.entries.values() for entry in found.values()]
    return [entry.raw for entry in sorted(entries, key=lambda entry: entry.number)]


def objections(obj: dict[str, Any]) -> list[str]:
    """What the rules of the embedded API server hold against an object."""
    kind = _KINDS[obj["kind"]]
    copied = copy.deepcopy(obj)
    review = Review(copied, None, kind.stored, "", _ADMIN)
    try:
        kind.defaults(copied, datetime.now(UTC))
        return [f"{cause.field}: {cause.message}" for cause in kind.validate(review)]
    except WrongType as exc:
        return [str(exc)]


def _map(renames: Sequence[Rename]) -> str:
    return yaml.safe_dump([rename._asdict() for rename in renames], sort_keys=False)
