"""Amounts in all past shapes: plain (v1alpha3), under `quantity` (proposals), under `value`."""

from collections.abc import Mapping
from typing import Any

from reconciler.api.versions.shapes import Raw, mapping


def with_value_keys(spec: Raw) -> dict[str, Any]:
    """The spec of a slice with flat devices, every capacity and counter under `value`."""
    made = dict(spec)
    if isinstance(spec.get("devices"), list):
        made["devices"] = [_device(device) for device in spec["devices"]]
    if isinstance(spec.get("sharedCounters"), list):
        made["sharedCounters"] = [_with(counters, "counters") for counters in spec["sharedCounters"]]
    return made


def under_value(amounts: Any) -> Any:
    """A map of amounts, each under `value`."""
    if not isinstance(amounts, Mapping) or all(map(_is_current, amounts.values())):
        return amounts
    return {key: _amount(value) for key, value in amounts.items()}


def _is_current(value: Any) -> bool:
    return value.__class__ is dict and "value" in value


def _device(device: Any) -> Any:
    device = _with(device, "capacity")
    draws = mapping(device).get("consumesCounters")
    if isinstance(draws, list):
        return {**device, "consumesCounters": [_with(draw, "counters") for draw in draws]}
    return device


def _with(holder: Any, key: str) -> Any:
    if not isinstance(holder, Mapping) or not isinstance(holder.get(key), Mapping):
        return holder
    return {**holder, key: under_value(holder[key])}


def _amount(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "quantity" in value and "value" not in value:
            rest = {key: part for key, part in value.items() if key != "quantity"}
            return {"value": value["quantity"], **rest}
        return value
    return {"value": value} if isinstance(value, str | int | float) and not isinstance(value, bool) else value
