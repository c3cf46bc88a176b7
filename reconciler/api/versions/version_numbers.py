"""Converts versions of proposals, such as `12.6` or `560.35.03`, to semver 2.0.0, as the API and CEL need."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.api.versions.shapes import Raw, mapping

_LOOSE = re.compile(r"(?P<numbers>[0-9]+(\.[0-9]+){0,2})(?P<rest>[-+].*)?")


def with_semver(spec: Raw) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The spec of a slice with flat devices and every version as semver; and the changes, `a as b`.

    Only for shapes that no server ever served: a server would have rejected such versions.
    """
    if not isinstance(spec.get("devices"), list):
        return dict(spec), ()
    devices = [_device(device) for device in spec["devices"]]
    changes = (
        change
        for before, after in zip(spec["devices"], devices, strict=True)
        for change in _changes(before, after)
    )
    return {**spec, "devices": devices}, tuple(dict.fromkeys(changes))


def _device(device: Any) -> Any:
    attributes = mapping(device).get("attributes")
    if not isinstance(attributes, Mapping):
        return device
    return {**device, "attributes": {key: _attribute(value) for key, value in attributes.items()}}


def _attribute(value: Any) -> Any:
    version = mapping(value).get("version")
    match = _LOOSE.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        return value
    numbers = [str(int(number)) for number in match["numbers"].split(".")]
    return {**value, "version": ".".join([*numbers, "0", "0"][:3]) + (match["rest"] or "")}


def _changes(before: Any, after: Any) -> Iterator[str]:
    now = mapping(mapping(after).get("attributes"))
    for key, value in mapping(mapping(before).get("attributes")).items():
        if value != now[key]:
            yield f"{value['version']} as {now[key]['version']}"
