"""A fast reader for pods. Most of their events are reports of kubelets that differ in times and messages.

It decodes only what the models read, a spec once, and a status once for all reports that mean the same. This
reader declines every unusual pod, so that `reading` reports what is wrong with it.
"""

from dataclasses import field
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from reconciler.api.objects.core import Pod, PodSpec, PodStatus
from reconciler.api.objects.model import built, given_text_of
from reconciler.api.objects.value import value
from reconciler.api.versions.metadata_text import MetadataText, metadata_of
from reconciler.api.versions.text_fields import cut_object, decoded, given, once, text_of, with_spec
from reconciler.errors import Malformed

KIND: Final = "Pod"
API_VERSION: Final = "v1"

CACHE_SIZE = 1 << 12
"""Distinct specs and statuses in the caches. The least recently used is dropped first."""


class _ContainerText(msgspec.Struct, rename="camel", gc=False):
    name: str | UnsetType = UNSET
    resources: Raw | UnsetType = UNSET
    allocated_resources: Raw | UnsetType = UNSET


class _StatusText(msgspec.Struct, rename="camel", gc=False):
    phase: str | UnsetType = UNSET
    start_time: str | UnsetType = UNSET
    nominated_node_name: str | UnsetType = UNSET
    resource_claim_statuses: Raw | UnsetType = UNSET
    container_statuses: list[_ContainerText] | UnsetType = UNSET
    init_container_statuses: list[_ContainerText] | UnsetType = UNSET


class _PodText(msgspec.Struct, rename="camel", gc=False):
    metadata: MetadataText
    spec: Raw | UnsetType = UNSET
    status: _StatusText | UnsetType = UNSET
    kind: str = KIND
    api_version: str | UnsetType = UNSET


class _Container(NamedTuple):
    """A status of a container, as text; None for a missing field."""

    name: str | None
    resources: bytes | None
    allocated: bytes | None


class _Status(NamedTuple):
    """What the models read of a status, as text; None for a missing field."""

    phase: str | None
    started: str | None
    nominated: str | None
    claims: bytes | None
    containers: tuple[_Container, ...] | None
    init_containers: tuple[_Container, ...] | None


_cut = msgspec.json.Decoder(_PodText).decode


def read_pod(text: bytes, api_version: str) -> Pod | None:
    """The pod; None if `reading.read` has to read it, which returns an equal pod or rejects it.

    `api_version` is for a pod without one, as in a list.
    """
    try:
        cut = cut_object(text, _cut, KIND, (API_VERSION,), default=api_version)
        if cut is None:
            return None
        fields: dict[str, Any] = {"kind": KIND, "metadata": metadata_of(cut.metadata)}
        if cut.spec is not UNSET:
            fields["spec"] = _spec(bytes(cut.spec))
        if cut.status is not UNSET:
            fields["status"] = _status_of(cut.status)
        return built(Pod, fields)
    except (Malformed, ValueError, RecursionError, msgspec.MsgspecError):  # pydantic's are ValueErrors
        return None


def _read_spec(text: bytes) -> PodSpec:
    """The spec of a pod. Raises Malformed and ValueError.

    Pods of one template share it: their texts differ in what is not read, such as names of tokens.
    """
    pod = with_spec(text, KIND, API_VERSION)
    assert isinstance(pod, Pod)
    spec: PodSpec = _shared(_Given(given_text_of(pod.spec), pod.spec))
    return spec


@value()
class _Given:
    """A spec, by the text of the fields that it has."""

    text: bytes
    spec: PodSpec = field(compare=False)


_shared = lru_cache(CACHE_SIZE)(attrgetter("spec"))
"""The first one of specs of equal texts"""
_spec = once(_read_spec, CACHE_SIZE)


def _status_of(cut: _StatusText) -> PodStatus:
    return _status(
        _Status(
            given(cut.phase),
            given(cut.start_time),
            given(cut.nominated_node_name),
            text_of(cut.resource_claim_statuses),
            _containers(cut.container_statuses),
            _containers(cut.init_container_statuses),
        )
    )


@lru_cache(CACHE_SIZE)
def _status(text: _Status) -> PodStatus:
    fields = {"phase": text.phase, "startTime": text.started, "nominatedNodeName": text.nominated}
    return PodStatus.model_validate(
        {name: value for name, value in fields.items() if value is not None}
        | decoded({"resourceClaimStatuses": text.claims})
        | _decoded_containers("containerStatuses", text.containers)
        | _decoded_containers("initContainerStatuses", text.init_containers)
    )


def _containers(cuts: list[_ContainerText] | UnsetType) -> tuple[_Container, ...] | None:
    if cuts is UNSET:
        return None
    return tuple([
        _Container(given(cut.name), text_of(cut.resources), text_of(cut.allocated_resources)) for cut in cuts
    ])  # fmt: skip


def _decoded_containers(field: str, containers: tuple[_Container, ...] | None) -> dict[str, Any]:
    if containers is None:
        return {}
    return {
        field: [
            ({} if one.name is None else {"name": one.name})
            | decoded({"resources": one.resources, "allocatedResources": one.allocated})
            for one in containers
        ]
    }
