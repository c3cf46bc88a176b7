"""A fast reader for the metadata of slices and nodes, of which a fleet has as many as machines.

Fields are read from JSON text without those that a server adds for itself. Names of managers and their fields
are half of a small slice.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from reconciler.api.objects.meta import ObjectMeta, OwnerReference
from reconciler.api.objects.model import built

CACHE_SIZE = 1 << 10
"""Distinct texts in the cache of one field"""
MAX_CACHED_BYTES = 1 << 12
"""Maximum bytes of a cached text. An annotation may be of any size"""


class _OwnerText(msgspec.Struct, rename="camel", gc=False):
    api_version: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    uid: str | UnsetType = UNSET
    controller: bool | UnsetType = UNSET


class _MetadataText(msgspec.Struct, rename="camel", gc=False):
    """Fields as text if slices and nodes seldom have them, or share them."""

    name: str
    uid: str | UnsetType = UNSET
    resource_version: str | UnsetType = UNSET
    creation_timestamp: str | UnsetType = UNSET
    generation: Raw | UnsetType = UNSET
    labels: Raw | UnsetType = UNSET
    annotations: Raw | UnsetType = UNSET
    owner_references: list[_OwnerText] | UnsetType = UNSET
    namespace: Raw | UnsetType = UNSET
    finalizers: Raw | UnsetType = UNSET
    deletion_timestamp: Raw | UnsetType = UNSET


_cut = msgspec.json.Decoder(_MetadataText).decode
_labels = msgspec.json.Decoder(dict[str, str]).decode
_PLAIN = ("uid", "resource_version", "creation_timestamp")
_RARE = ("namespace", "finalizers", "deletion_timestamp")


def read_metadata(text: Raw) -> ObjectMeta:
    """The metadata, equal to what the models read. Raises ValueError if they cannot read it either."""
    try:
        return _read(_cut(text))
    except (ValueError, msgspec.MsgspecError):
        return ObjectMeta.model_validate_json(bytes(text))


def _read(cut: _MetadataText) -> ObjectMeta:
    """Raises ValueError or MsgspecError for metadata that only the models can judge."""
    if not cut.name or any(getattr(cut, name) is not UNSET for name in _RARE):
        raise ValueError("metadata with rare fields")
    fields: dict[str, Any] = {"name": cut.name}
    for name in _PLAIN:
        value = getattr(cut, name)
        if value is not UNSET:
            fields[name] = value
    if cut.generation is not UNSET:
        fields["generation"] = _number(bytes(cut.generation))
    if cut.labels is not UNSET:
        fields["labels"] = _shared(bytes(cut.labels))
    if cut.annotations is not UNSET:
        fields["annotations"] = _shared(bytes(cut.annotations))
    if cut.owner_references is not UNSET:
        fields["owner_references"] = tuple([_owner(owner) for owner in cut.owner_references])
    return built(ObjectMeta, fields)


def _shared(text: bytes) -> dict[str, str]:
    """Labels or annotations. Equal ones share one object."""
    return _cached_labels(text) if len(text) <= MAX_CACHED_BYTES else _labels(text)


def _number(text: bytes) -> int:
    """A whole number, and no other way to write one."""
    if not text.isdigit():
        raise ValueError(f"{text!r} is no generation")
    return int(text)


def _owner(cut: _OwnerText) -> OwnerReference:
    fields = {name: value for name in _OWNER_FIELDS if (value := getattr(cut, name)) is not UNSET}
    return built(OwnerReference, fields)


_OWNER_FIELDS = _OwnerText.__struct_fields__
_cached_labels: Callable[[bytes], dict[str, str]] = lru_cache(CACHE_SIZE)(_labels)
