"""A fast reader for the metadata of objects of which a fleet has thousands.

Fields are read from JSON text without those that a server adds for itself. Names of managers and their fields
are half of a small slice.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from reconciler.api.objects.meta import ObjectMeta, OwnerReference
from reconciler.api.objects.model import built
from reconciler.api.versions.text_fields import once

CACHE_SIZE = 1 << 10
"""Distinct texts in the cache of one field"""
MAX_CACHED_MAP = 1 << 12
"""Maximum bytes of labels or annotations in the cache. An annotation may be of any size"""


class _OwnerText(msgspec.Struct, rename="camel", gc=False):
    api_version: str | UnsetType = UNSET
    kind: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    uid: str | UnsetType = UNSET
    controller: bool | UnsetType = UNSET


class MetadataText(msgspec.Struct, rename="camel", gc=False):
    """The fields that we read, as text if many objects share them. For use in larger structures."""

    name: str
    uid: str | UnsetType = UNSET
    resource_version: str | UnsetType = UNSET
    creation_timestamp: str | UnsetType | None = UNSET
    generation: Raw | UnsetType = UNSET
    labels: Raw | UnsetType = UNSET
    annotations: Raw | UnsetType = UNSET
    owner_references: list[_OwnerText] | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    finalizers: list[str] | UnsetType = UNSET
    deletion_timestamp: str | UnsetType | None = UNSET


_strings = msgspec.json.Decoder(dict[str, str]).decode


def metadata_of(cut: MetadataText) -> ObjectMeta:
    """The metadata, equal to what the models read. Raises ValueError for what only they can judge."""
    name, uid, version, created, generation, labels, annotations, owners, *rare = astuple(cut)
    if not name:
        raise ValueError("metadata without a name")
    fields: dict[str, Any] = {"name": name}
    if uid is not UNSET:
        fields["uid"] = uid
    if version is not UNSET:
        fields["resource_version"] = version
    if created is not UNSET:
        fields["creation_timestamp"] = created
    if generation is not UNSET:
        fields["generation"] = _number(bytes(generation))
    if labels is not UNSET:
        fields["labels"] = _labels(bytes(labels))
    if annotations is not UNSET:
        fields["annotations"] = _annotations(bytes(annotations))
    if owners is not UNSET:
        fields["owner_references"] = tuple([_owner(owner) for owner in owners])
    if rare != _NOTHING_RARE:
        _add_rare(cut, fields)
    return built(ObjectMeta, fields)


def _add_rare(cut: MetadataText, fields: dict[str, Any]) -> None:
    if cut.namespace is not UNSET:
        fields["namespace"] = cut.namespace
    if cut.finalizers is not UNSET:
        fields["finalizers"] = tuple(cut.finalizers)
    if cut.deletion_timestamp is not UNSET:
        fields["deletion_timestamp"] = cut.deletion_timestamp


def _decoded(text: bytes) -> dict[str, str]:
    """Labels or annotations. Raises ValueError for other values."""
    return {} if text == b"null" else _strings(text)


_labels = once(_decoded, CACHE_SIZE, MAX_CACHED_MAP)
_annotations = once(_decoded, CACHE_SIZE, MAX_CACHED_MAP)
"""Equal ones share one object. Annotations with a time, which each object has for itself, must not push out
labels."""


def _number(text: bytes) -> int:
    """A whole number, and no other way to write one."""
    if not text.isdigit():
        raise ValueError(f"{text!r} is no generation")
    return int(text)


def _owner(cut: _OwnerText) -> OwnerReference:
    values = zip(_OWNER_FIELDS, astuple(cut), strict=True)
    return built(OwnerReference, {name: value for name, value in values if value is not UNSET})


_OWNER_FIELDS = _OwnerText.__struct_fields__
_NOTHING_RARE = [UNSET] * 3
