"""Devices and rows for tests, from literals and from the JSON of conformance data."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError
from reconciler.cel.program import Selector
from reconciler.cel.rows import Column, Rows
from reconciler.cel.values import DeviceView, Value

_versions = count()


def attribute(declared: Mapping[str, Any]) -> Value:
    """The value of an attribute as the API writes it: {"int": 5}, {"versions": [...]}."""
    ((kind, value),) = declared.items()
    match kind:
        case "version":
            return Semver.parse(value)
        case "versions":
            return tuple(map(Semver.parse, value))
        case "strings" | "ints" | "bools":
            return tuple(value)
    return value


def filed(driver: str, flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Keys split into domain and id; the default domain is the driver."""
    nested: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        domain, _, name = key.rpartition("/")
        nested.setdefault(domain or driver, {})[name] = value
    return nested


def device_of(declared: Mapping[str, Any]) -> DeviceView:
    """A device of the conformance data."""
    driver = declared["driver"]
    attributes = {key: attribute(value) for key, value in (declared.get("attributes") or {}).items()}
    capacity = {
        key: Quantity.parse(value["value"]) for key, value in (declared.get("capacity") or {}).items()
    }
    return DeviceView(
        driver=driver,
        attributes=filed(driver, attributes),
        capacity=filed(driver, capacity),
        shared=bool(declared.get("allowMultipleAllocations")),
    )


def column(values: Sequence[Value | None]) -> Column:
    """A column from one value per row; None is absent."""
    distinct: list[Value] = []
    codes: dict[tuple[type, Any], int] = {}
    rows: list[int] = []
    for value in values:
        if value is None:
            rows.append(-1)
            continue
        key = (type(value), str(value))
        if key not in codes:
            codes[key] = len(distinct)
            distinct.append(value)
        rows.append(codes[key])
    return Column(np.array(rows, dtype=np.int32), distinct)


def _columns(parts: Sequence[Mapping[str, Mapping[str, Value]]]) -> dict[tuple[str, str], Column]:
    keys = sorted({(domain, name) for part in parts for domain, names in part.items() for name in names})
    return {(d, n): column([part.get(d, {}).get(n) for part in parts]) for d, n in keys}


def rows_of(devices: Sequence[DeviceView]) -> Rows:
    """The columns of some devices."""
    shared: NDArray[np.bool_] = np.array([device.shared for device in devices], dtype=np.bool_)
    return Rows(
        size=len(devices),
        driver=column([device.driver for device in devices]),
        attributes=_columns([device.attributes for device in devices]),
        capacity=_columns([device.capacity for device in devices]),
        shared=shared,
        unreadable=np.array([bool(device.unreadable) for device in devices], dtype=np.bool_),
        version=next(_versions),
    )


def plain(selector: Selector, device: DeviceView) -> bool | str:
    """The plain evaluator's answer: a bool, or "error"."""
    try:
        return selector.matches(device)
    except CelError:
        return "error"


def masked(selector: Selector, rows: Rows) -> list[bool | str]:
    """The answers of the masks in the same form."""
    masks = selector.masks(rows)
    assert not (masks.true & masks.error).any()
    return ["error" if error else bool(true) for true, error in zip(masks.true, masks.error, strict=True)]
