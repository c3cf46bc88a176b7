"""A fast reader for claims of the current version. It reads JSON text and parses each distinct spec once.

A spec never changes, but each claim arrives several times, and most claims have the same spec as others. This
reader declines every unusual claim, so that `reading` reports what is wrong with it.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec
from reconciler.api.objects.model import built
from reconciler.api.versions.claim_status_text import read_status
from reconciler.api.versions.metadata_text import MetadataText, metadata_of
from reconciler.api.versions.text_fields import cut_object, once, with_spec
from reconciler.errors import Malformed

KIND: Final = "ResourceClaim"
API_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")

CACHE_SIZE = 1 << 12
"""Distinct specs in the cache"""


class _ClaimText(msgspec.Struct, rename="camel", gc=False):
    metadata: MetadataText
    spec: Raw
    status: Raw | UnsetType = UNSET
    kind: str = KIND
    api_version: str | UnsetType = UNSET


_cut = msgspec.json.Decoder(_ClaimText).decode


def read_claim(text: bytes, api_version: str) -> ResourceClaim | None:
    """The claim; None if `reading.read` has to read it, which returns an equal claim or rejects it. (The
    models also take fields by their names in Python, which no API server sends and which are ignored here.)

    `api_version` is for a claim without one, as in a list.
    """
    try:
        cut = cut_object(text, _cut, KIND, API_VERSIONS, default=api_version)
        if cut is None:
            return None
        parts: dict[str, Any] = {
            "kind": KIND,
            "metadata": metadata_of(cut.metadata),
            "spec": _spec(bytes(cut.spec)),
        }
        if cut.status is not UNSET:
            parts["status"] = read_status(bytes(cut.status))
        return built(ResourceClaim, parts)
    except (Malformed, ValueError, RecursionError, msgspec.MsgspecError):  # pydantic's are ValueErrors
        return None


def _read_spec(text: bytes) -> ResourceClaimSpec:
    """The spec of a claim. Raises Malformed, also for older shapes, and ValueError."""
    claim = with_spec(text, KIND, API_VERSIONS[0])
    assert isinstance(claim, ResourceClaim)
    return claim.spec


_spec = once(_read_spec, CACHE_SIZE)
