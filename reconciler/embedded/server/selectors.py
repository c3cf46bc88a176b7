"""Label and field selectors: parsed once, then applied to each object."""

import re
from collections.abc import Callable

from reconciler.api.validation.kinds import GroupVersion, Object, ServedKind
from reconciler.api.validation.status import bad_request

Predicate = Callable[[Object], bool]

_KEY = r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)")
_EXISTS = re.compile(rf"(?P<not>!?)\s*(?P<key>{_KEY})")
_EQUALS = re.compile(rf"(?P<key>{_KEY})\s*(?P<op>==|=|!=|>|<)\s*(?P<value>[A-Za-z0-9._-]*)")
_COMMA = re.compile(r",(?![^()]*\))")


def everything(_obj: Object) -> bool:
    """The predicate that selects all objects."""
    return True


def parse(kind: ServedKind, served: GroupVersion, *, labels: str, fields: str) -> Predicate:
    """Both selectors of a request as one predicate. Raises a 400 if one cannot be parsed."""
    tests = [_label(part.strip()) for part in _COMMA.split(labels) if labels.strip()]
    tests += [_field(kind, served, part.strip()) for part in fields.split(",") if part.strip()]
    if not tests:
        return everything
    if len(tests) == 1:
        return tests[0]
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
