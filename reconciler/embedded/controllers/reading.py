"""Read fields of pods and claims, for the controllers."""

from typing import Any

from reconciler.api.objects.claims import POD_CLAIM
from reconciler.api.validation.kinds import Object

FINALIZER = "resource.kubernetes.io/delete-protection"
_FINISHED = ("Succeeded", "Failed")


def status(obj: Object) -> Object:
    """The status of an object; empty if it has none."""
    return obj.get("status") or {}


def is_deleting(obj: Object) -> bool:
    """Whether the object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def is_finished(pod: Object) -> bool:
    """Whether a pod has succeeded or failed."""
    return status(pod).get("phase") in _FINISHED


def claim_names(pod: Object) -> dict[str, str | None]:
    """Claim names by the pod's own names: "" if not generated yet, None if no claim is needed."""
    generated = {
        entry["name"]: entry.get("resourceClaimName")
        for entry in status(pod).get("resourceClaimStatuses", ())
    }
    return {
        claim["name"]: claim.get("resourceClaimName") or generated.get(claim["name"], "")
        for claim in pod["spec"].get("resourceClaims", ())
    }


def claim_keys(pod: Object) -> list[str]:
    """The store keys of the pod's claims."""
    namespace = pod["metadata"]["namespace"]
    return [f"{namespace}/{name}" for name in claim_names(pod).values() if name]


def reserved_for(claim: Object) -> list[Object]:
    """The consumers of a claim."""
    return status(claim).get("reservedFor", [])


def owner_pod(claim: Object) -> Object | None:
    """The owner reference of a generated claim to its pod."""
    metadata = claim["metadata"]
    if POD_CLAIM not in metadata.get("annotations", {}):
        return None
    owners: list[dict[str, Any]] = metadata.get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller") and owner["kind"] == "Pod"), None)
