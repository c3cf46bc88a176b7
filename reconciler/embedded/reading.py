"""Get and list: selectors, parameters, pages, and the resourceVersion of a list."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from reconciler.api.validation.bodies import (
    bad_request,
    encode,
    expired,
    invalid,
    not_found,
    version_too_large,
)
from reconciler.api.validation.fields import Cause
from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.embedded.presenting import View
from reconciler.embedded.routing import Target
from reconciler.embedded.store import Compacted, Record, Store

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
    raise bad_request(f"unable to parse requirement: {text!r}")


def _comparison(key: str, op: str, value: str) -> Predicate:
    if op == "!=":
        return lambda obj: _labels(obj).get(key) != value
    if op in "==":
        return lambda obj: _labels(obj).get(key) == value
    if not value.isdecimal():
        raise bad_request(f"for '{op}' the value must be an integer, got {value!r}")
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
        raise bad_request(f"invalid selector: {text!r}; can't understand it")
    path = _path(kind, label)
    if path is None:
        raise bad_request(f"field label not supported for {served}, Kind={kind.kind}: {label}")
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
        raise not_found(target.kind.plural, target.served.group, target.name)
    return record


def version_of(query: Mapping[str, str]) -> int:
    """The requested resourceVersion; 0 for any. Raises a 400."""
    text = query.get("resourceVersion", "")
    if not text:
        return 0
    if not text.isdecimal() or len(text) > 20:
        raise bad_request(f"resourceVersion: Invalid value: {text!r}: not a whole number")
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
        raise expired(
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
        raise version_too_large(requested, store.version)
    if match == "Exact":
        if not requested:
            raise list_options_invalid(
                "resourceVersionMatch", "Exact requires a resourceVersion other than 0"
            )
        return requested
    return store.version


def list_options_invalid(field: str, why: str) -> Exception:
    """422: parameters of a list or watch contradict each other."""
    return invalid(
        "ListOptions", "meta.k8s.io", "", [Cause("FieldValueForbidden", f"Forbidden: {why}", field)]
    )


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "") or "0"
    if not text.isdecimal() or len(text) > 18:
        raise bad_request(f"limit: {text!r} is not a whole number")
    return int(text)


def _token(version: int, key: str) -> str:
    return base64.urlsafe_b64encode(encode({"v": _TOKEN, "rv": version, "start": key})).decode()


def _read_token(text: str) -> tuple[int, str]:
    try:
        token = json.loads(base64.urlsafe_b64decode(text))
        kind, version, after = token["v"], token["rv"], token["start"]
    except (ValueError, TypeError, KeyError) as exc:
        raise bad_request("continue key is not valid") from exc
    if kind != _TOKEN or type(version) is not int or not isinstance(after, str):
        raise bad_request("continue key is not valid")
    return version, after
