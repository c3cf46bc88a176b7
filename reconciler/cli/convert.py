"""`dra-reconciler convert`: convert manifests of any version and shape for a release of Kubernetes."""

import copy
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TextIO

import click
import yaml
from msgspec.structs import replace

from reconciler.api.convert.layout import Rename
from reconciler.api.convert.objects import Converted, converted
from reconciler.api.manifests.bundle import Bundle, as_served, bundle
from reconciler.api.manifests.documents import Document, InvalidDocument, documents
from reconciler.api.objects.semantics import NEWEST_MINOR
from reconciler.api.validation.fields import WrongType
from reconciler.api.validation.kinds import GroupVersion, Object, Review
from reconciler.api.validation.served_kinds import every_kind
from reconciler.api.versions.kinds import OLDEST_MINOR
from reconciler.api.versions.reading import needs_conversion
from reconciler.cel.refusals import REFUSES
from reconciler.cli import input as reading
from reconciler.cli.exits import NoAnswer, exit_unless
from reconciler.cli.options import files_option, output_option, strict_option
from reconciler.cli.output import as_documents, as_list, plain, track_progress


@click.command()
@files_option(required=True)
@strict_option
@output_option("yaml", "json", explained="YAML documents, or one JSON List.")
@click.option(
    "--rename-map",
    type=click.File("w", encoding="utf-8", lazy=True),
    help="Write the renames to this file, as YAML, instead of to standard error.",
)
@click.option(
    "--to",
    "release",
    type=click.Choice([f"1.{minor}" for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1)]),
    default=f"1.{NEWEST_MINOR}",
    show_default=True,
    help="The release of Kubernetes to write for.",
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
    release: str,
    order_by_size: bool,
    keep_other_kinds: bool,
) -> None:
    """Convert manifests of any version and shape to objects that a release of Kubernetes accepts.

    Reads the same input as `allocate`. Expands mixins and includes, replaces composite devices by counters,
    moves counters into separate slices and splits slices that are too large. A claim gets the same devices
    before and after. Fields that the API does not have go into the annotation
    dra-reconciler.io/device-extensions; invalid names are replaced, always in the same way. What an older
    release cannot express is reported and left out. Other kinds are left out, unless --keep-other-kinds is
    set.

    \b
    Examples:
      dra-reconciler convert -f old/
      dra-reconciler convert -f old/ --to 1.34 -o json
    """
    with track_progress(quiet=output == "json") as progress:
        bundle = reading.read_files(files, progress)
        progress.stage("converting")
        minor = int(release.removeprefix("1."))
        conversion = convert_bundle(bundle, release=minor, order_by_size=order_by_size)
        result = conversion.result
    if not keep_other_kinds:
        reading.report_ignored(bundle.ignored)
    report_conversion(result, renames=rename_map is None)
    if rename_map is not None:
        rename_map.write(_map(result.renames))
    objects = list(result.objects)
    if keep_other_kinds:
        objects = _merged(conversion.numbered, bundle.others)
    written = as_list(objects) if output == "json" else as_documents(objects, explicit_start=True)
    click.echo(written, nl=False)
    exit_unless(not result.problems)


def _merged(made: Iterable[tuple[int, Object]], others: Mapping[int, Document]) -> list[Object]:
    """The converted objects with their numbers, and the others as written, in the order of the input."""
    numbered = [*made, *((number, dict(document.raw)) for number, document in others.items())]
    return [obj for _, obj in sorted(numbered, key=lambda pair: pair[0])]


def _map(renames: Sequence[Rename]) -> str:
    return yaml.safe_dump([rename._asdict() for rename in renames], sort_keys=False)


_KINDS = {(kind.group, kind.kind): kind for kind in every_kind()}
_ADMIN = {"resource.kubernetes.io/admin-access": "true"}
"""Labels of every namespace: manifests do not say which namespaces allow admin access"""


class Conversion(NamedTuple):
    """The result, and where its objects belong."""

    result: Converted
    numbers: tuple[int, ...]
    """Of each object, the index among all documents of the one that it comes from"""

    @property
    def numbered(self) -> Iterator[tuple[int, Object]]:
        """The objects with their numbers."""
        return zip(self.numbers, self.result.objects, strict=True)


def convert_bundle(bundle: Bundle, *, release: int = NEWEST_MINOR, order_by_size: bool = False) -> Conversion:
    """Convert all objects of manifests, and validate them as an API server does."""
    entries = [entry for by_key in bundle.entries.values() for entry in by_key.values()]
    entries.sort(key=lambda entry: entry.number)
    raws = [entry.raw for entry in entries]
    result = converted(raws, objections, release=release, order_by_size=order_by_size)
    return Conversion(result, tuple(entries[source].number for source in result.sources))


def report_conversion(result: Converted, *, renames: bool = True) -> None:
    """Print a line to standard error for each change and for each object that cannot be converted."""
    changes = [f"note: {note}" for note in result.notes]
    changes += [f"renamed: {rename}" for rename in result.renames] if renames else []
    for line in (*changes, *(f"Error: {problem}" for problem in result.problems)):
        click.echo(plain(line), err=True)


def objections(obj: Object) -> list[str]:
    """Validate an object with the rules of the embedded API server; return the errors."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind, served = _KINDS[group, obj["kind"]], GroupVersion(group, version)
    copied = kind.upgrade(copy.deepcopy(obj), served)
    review = Review(copied, None, served, "", _ADMIN, REFUSES)
    try:
        kind.defaults(copied, datetime.now(UTC))
        return [f"{cause.field}: {cause.message}" for cause in kind.validate(review)]
    except WrongType as exc:
        return [str(exc)]


def read_for_server(paths: Sequence[str]) -> list[dict[str, Any]]:
    """All objects of the manifests in the form that a server stores. Raises NoAnswer if one is invalid."""
    found = list(documents(paths, sys.stdin.buffer))
    refused = [document for document in found if isinstance(document, InvalidDocument)]
    read = [document for document in found if isinstance(document, Document)]
    refused += reading.known_alone(replace(bundle(read), refused=())).refused
    reading.report_refused(refused)
    if refused:
        raise NoAnswer("a server takes all of the input or none: nothing was started")
    if paths and not found:
        raise NoAnswer(reading.nothing_in(paths))
    warnings: list[str] = []
    raws = as_served(_servable(read), warnings.append)
    reading.report_warnings(warnings)
    return raws


def _servable(found: Sequence[Document]) -> list[dict[str, Any]]:
    """The objects, those in older versions and shapes converted as `convert` does, in their order."""
    older = [number for number, document in enumerate(found) if needs_conversion(document.raw)]
    kept = [(number, dict(one.raw)) for number, one in enumerate(found) if number not in set(older)]
    if not older:
        return [raw for _, raw in kept]
    read = bundle(found[number] for number in older)
    reading.report_warnings(read.warnings)
    reading.report_refused(read.refused)
    conversion = convert_bundle(read)
    report_conversion(conversion.result)
    if read.refused or conversion.result.problems:
        raise NoAnswer("a server takes all of the input or none: nothing was started")
    kept += [(older[number], raw) for number, raw in conversion.numbered]
    return [raw for _, raw in sorted(kept, key=lambda pair: pair[0])]
