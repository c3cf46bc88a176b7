"""Encode objects for clients: whole, or as rows of a table.

The Accept header selects the view. Whole objects are encoded once, tables on demand.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from reconciler.api.validation.bodies import Refusal, encode
from reconciler.api.validation.columns import AGE, NAME
from reconciler.api.validation.kinds import GroupVersion, ServedKind
from reconciler.embedded.store import Change, Record, event_line


class View(Struct, frozen=True):
    """One way to encode records of one kind in one version: whole objects."""

    kind: ServedKind
    served: GroupVersion

    def whole(self, record: Record) -> bytes:
        """A single object."""
        return record.whole(self.served)

    def listing(self, records: Iterable[Record], metadata: dict[str, Any]) -> bytes:
        """A list, joined from encoded items."""
        head = {"kind": f"{self.kind.kind}List", "apiVersion": str(self.served), "metadata": metadata}
        items = b",".join([record.item(self.served) for record in records])
        return encode(head)[:-1] + b',"items":[' + items + b"]}"

    def line(self, kind: str, record: Record) -> bytes:
        """A watch event."""
        return event_line(kind, self.whole(record))

    def change(self, change: Change) -> bytes:
        """A watch event for a watcher that selects everything, shared by all of this version."""
        return change.line(self.served)


class Table(View, frozen=True):
    """Rows for kubectl."""

    now: Callable[[], datetime]
    include: str
    """What each row has besides its cells: Metadata, Object or None."""

    def _row(self, record: Record, now: datetime) -> dict[str, Any]:
        row: dict[str, Any] = {"cells": [column.cell(record.object, now) for column in self._columns()]}
        if self.include == "Object":
            row["object"] = {
                "kind": self.kind.kind,
                "apiVersion": str(self.served),
                **self.kind.downgrade(record.object, self.served),
            }
        elif self.include != "None":
            metadata = record.object["metadata"]
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }
        return row

    def _columns(self) -> Any:
        return self.kind.columns or (NAME, AGE)

    def listing(self, records: Iterable[Record], metadata: dict[str, Any]) -> bytes:
        """A table of many rows."""
        now = self.now()
        definitions = [
            {
                "name": column.name,
                "type": column.type,
                "format": column.format,
                "description": "",
                "priority": column.priority,
            }
            for column in self._columns()
        ]
        return encode(
            {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "columnDefinitions": definitions,
                "rows": [self._row(record, now) for record in records],
            }
        )

    def whole(self, record: Record) -> bytes:
        """A table of one row."""
        return self.listing([record], {"resourceVersion": str(record.version)})

    def change(self, change: Change) -> bytes:
        """A watch event with a table of one row."""
        return self.line(change.type, change.record)


def choose_view(
    kind: ServedKind, served: GroupVersion, accept: str, *, include: str, now: Callable[[], datetime]
) -> View:
    """The view for the first supported form in an Accept header. Raises a 406 if there is none."""
    for option in (accept or "*/*").split(","):
        media, *parameters = (part.strip() for part in option.split(";"))
        if media not in ("application/json", "application/*", "*/*"):
            continue
        form = dict(parameter.partition("=")[::2] for parameter in parameters).get("as", "")
        if form == "Table":
            return Table(kind, served, now, include)
        if not form:
            return View(kind, served)
    raise Refusal(406, "NotAcceptable", "only application/json is supported", details={})
