"""Convert served versions to the stored one and back (VER-1 to VER-5, and the two shapes of an event).

Inputs are never modified; unchanged parts are shared.
"""

from collections.abc import Callable

from reconciler.api.validation.kinds import Conversion, Object

_INLINE = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)
_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}


def _at(obj: Object, path: tuple[str, ...], change: Callable[[Object], Object]) -> Object:
    """A copy of `obj` with the object at `path` changed; `obj` itself if the path does not exist."""
    if not path:
        return change(obj)
    inner = obj.get(path[0])
    return {**obj, path[0]: _at(inner, path[1:], change)} if isinstance(inner, dict) else obj


def _each(key: str, change: Callable[[Object], Object]) -> Callable[[Object], Object]:
    """Change every object in the list at `key`."""

    def changed(holder: Object) -> Object:
        items = holder.get(key)
        if not isinstance(items, list):
            return holder
        return {**holder, key: [change(item) if isinstance(item, dict) else item for item in items]}

    return changed


def _request_up(request: Object) -> Object:
    """VER-3: any inline field becomes `exactly`."""
    inline = {key: request[key] for key in _INLINE if request.get(key) is not None}
    if not inline:
        return request
    rest = {key: value for key, value in request.items() if key not in _INLINE}
    return {**rest, "exactly": inline}


def _request_down(request: Object) -> Object:
    exactly = request.get("exactly")
    if not isinstance(exactly, dict):
        return request
    return {**{key: value for key, value in request.items() if key != "exactly"}, **exactly}


def _device_up(device: Object) -> Object:
    """VER-2: all fields except the name are under `basic`. A device without it stays empty."""
    basic = device.get("basic")
    if not isinstance(basic, dict):
        return device
    return {**{key: value for key, value in device.items() if key != "basic"}, **basic}


def _device_down(device: Object) -> Object:
    basic = {key: value for key, value in device.items() if key != "name"}
    return {**({"name": device["name"]} if "name" in device else {}), "basic": basic}


def _unset(spec: Object) -> Object:
    """VER-4: the empty string and false mean the same as an absent field."""
    empty = {"nodeName": "", "allNodes": False}
    return {key: value for key, value in spec.items() if key not in empty or value != empty[key]}


def _renamed(names: dict[str, str]) -> Callable[[Object], Object]:
    return lambda obj: {names.get(key, key): value for key, value in obj.items()}


def _inside(path: tuple[str, ...], change: Callable[[Object], Object]) -> Callable[[Object], Object]:
    return lambda obj: _at(obj, path, change)


CLAIM_V1BETA1 = Conversion(
    _inside(("spec", "devices"), _each("requests", _request_up)),
    _inside(("spec", "devices"), _each("requests", _request_down)),
)
TEMPLATE_V1BETA1 = Conversion(
    _inside(("spec", "spec", "devices"), _each("requests", _request_up)),
    _inside(("spec", "spec", "devices"), _each("requests", _request_down)),
)
SLICE_V1BETA1 = Conversion(
    lambda obj: _at(_at(obj, ("spec",), _each("devices", _device_up)), ("spec",), _unset),
    _inside(("spec",), _each("devices", _device_down)),
)
EVENT = Conversion(_renamed({new: old for old, new in _EVENT_NAMES.items()}), _renamed(_EVENT_NAMES))
