"""A fast reader for nodes. It decodes only what the models read, and equal parts of nodes once.

A node lists dozens of images; machines of one type agree in what counts. This reader declines every unusual
node, so that `reading` reports what is wrong with it.
"""

from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from pydantic_core import from_json

from reconciler.api.objects.core import Node, NodeSpec, NodeStatus
from reconciler.api.objects.model import built
from reconciler.api.versions.metadata_text import MetadataText, metadata_of

API_VERSION: Final = "v1"

CACHE_SIZE = 1 << 10
"""Distinct specs and statuses in the caches. The least recently used is dropped first."""
MAX_CACHED_BYTES = 1 << 14
"""Maximum bytes of a cached text"""


class _SpecText(msgspec.Struct, gc=False):
    unschedulable: bool | UnsetType = UNSET
    taints: Raw | UnsetType = UNSET


class _ConditionText(msgspec.Struct, gc=False):
    type: str
    status: str | UnsetType = UNSET


class _StatusText(msgspec.Struct, rename="camel"):
    declared_features: Raw | UnsetType = UNSET
    allocatable: Raw | UnsetType = UNSET
    conditions: list[_ConditionText] | UnsetType = UNSET


class _NodeText(msgspec.Struct, rename="camel"):
    metadata: MetadataText
    spec: _SpecText | UnsetType = UNSET
    status: _StatusText | UnsetType = UNSET
    kind: str = "Node"
    api_version: str | UnsetType = UNSET


_cut = msgspec.json.Decoder(_NodeText).decode


def read_node(text: bytes, api_version: str) -> Node | None:
    """The node; None if `reading.read` has to read it, which returns an equal node or rejects it.

    `api_version` is for a node without one, as in a list.
    """
    try:
        if not text.isascii():
            text.decode()  # also checks the fields that are not decoded
        cut = _cut(text)
        version = api_version if cut.api_version is UNSET else cut.api_version
        if cut.kind != "Node" or version != API_VERSION:
            return None
        fields: dict[str, Any] = {"metadata": metadata_of(cut.metadata)}
        if cut.spec is not UNSET:
            fields["spec"] = _spec(cut.spec.unschedulable, _bytes(cut.spec.taints))
        if cut.status is not UNSET:
            fields["status"] = _status_of(cut.status)
        return built(Node, fields)
    except (ValueError, RecursionError, msgspec.MsgspecError):  # pydantic's errors are ValueErrors
        return None


def _status_of(cut: _StatusText) -> NodeStatus:
    conditions = None
    if cut.conditions is not UNSET:
        conditions = tuple([(one.type, one.status) for one in cut.conditions])
    return _status(_bytes(cut.declared_features), _bytes(cut.allocatable), conditions)


@lru_cache(CACHE_SIZE)
def _spec(unschedulable: bool | UnsetType, taints: bytes) -> NodeSpec:
    fields: dict[str, Any] = {} if unschedulable is UNSET else {"unschedulable": unschedulable}
    return NodeSpec.model_validate(fields | _decoded(taints=taints))


@lru_cache(CACHE_SIZE)
def _status(
    features: bytes, allocatable: bytes, conditions: tuple[tuple[str, str | UnsetType], ...] | None
) -> NodeStatus:
    fields = _decoded(declaredFeatures=features, allocatable=allocatable)
    if conditions is not None:
        fields["conditions"] = [
            {"type": kind} if status is UNSET else {"type": kind, "status": status}
            for kind, status in conditions
        ]
    return NodeStatus.model_validate(fields)


def _bytes(text: Raw | UnsetType) -> bytes:
    """The text of a field, empty if it is missing. Raises ValueError if it is too long to be cached."""
    if text is UNSET:
        return b""
    found = bytes(text)
    if len(found) > MAX_CACHED_BYTES:
        raise ValueError("a field of unusual length")
    return found


def _decoded(**fields: bytes) -> dict[str, Any]:
    return {name: from_json(text) for name, text in fields.items() if text}
