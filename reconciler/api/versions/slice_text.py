"""A fast reader for slices of the current version. It parses each distinct text once and shares the value.

Most specs equal a known one but for some strings (`spec_patterns`). The others are split
into fields without decoding them. Each field goes through the same models as in
`reading`, but once for each distinct text, since drivers publish the same products, capacities and draws
again and again. This reader declines every unusual slice, so that `reading` reports what is wrong with it.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple
from pydantic import TypeAdapter
from pydantic_core import from_json

from reconciler.api.objects.model import ON_USE, Tuple, built, fields_of
from reconciler.api.objects.slices import (
    CounterSet,
    Device,
    DeviceAttribute,
    ResourceSlice,
    ResourceSliceSpec,
    has_many_names,
)
from reconciler.api.versions.extensions import ANNOTATION
from reconciler.api.versions.metadata_text import MetadataText, metadata_of
from reconciler.api.versions.shapes import mappings
from reconciler.api.versions.spec_patterns import SpecPatterns
from reconciler.api.versions.text_fields import cut_object

KIND: Final = "ResourceSlice"
API_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")

CACHE_SIZE = 1 << 15
"""Distinct texts in the cache of one field. The least recently used is dropped first."""
ATTRIBUTES_CACHE_SIZE = 1 << 13
"""For all attributes of a device together: they are often unique, because of a serial number."""


class _UseFullReader(Exception):
    """The module `reading` must read the slice."""


class _DeviceText(msgspec.Struct, rename="camel", gc=False):
    """A device with its fields as text; also the fields that identify older shapes."""

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
    consumes_capacity_from: Raw | UnsetType = UNSET


class _StringText(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An attribute that is a string."""

    string: str


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
    spec: Raw
    metadata: MetadataText
    kind: str = KIND
    api_version: str | UnsetType = UNSET


_cut = msgspec.json.Decoder(_SliceText).decode
_split_spec = msgspec.json.Decoder(_SpecText).decode
_string = msgspec.json.Decoder(_StringText).decode
_split_map = msgspec.json.Decoder(dict[str, Raw]).decode

_FIRST_OLDER = _DeviceText.__struct_fields__.index("basic")
_NO_OLDER = (UNSET,) * (len(_DeviceText.__struct_fields__) - _FIRST_OLDER)
_OLDER_IN_SPEC = ("mixins", "device_mixins")
_INCLUDING = ("consumes_counters", "shared_counters")
"""Lists whose entries have `includes` in an older shape."""


def read_slice(text: bytes, api_version: str, *, listed: bool = False) -> ResourceSlice | None:
    """The slice; None if `reading.read` has to read it, which returns an equal slice or rejects it.

    `api_version` is for a slice without one, as in a list. `listed` slices are compared with one another.
    """
    try:
        cut = cut_object(text, _cut, KIND, API_VERSIONS, default=api_version)
        return None if cut is None else _slice(cut, listed=listed)
    except (
        _UseFullReader,
        ValueError,
        RecursionError,
        msgspec.MsgspecError,
    ):  # pydantic's errors are ValueErrors
        return None


def _slice(cut: _SliceText, *, listed: bool) -> ResourceSlice:
    metadata = metadata_of(cut.metadata)
    if ANNOTATION in metadata.annotations:
        raise _UseFullReader
    spec = _specs.read(bytes(cut.spec), learn=listed)
    return built(ResourceSlice, {"metadata": metadata, "spec": spec})


def _spec(text: bytes) -> ResourceSliceSpec:
    """The spec of a slice. Raises _UseFullReader for an unusual one, ValueError for an invalid one."""
    cut = _split_spec(text)
    if any(getattr(cut, name) is not UNSET for name in _OLDER_IN_SPEC):
        raise _UseFullReader
    fields = {
        name: read(bytes(spelled))
        for name, read in _READ_OF_SPEC
        if (spelled := getattr(cut, name)) is not UNSET
    }
    fields["devices"] = tuple([_device(device) for device in cut.devices or ()])
    spec = _SPEC.validate_python(fields)
    if has_many_names(spec):
        raise _UseFullReader
    return spec


