"""Claims of the current version straight from their text. Specs that are spelled alike are read once.

What a claim asks for never changes, while news of it come several times a claim; and most claims ask for the
same as others do. Whatever is odd in any way is not read here, so that `reading` says what is wrong with it.
"""

from functools import lru_cache
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType
from pydantic_core import from_json

from reconciler.errors import Malformed
from reconciler.legacy.reading import read
from reconciler.objects.claims import ResourceClaim, ResourceClaimSpec, ResourceClaimStatus
from reconciler.objects.meta import ObjectMeta

KIND: Final = "ResourceClaim"
API_VERSIONS: Final = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")

SPELLINGS = 1 << 12
"""Distinct specs that are remembered. Those that are used least are forgotten first."""
LONGEST = 1 << 14
"""Bytes of a spec that is remembered. Opaque parameters may be of any size."""


class _ClaimText(msgspec.Struct, rename="camel", gc=False):
    metadata: Raw
    spec: Raw
    status: Raw | UnsetType = UNSET
    kind: str = KIND
    api_version: str | UnsetType = UNSET


_cut = msgspec.json.Decoder(_ClaimText).decode


def read_claim(text: bytes, api_version: str) -> ResourceClaim | None:
    """The claim, or None where `reading.read` has to look at it: that gives an equal claim, or refuses it.

    `api_version` is that of a claim which does not say its own, as in a listing.
    """
    try:
        cut = _cut(text)
        version = api_version if cut.api_version is UNSET else cut.api_version
        if cut.kind != KIND or version not in API_VERSIONS:
            return None
        spec = bytes(cut.spec)
        parts = {
            "metadata": ObjectMeta.model_validate_json(bytes(cut.metadata)),
            "spec": _spec(spec) if len(spec) <= LONGEST else _read_spec(spec),
        }
        if cut.status is not UNSET:
            parts["status"] = ResourceClaimStatus.model_validate_json(bytes(cut.status))
        return ResourceClaim.model_validate({"kind": KIND, **parts})
    except (Malformed, ValueError, RecursionError, msgspec.MsgspecError):  # pydantic's are ValueErrors
        return None


def _read_spec(text: bytes) -> ResourceClaimSpec:
    """What a claim asks for. Raises Malformed, also for shapes of old, and ValueError."""
    spec = from_json(text)
    claim = read({"kind": KIND, "apiVersion": API_VERSIONS[0], "metadata": {"name": "any"}, "spec": spec})
    if not isinstance(claim, ResourceClaim):
        raise TypeError(f"a claim was read as {type(claim).__name__}")
    return claim.spec


_spec = lru_cache(SPELLINGS)(_read_spec)
