"""Selecting fields and indexing, on values of any type."""

from typing import Any

from reconciler.cel.device import DeviceView
from reconciler.cel.errors import CelError
from reconciler.cel.values import NOTHING, Domains, Option, UInt, Value, map_key, name_of

MISSING: Any = object()
_EMPTY: dict[str, Value] = {}


def lookup(container: Value, key: Value) -> Value:
    """The element of a map, list or device, or MISSING. Raises CelError for values without elements."""
    kind = type(container)
    if kind is dict:
        return container.get(key if type(key) is str else map_key(key), MISSING)
    if kind is Domains:
        return container.get(key, _EMPTY) if type(key) is str else MISSING
    if kind is tuple:
        return _item(container, key)
    if kind is DeviceView:
        return field(container, key)
    raise CelError(f"no such overload: {name_of(container)} has no elements")


def field(device: DeviceView, name: Value) -> Value:
    """A field of the device."""
    match name:
        case "driver":
            return device.driver
        case "attributes":
            return Domains(device.attributes)
        case "capacity":
            return Domains(device.capacity)
        case "allowMultipleAllocations":
            return device.shared
    return MISSING


def _item(items: tuple[Value, ...], key: Value) -> Value:
    if type(key) is UInt:
        key = key.value
    elif type(key) is float and key.is_integer():
        key = int(key)
    if type(key) is not int:
        raise CelError(f"a list index must be an integer, not {name_of(key)}")
    return items[key] if 0 <= key < len(items) else MISSING


def strict(container: Value, key: Value) -> Value:
    """`container[key]`. A missing key is an error (CEL-5). An optional container gives an optional result."""
    if type(container) is Option:
        return optional(container, key)
    found = lookup(container, key)
    if found is MISSING:
        what = "index out of bounds" if type(container) is tuple else "no such key"
        raise CelError(f"{what}: {key.value if type(key) is UInt else key}")
    return found


def optional(container: Value, key: Value) -> Option:
    """`container[?key]`."""
    if type(container) is Option:
        if not container.present:
            return NOTHING
        container = container.value
    found = lookup(container, key)
    if found is MISSING:
        return NOTHING
    return found if type(found) is Option else Option(True, found)


def present(container: Value, key: str) -> bool:
    """`has(container.key)`."""
    if type(container) is Option:
        return container.present and present(container.value, key)
    if type(container) is tuple:
        raise CelError("no such overload: list has no fields")
    return lookup(container, key) is not MISSING
