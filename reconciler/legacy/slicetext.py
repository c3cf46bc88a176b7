"""Slices of the current version straight from their text: what is spelled alike is read once, and shared.

Text is cut into fields without being decoded. Each field goes through the same models as in `reading`, but
once for each distinct spelling, since drivers publish the same products, capacities and draws over and
over. Whatever is odd in any way is not read here, so that `reading` says what is wrong with it.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from pydantic import TypeAdapter
from pydantic_core import from_json

from reconciler.legacy.extensions import ANNOTATION
from reconciler.legacy.shapes import mapping, mappings
from reconciler.objects.model import Tuple, fields_of
from reconciler.objects.slices import CounterSet, Device, DeviceAttribute, ResourceSlice, ResourceSliceSpec

API_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")

SPELLINGS = 1 << 15
"""Distinct texts of one field that are remembered. Those that are used least are forgotten first."""
SPELLINGS_OF_ATTRIBUTES = 1 << 13
"""Of all attributes of a device together: often they are unlike any other's, by a serial number."""


class _Odd(Exception):
    """Not to be read here."""


class _DeviceText(msgspec.Struct, rename="camel", gc=False):
    """A device, its fields as they are spelled; and fields by which older shapes are known."""

    name: str
    attributes: Raw | UnsetType = UNSET
    capacity: Raw | UnsetType = UNSET
    consumes_counters: Raw | UnsetType = UNSET
    node_name: Raw | UnsetType = UNSET
    node_selector: Raw | UnsetType = UNSET
    all_nodes: Raw | UnsetType = UNSET
    taints: Raw | UnsetType = UNSET
    binds_to_node: Raw | UnsetType = UNSET
    binding_conditions: Raw | UnsetType = UNSET
    binding_failure_conditions: Raw | UnsetType = UNSET
    allow_multiple_allocations: Raw | UnsetType = UNSET
    compatible_only_with: Raw | UnsetType = UNSET
    basic: Raw | UnsetType = UNSET
    composite: Raw | UnsetType = UNSET
    includes: Raw | UnsetType = UNSET


class _SpecText(msgspec.Struct, rename="camel", gc=False):
    driver: Raw | UnsetType = UNSET
    pool: Raw | UnsetType = UNSET
    node_name: Raw | UnsetType = UNSET
    node_selector: Raw | UnsetType = UNSET
    all_nodes: Raw | UnsetType = UNSET
    per_device_node_selection: Raw | UnsetType = UNSET
    devices: list[_DeviceText] | None = None
    shared_counters: Raw | UnsetType = UNSET
    skip_node_operations: Raw | UnsetType = UNSET
    mixins: Raw | UnsetType = UNSET
    device_mixins: Raw | UnsetType = UNSET


class _SliceText(msgspec.Struct, rename="camel", gc=False):
    spec: _SpecText
    metadata: Raw
    kind: str | UnsetType = UNSET
    api_version: str | UnsetType = UNSET


_cut = msgspec.json.Decoder(_SliceText).decode
_cut_map = msgspec.json.Decoder(dict[str, Raw]).decode

_OLDER = ("basic", "composite", "includes")
_OLDER_IN_SPEC = ("mixins", "device_mixins")
_INCLUDING = ("consumes_counters", "shared_counters")
"""Lists whose entries say `includes` in an older shape."""


def read_slice(text: bytes, api_version: str) -> ResourceSlice | None:
    """The slice, or None where `reading.read` has to look at it: that gives an equal slice, or refuses it.

    `api_version` is that of a slice which does not say its own, as in a listing.
    """
    if api_version not in API_VERSIONS:
        return None
    try:
        if not text.isascii():
            text.decode()  # what is not looked at below must be text as well
        cut = _cut(text)
        if cut.kind not in (UNSET, "ResourceSlice") or cut.api_version not in (UNSET, *API_VERSIONS):
            return None
        return _slice(cut)
    except (_Odd, ValueError, RecursionError, msgspec.MsgspecError):  # pydantic's errors are ValueErrors
        return None


def _slice(cut: _SliceText) -> ResourceSlice:
    metadata = from_json(bytes(cut.metadata))
    if ANNOTATION in mapping(mapping(metadata).get("annotations")):
        raise _Odd
    if any(getattr(cut.spec, name) is not UNSET for name in _OLDER_IN_SPEC):
        raise _Odd
    spec = {
        name: read(bytes(spelled))
        for name, read in _READ_OF_SPEC
        if (spelled := getattr(cut.spec, name)) is not UNSET
    }
    spec["devices"] = tuple([_device(device) for device in cut.spec.devices or ()])
    return ResourceSlice.model_validate({"metadata": metadata, "spec": spec})


def _device(cut: _DeviceText) -> Device:
    for name in _OLDER:
        if getattr(cut, name) is not UNSET:
            raise _Odd
    device = _new(Device)
    _write_name(device, intern(cut.name))
    attributes = cut.attributes
    _write_attributes(device, {} if attributes is UNSET else _attributes(bytes(attributes)))
    for name, write, read, default in _FIELDS:
        spelled = getattr(cut, name)
        write(device, default if spelled is UNSET else read(bytes(spelled)))
    return device


@lru_cache(SPELLINGS_OF_ATTRIBUTES)
def _attributes(text: bytes) -> Mapping[str, DeviceAttribute]:
    return {intern(key): _attribute(bytes(value)) for key, value in _cut_map(text).items()}


@lru_cache(SPELLINGS)
def _attribute(text: bytes) -> DeviceAttribute:
    return _ATTRIBUTE.validate_python(from_json(text))


def _field(name: str, text: bytes) -> Any:
    """A field of a device. Raises ValueError, or _Odd for a shape of old."""
    value = _plain(name, text)
    return getattr(_DEVICE.validate_python({"name": "", name: value}), name)


def _plain(name: str, text: bytes) -> Any:
    value = from_json(text)
    if name in _INCLUDING and any("includes" in entry for entry in mappings(value)):
        raise _Odd
    return intern(value) if isinstance(value, str) else value


def _sets(text: bytes) -> Any:
    """Counter sets that are shared: those of like machines are spelled alike."""
    return _SETS.validate_python(_plain("shared_counters", text))


def _remembered(read: Callable[[str, bytes], Any], name: str) -> Callable[[bytes], Any]:
    return lru_cache(SPELLINGS)(partial(read, name))


_ATTRIBUTE = TypeAdapter(DeviceAttribute)
_DEVICE = TypeAdapter(Device)
_SETS: TypeAdapter[tuple[CounterSet, ...]] = TypeAdapter(Tuple[CounterSet])
_BARE = Device(name="")

_new: Callable[[type[Device]], Device] = object.__new__
_write_name = Device.__dict__["name"].__set__
_write_attributes = Device.__dict__["attributes"].__set__
# Slots are written directly: what goes in was validated field by field.
_FIELDS = tuple(
    (name, Device.__dict__[name].__set__, _remembered(_field, name), getattr(_BARE, name))
    for name in fields_of(Device)
    if name not in ("name", "attributes")
)
_READ_OF_SPEC: tuple[tuple[str, Callable[[bytes], Any]], ...] = (
    *(
        (name, partial(_plain, name))
        for name in fields_of(ResourceSliceSpec)
        if name not in ("devices", "shared_counters")
    ),
    ("shared_counters", lru_cache(SPELLINGS)(_sets)),
)