def _device(cut: _DeviceText) -> Device:
    fields = astuple(cut)
    if fields[_FIRST_OLDER:] != _NO_OLDER:
        raise _UseFullReader
    device = _new(Device)
    _write_name(device, intern(fields[0]))
    attributes = fields[1]
    _write_attributes(device, {} if attributes is UNSET else _attributes(bytes(attributes)))
    for (write, read, default), spelled in zip(_FIELDS, fields[2:], strict=False):
        write(device, default if spelled is UNSET else read(bytes(spelled)))
    return device


@lru_cache(ATTRIBUTES_CACHE_SIZE)
def _attributes(text: bytes) -> Mapping[str, DeviceAttribute]:
    return {intern(key): _attribute(bytes(value)) for key, value in _split_map(text).items()}


@lru_cache(CACHE_SIZE)
def _attribute(text: bytes) -> DeviceAttribute:
    if text.startswith(b'{"string":'):  # most are; serial numbers are used once, so the cache does not help
        try:
            string = _string(text).string
        except msgspec.MsgspecError:
            pass
        else:
            attribute = _new_attribute(DeviceAttribute)
            for write in _WRITES_OF_ATTRIBUTE:
                write(attribute, None)
            _write_string(attribute, string)
            return attribute
    return _ATTRIBUTE.validate_python(from_json(text))


def _field(name: str, text: bytes) -> Any:
    """A field of a device. Raises ValueError, or _UseFullReader for an older shape."""
    value = _plain(name, text)
    return getattr(_DEVICE.validate_python({"name": "", name: value}), name)


def _plain(name: str, text: bytes) -> Any:
    value = from_json(text)
    if name in _INCLUDING and any("includes" in entry for entry in mappings(value)):
        raise _UseFullReader
    return intern(value) if isinstance(value, str) else value


def _sets(text: bytes) -> Any:
    """Shared counter sets: machines of one model have the same text."""
    return _SETS.validate_python(_plain("shared_counters", text))


def _cached(read: Callable[[str, bytes], Any], name: str) -> Callable[[bytes], Any]:
    return lru_cache(CACHE_SIZE)(partial(read, name))


_ATTRIBUTE = TypeAdapter(DeviceAttribute)
_DEVICE = TypeAdapter(Device)
_SPEC = TypeAdapter(ResourceSliceSpec)
_SETS: TypeAdapter[tuple[CounterSet, ...]] = TypeAdapter(Tuple[CounterSet], config=ON_USE)

_FIELDS_OF_DEVICE = fields_of(Device)
_new: Callable[[type[Device]], Device] = object.__new__
_write_name = Device.__dict__["name"].__set__
_write_attributes = Device.__dict__["attributes"].__set__
_new_attribute: Callable[[type[DeviceAttribute]], DeviceAttribute] = object.__new__
_write_string = DeviceAttribute.__dict__["string"].__set__
# Slots are written directly: each field is already validated.
_WRITES_OF_ATTRIBUTE = tuple(DeviceAttribute.__dict__[name].__set__ for name in fields_of(DeviceAttribute))
_FIELDS: tuple[tuple[Callable[[Device, Any], None], Callable[[bytes], Any], Any], ...] = tuple(
    (
        Device.__dict__[name].__set__,
        _cached(_field, name),
        _FIELDS_OF_DEVICE[name].get_default(call_default_factory=True),
    )
    for name in _DeviceText.__struct_fields__[2:_FIRST_OLDER]
)
"""How each field of `_DeviceText` after the first two is written and read, and its default"""
_READ_OF_SPEC: tuple[tuple[str, Callable[[bytes], Any]], ...] = (
    *(
        (name, partial(_plain, name))
        for name in fields_of(ResourceSliceSpec)
        if name not in ("devices", "shared_counters")
    ),
    ("shared_counters", lru_cache(CACHE_SIZE)(_sets)),
)

_specs = SpecPatterns(_spec)
