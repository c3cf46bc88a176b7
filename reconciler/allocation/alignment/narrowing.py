"""The wishes of a claim that has fewer requests than it was written with."""

import json
from collections.abc import Collection
from typing import Any

from reconciler.allocation.alignment.preferences import JOINT, PARTITION
from reconciler.api.objects.claims import ResourceClaim


def narrowed(claim: ResourceClaim, kept: Collection[str]) -> ResourceClaim:
    """The claim with what its annotations wish for the requests in `kept`; its wishes must be understood.

    What is wished for requests that are gone is gone. What classes wish is of their requests anyway.
    """
    annotations = dict(claim.metadata.annotations)
    if JOINT in annotations:
        wished = json.loads(annotations[JOINT])
        found = [_narrow(one, kept) for one in (wished if isinstance(wished, list) else [wished])]
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
