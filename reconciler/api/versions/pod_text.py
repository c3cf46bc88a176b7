"""A fast reader for pods. Most of their events are reports of kubelets that differ in times and messages.

It decodes only what the models read, a spec once, and a status once for all reports that mean the same. This
reader declines every unusual pod, so that `reading` reports what is wrong with it.
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType
from pydantic_core import from_json

from reconciler.api.objects.core import Pod, PodSpec, PodStatus
from reconciler.api.objects.model import built
from reconciler.api.versions.metadata_text import MetadataText, metadata_of
from reconciler.api.versions.reading import read
from reconciler.errors import Malformed

KIND: Final = "Pod"
API_VERSION: Final = "v1"

CACHE_SIZE = 1 << 12
"""Distinct specs and statuses in the caches. The least recently used is dropped first."""
MAX_CACHED_BYTES = 1 << 14
"""Maximum bytes of a cached text. Annotations and environments may be of any size"""


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
        if not text.isascii():
            text.decode()  # also checks the fields that are not decoded
        cut = _cut(text)
        version = api_version if cut.api_version is UNSET else cut.api_version
        if cut.kind != KIND or version != API_VERSION:
            return None
        fields: dict[str, Any] = {"kind": KIND, "metadata": metadata_of(cut.metadata)}
        if cut.spec is not UNSET:
            spec = bytes(cut.spec)
            fields["spec"] = _spec(spec) if len(spec) <= MAX_CACHED_BYTES else _read_spec(spec)
        if cut.status is not UNSET:
            fields["status"] = _status_of(cut.status)
        return built(Pod, fields)
    except (Malformed, ValueError, RecursionError, msgspec.MsgspecError):  # pydantic's are ValueErrors
        return None


def _read_spec(text: bytes) -> PodSpec:
    """The spec of a pod. Raises Malformed and ValueError."""
    pod = read({
        "kind": KIND, "apiVersion": API_VERSION, "metadata": {"name": "any"}, "spec": from_json(text),
    })  # fmt: skip
    if not isinstance(pod, Pod):
        raise TypeError(f"a pod was read as {type(pod).__name__}")
    return pod.spec


_spec = lru_cache(CACHE_SIZE)(_read_spec)


def _status_of(cut: _StatusText) -> PodStatus:
    return _status(
        _Status(
            _given(cut.phase),
            _given(cut.start_time),
            _given(cut.nominated_node_name),
            _bytes(cut.resource_claim_statuses),
            _containers(cut.container_statuses),
            _containers(cut.init_container_statuses),
        )
    )


@lru_cache(CACHE_SIZE)
def _status(text: _Status) -> PodStatus:
    fields: dict[str, Any] = {
        "phase": text.phase,
        "startTime": text.started,
        "nominatedNodeName": text.nominated,
        "resourceClaimStatuses": _decoded(text.claims),
        "containerStatuses": _decoded_containers(text.containers),
        "initContainerStatuses": _decoded_containers(text.init_containers),
    }
    return PodStatus.model_validate({name: value for name, value in fields.items() if value is not None})


def _containers(cuts: list[_ContainerText] | UnsetType) -> tuple[_Container, ...] | None:
    if cuts is UNSET:
        return None
    return tuple([
        _Container(_given(cut.name), _bytes(cut.resources), _bytes(cut.allocated_resources)) for cut in cuts
    ])  # fmt: skip


def _decoded_containers(containers: tuple[_Container, ...] | None) -> list[dict[str, Any]] | None:
    if containers is None:
        return None
    found = []
    for one in containers:
        fields = {
            "name": one.name,
            "resources": _decoded(one.resources),
            "allocatedResources": _decoded(one.allocated),
        }
        found.append({name: value for name, value in fields.items() if value is not None})
    return found


def _given(value: str | UnsetType) -> str | None:
    return None if value is UNSET else value


def _bytes(text: Raw | UnsetType) -> bytes | None:
    """The text of a field. Raises ValueError for null, and if it is too long to be cached."""
    if text is UNSET:
        return None
    found = bytes(text)
    if found == b"null" or len(found) > MAX_CACHED_BYTES:
        raise ValueError("an unusual field")
    return found


def _decoded(text: bytes | None) -> Any:
    return None if text is None else from_json(text)
