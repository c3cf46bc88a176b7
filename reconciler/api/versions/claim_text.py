"""A fast reader for claims of the current version. It reads JSON text and parses each distinct spec once.

A spec never changes, but each claim arrives several times, and most claims have the same spec as others. This
reader declines every unusual claim, so that `reading` reports what is wrong with it.
"""

from functools import lru_cache
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from pydantic_core import from_json

from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec, ResourceClaimStatus
from reconciler.api.objects.meta import ObjectMeta
from reconciler.api.versions.reading import read
from reconciler.errors import Malformed

KIND: Final = "ResourceClaim"
API_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")

CACHE_SIZE = 1 << 12
"""Distinct specs in the cache. The least recently used is dropped first."""
MAX_CACHED_BYTES = 1 << 14
"""Maximum bytes of a cached spec. Opaque parameters may be of any size."""


class _ClaimText(msgspec.Struct, rename="camel", gc=False):
    metadata: Raw
    spec: Raw
    status: Raw | UnsetType = UNSET
    kind: str = KIND
    api_version: str | UnsetType = UNSET


_split = msgspec.json.Decoder(_ClaimText).decode


def read_claim(text: bytes, api_version: str) -> ResourceClaim | None:
    """The claim; None if `reading.read` has to read it, which returns an equal claim or rejects it.

    `api_version` is for a claim without one, as in a list.
    """
    try:
        cut = _split(text)
        version = api_version if cut.api_version is UNSET else cut.api_version
        if cut.kind != KIND or version not in API_VERSIONS:
            return None
        spec = bytes(cut.spec)
        parts = {
            "metadata": ObjectMeta.model_validate_json(bytes(cut.metadata)),
            "spec": _spec(spec) if len(spec) <= MAX_CACHED_BYTES else _read_spec(spec),
        }
        if cut.status is not UNSET:
            parts["status"] = ResourceClaimStatus.model_validate_json(bytes(cut.status))
        return ResourceClaim.model_validate({"kind": KIND, **parts})
    except (Malformed, ValueError, RecursionError, msgspec.MsgspecError):  # pydantic's are ValueErrors
        return None


def _read_spec(text: bytes) -> ResourceClaimSpec:
    """The spec of a claim. Raises Malformed, also for older shapes, and ValueError."""
    spec = from_json(text)
    claim = read({"kind": KIND, "apiVersion": API_VERSIONS[0], "metadata": {"name": "any"}, "spec": spec})
    if not isinstance(claim, ResourceClaim):
        raise TypeError(f"a claim was read as {type(claim).__name__}")
    return claim.spec


_spec = lru_cache(CACHE_SIZE)(_read_spec)
