"""A fast reader for nodes. It decodes only what the models read, and equal parts of nodes once.

A node lists dozens of images; machines of one type agree in what counts. This reader declines every unusual
node, so that `reading` reports what is wrong with it.
"""

from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from reconciler.api.objects.core import Node, NodeSpec, NodeStatus
from reconciler.api.objects.model import built
from reconciler.api.versions.metadata_text import MetadataText, metadata_of
from reconciler.api.versions.text_fields import cut_object, decoded, text_of

KIND: Final = "Node"
API_VERSION: Final = "v1"

CACHE_SIZE = 1 << 10
"""Distinct specs and statuses in the caches. The least recently used is dropped first."""


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
    kind: str = KIND
    api_version: str | UnsetType = UNSET


_cut = msgspec.json.Decoder(_NodeText).decode


def read_node(text: bytes, api_version: str) -> Node | None:
    """The node; None if `reading.read` has to read it, which returns an equal node or rejects it.

    `api_version` is for a node without one, as in a list.
    """
    try:
        cut = cut_object(text, _cut, KIND, (API_VERSION,), default=api_version)
        if cut is None:
            return None
        fields: dict[str, Any] = {"metadata": metadata_of(cut.metadata)}
        if cut.spec is not UNSET:
            fields["spec"] = _spec(cut.spec.unschedulable, text_of(cut.spec.taints))
        if cut.status is not UNSET:
            fields["status"] = _status_of(cut.status)
        return built(Node, fields)
    except (ValueError, RecursionError, msgspec.MsgspecError):  # pydantic's errors are ValueErrors
        return None


def _status_of(cut: _StatusText) -> NodeStatus:
    conditions = None
    if cut.conditions is not UNSET:
        conditions = tuple([(one.type, one.status) for one in cut.conditions])
    return _status(text_of(cut.declared_features), text_of(cut.allocatable), conditions)


@lru_cache(CACHE_SIZE)
def _spec(unschedulable: bool | UnsetType, taints: bytes | None) -> NodeSpec:
    fields: dict[str, Any] = {} if unschedulable is UNSET else {"unschedulable": unschedulable}
    return NodeSpec.model_validate(fields | decoded({"taints": taints}))


@lru_cache(CACHE_SIZE)
def _status(
    features: bytes | None,
    allocatable: bytes | None,
    conditions: tuple[tuple[str, str | UnsetType], ...] | None,
) -> NodeStatus:
    fields = decoded({"declaredFeatures": features, "allocatable": allocatable})
    if conditions is not None:
        fields["conditions"] = [
            {"type": kind} if status is UNSET else {"type": kind, "status": status}
            for kind, status in conditions
        ]
    return NodeStatus.model_validate(fields)
