"""Converts the objects of manifests to the API of Kubernetes 1.36, keeping the order of the documents."""

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import click

from reconciler.api.convert.objects import Converted, converted
from reconciler.api.manifests.bundle import Bundle
from reconciler.api.validation.fields import WrongType
from reconciler.api.validation.kinds import Object, Review
from reconciler.api.validation.served_kinds import BUILTIN
from reconciler.cli.common.plain_text import plain

_KINDS = {(kind.group, kind.kind): kind for kind in BUILTIN}
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


def convert_bundle(bundle: Bundle, *, order_by_size: bool = False) -> Conversion:
    """Convert all objects of manifests, and validate them as an API server does."""
    entries = [entry for by_key in bundle.entries.values() for entry in by_key.values()]
    entries.sort(key=lambda entry: entry.number)
    result = converted([entry.raw for entry in entries], objections, order_by_size=order_by_size)
    return Conversion(result, tuple(entries[source].number for source in result.sources))


def report_conversion(result: Converted, *, renames: bool = True) -> None:
    """Print a line to standard error for each change and for each object that cannot be converted."""
    changes = [f"note: {note}" for note in result.notes]
    changes += [f"renamed: {rename}" for rename in result.renames] if renames else []
    for line in (*changes, *(f"Error: {problem}" for problem in result.problems)):
        click.echo(plain(line), err=True)


def objections(obj: Object) -> list[str]:
    """Validate an object with the rules of the embedded API server; return the errors."""
    kind = _KINDS[obj["apiVersion"].rpartition("/")[0], obj["kind"]]
    copied = copy.deepcopy(obj)
    review = Review(copied, None, kind.stored, "", _ADMIN)
    try:
        kind.defaults(copied, datetime.now(UTC))
        return [f"{cause.field}: {cause.message}" for cause in kind.validate(review)]
    except WrongType as exc:
        return [str(exc)]
