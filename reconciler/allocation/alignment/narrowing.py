"""The preferences of a claim after some of its requests are removed."""

import json
from collections.abc import Collection
from typing import Any

from reconciler.allocation.alignment.preferences import JOINT, PARTITION
from reconciler.api.objects.claims import ResourceClaim


def narrowed(claim: ResourceClaim, kept: Collection[str]) -> ResourceClaim:
    """The claim with only those preferences of its annotations that concern requests in `kept`.

    The annotations must be valid. Preferences of classes need no change: they follow the requests.
    """
    annotations = dict(claim.metadata.annotations)
    if JOINT in annotations:
        written = json.loads(annotations[JOINT])
        found = [_narrow(one, kept) for one in (written if isinstance(written, list) else [written])]
        annotations[JOINT] = json.dumps([one for one in found if one is not None] if kept else [])
    if PARTITION in annotations:
        one = _narrow(json.loads(annotations[PARTITION]), kept)
        if one is not None:
            annotations[PARTITION] = json.dumps(one)
        else:
            del annotations[PARTITION]
    metadata = claim.metadata.model_copy(update={"annotations": annotations})
    return claim.model_copy(update={"metadata": metadata})


def _narrow(preference: dict[str, Any], kept: Collection[str]) -> dict[str, Any] | None:
    named = preference.get("requests") or []
    still = [name for name in named if name in kept]
    if named and not still:
        return None
    return {**preference, "requests": still}
