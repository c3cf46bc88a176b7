"""Get and list: selectors, parameters, pages and the resourceVersion of a list; objects whole, or as rows
of a table.
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from reconciler.api.validation import bodies
from reconciler.api.validation.columns import AGE, NAME
from reconciler.api.validation.fields import Cause
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.embedded.routing import Target
from reconciler.embedded.store import Change, Compacted, Record, Store, event_line


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
        return bodies.encode(head)[:-1] + b',"items":[' + items + b"]}"

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
        return bodies.encode(
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
    raise bodies.Refusal(406, "NotAcceptable", "only application/json is supported", details={})


Predicate = Callable[[Object], bool]

_KEY = r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_EXISTS = re.compile(rf"(?P<not>!?)\s*(?P<key>{_KEY})")
_EQUALS = re.compile(rf"(?P<key>{_KEY})\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[A-Za-z0-9._-]*)")
_COMMA = re.compile(r",(?![^()]*\))")


def everything(_obj: Object) -> bool:
    """The predicate that selects all objects."""
    return True


def parse_selectors(kind: ServedKind, served: GroupVersion, *, labels: str, fields: str) -> Predicate:
    """Both selectors of a request as one predicate. Raises a 400 if one cannot be parsed."""
    tests = [label_predicate(labels)] if labels.strip() else []
    tests += [_field(kind, served, part.strip()) for part in fields.split(",") if part.strip()]
    if not tests:
        return everything
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def label_predicate(labels: str) -> Predicate:
    """A label selector as `kubectl -l` takes it. Raises a 400 if it cannot be parsed."""
    tests = [_label(part.strip()) for part in _COMMA.split(labels)]
    return lambda obj: all(test(obj) for test in tests)


def _label(text: str) -> Predicate:
    if match := _SET.fullmatch(text):
        values = {value.strip() for value in match["values"].split(",")}
        key = match["key"]
        if match["op"] == "in":
            return lambda obj: _labels(obj).get(key) in values
        return lambda obj: _labels(obj).get(key) not in values
    if match := _EQUALS.fullmatch(text):
        return _comparison(match["key"], match["op"], match["value"])
    if match := _EXISTS.fullmatch(text):
        key = match["key"]
        if match["not"]:
            return lambda obj: key not in _labels(obj)
        return lambda obj: key in _labels(obj)
    raise bodies.bad_request(f"unable to parse requirement: {text!r}")


def _comparison(key: str, op: str, value: str) -> Predicate:
    if op == "!=":
        return lambda obj: _labels(obj).get(key) != value
    if op in "==":
        return lambda obj: _labels(obj).get(key) == value
    if not value.isdecimal():
        raise bodies.bad_request(f"for '{op}' the value must be an integer, got {value!r}")
    bound = int(value)

    def compare(obj: Object) -> bool:
        found = _labels(obj).get(key, "")
        return found.isdecimal() and (int(found) > bound if op == ">" else int(found) < bound)

    return compare


def _labels(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _field(kind: ServedKind, served: GroupVersion, text: str) -> Predicate:
    for op in ("!=", "==", "="):
        label, found, value = text.partition(op)
        if found:
            break
    else:
        raise bodies.bad_request(f"invalid selector: {text!r}; can't understand it")
    path = _path(kind, label)
    if path is None:
        raise bodies.bad_request(f"field label not supported for {served}, Kind={kind.kind}: {label}")
    if op == "!=":
        return lambda obj: _lookup(obj, path) != value
    return lambda obj: _lookup(obj, path) == value


def _path(kind: ServedKind, label: str) -> tuple[str, ...] | None:
    if label == "metadata.name" or (label == "metadata.namespace" and kind.namespaced):
        return tuple(label.split("."))
    return kind.selectable.get(label)


def _lookup(obj: Object, path: tuple[str, ...]) -> str:
    value: object = obj
    for part in path:
        if not isinstance(value, dict):
            return ""
        value = value.get(part)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


_TOKEN = "meta.k8s.io/v1"
_MATCHES = ("Exact", "NotOlderThan")


def selection(target: Target, query: Mapping[str, str]) -> Predicate:
    """The predicate of a request's label and field selectors."""
    return parse_selectors(
        target.kind,
        target.served,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
    )


def get_object(store: Store, target: Target) -> Record:
    """One object. Raises a 404."""
    record = store[target.kind].get(target.key)
    if record is None:
        raise bodies.not_found(target.kind.plural, target.served.group, target.name)
    return record


def version_of(query: Mapping[str, str]) -> int:
    """The requested resourceVersion; 0 for any. Raises a 400."""
    text = query.get("resourceVersion", "")
    if not text:
        return 0
    if not text.isdecimal() or len(text) > 20:
        raise bodies.bad_request(f"resourceVersion: Invalid value: {text!r}: not a whole number")
    return int(text)


def list_objects(store: Store, target: Target, query: Mapping[str, str], view: View) -> bytes:
    """A list, or one page of it, at one version."""
    kind_store, predicate = store[target.kind], selection(target, query)
    limit = _limit(query)
    if query.get("continue"):
        version, after = _read_token(query["continue"])
    else:
        version, after = _version_to_list(store, query), ""
    try:
        found = (
            kind_store.scan_at(target.prefix, version)
            if version < store.version
            else kind_store.scan(target.prefix)
        )
    except Compacted as exc:
        raise bodies.expired(
            "The provided continue parameter is too old to display a consistent list result."
            if after
            else f"too old resource version: {version}"
        ) from exc
    if after:
        found = [record for record in found if record.key > after]
    records = [record for record in found if predicate is everything or predicate(record.object)]
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if limit and len(records) > limit:
        metadata["continue"] = _token(version, records[limit - 1].key)
        if predicate is everything:
            metadata["remainingItemCount"] = len(records) - limit
        records = records[:limit]
    return view.listing(records, metadata)


def _version_to_list(store: Store, query: Mapping[str, str]) -> int:
    requested, match = version_of(query), query.get("resourceVersionMatch", "")
    if match and (not query.get("resourceVersion") or match not in _MATCHES):
        raise list_options_invalid(
            "resourceVersionMatch", "requires a resourceVersion, and must be Exact or NotOlderThan"
        )
    if requested > store.version:
        raise bodies.version_too_large(requested, store.version)
    if match == "Exact":
        if not requested:
            raise list_options_invalid(
                "resourceVersionMatch", "Exact requires a resourceVersion other than 0"
            )
        return requested
    return store.version


def list_options_invalid(field: str, why: str) -> Exception:
    """422: parameters of a list or watch contradict each other."""
    return bodies.invalid(
        "ListOptions", "meta.k8s.io", "", [Cause("FieldValueForbidden", f"Forbidden: {why}", field)]
    )


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "") or "0"
    if not text.isdecimal() or len(text) > 18:
        raise bodies.bad_request(f"limit: {text!r} is not a whole number")
    return int(text)


def _token(version: int, key: str) -> str:
    return base64.urlsafe_b64encode(bodies.encode({"v": _TOKEN, "rv": version, "start": key})).decode()


def _read_token(text: str) -> tuple[int, str]:
    try:
        token = json.loads(base64.urlsafe_b64decode(text))
        kind, version, after = token["v"], token["rv"], token["start"]
    except (ValueError, TypeError, KeyError) as exc:
        raise bodies.bad_request("continue key is not valid") from exc
    if kind != _TOKEN or type(version) is not int or not isinstance(after, str):
        raise bodies.bad_request("continue key is not valid")
    return version, after
