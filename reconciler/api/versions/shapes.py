"""Plain JSON whose shape is not known yet: what is no object, or no list, is taken for an empty one.

Nothing is modified: what changes is copied, and all other parts are shared.
"""

from collections.abc import Callable, Mapping
from typing import Any

from reconciler.errors import Malformed

Raw = Mapping[str, Any]
Json = dict[str, Any]
Change = Callable[[Json], Json]


def mapping(value: Any) -> Raw:
    """`value` if it is an object."""
    # Nearly all are dicts or absent, and asking for the abstract class takes ten times as long.
    if value is None:
        return {}
    return value if value.__class__ is dict or isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Raw]:
    """The entries of a list, each as an object."""
    return [mapping(entry) for entry in value] if isinstance(value, list | tuple) else []


def objects(value: Any) -> list[Json]:
    """The entries of a list that are objects."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def references(value: Any, subject: str, field: str) -> list[str]:
    """The names in a list of references, written as `{name: x}` or as `x`. Raises Malformed otherwise."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(subject, field, "must be a list")
    names: list[str] = []
    for number, entry in enumerate(value):
        name = entry.get("name") if isinstance(entry, Mapping) else entry
        if not isinstance(name, str) or not name:
            raise Malformed(subject, f"{field}[{number}].name", "must be a string")
        names.append(name)
    return names


def inside(path: tuple[str, ...], change: Change) -> Change:
    """Changes the object at a path. Without such an object, nothing is changed."""

    def changed(holder: Json) -> Json:
        key, *rest = path
        part = holder.get(key)
        if not isinstance(part, dict):
            return holder
        return {**holder, key: inside(tuple(rest), change)(part) if rest else change(part)}

    return changed


def each(key: str, change: Change) -> Change:
    """Changes every object in the list at a key."""

    def changed(holder: Json) -> Json:
        items = holder.get(key)
        if not isinstance(items, list):
            return holder
        return {**holder, key: [change(item) if isinstance(item, dict) else item for item in items]}

    return changed


def with_requests(raw: Raw, where: str, change: Callable[[Raw, str], Any]) -> Raw:
    """`raw` with each request of the claim spec in its `spec` changed. `change` gets the request and its
    path, which begins with `where`. What is no object stays as it is.
    """
    spec = mapping(raw.get("spec"))
    devices = mapping(spec.get("devices"))
    requests = devices.get("requests")
    if not isinstance(requests, list):
        return raw
    changed = [
        change(one, f"{where}.devices.requests[{at}]") if isinstance(one, Mapping) else one
        for at, one in enumerate(requests)
    ]
    return {**raw, "spec": {**spec, "devices": {**devices, "requests": changed}}}
