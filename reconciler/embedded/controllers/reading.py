"""Questions that the controllers ask of pods and claims."""

from typing import Any

from reconciler.embedded.kinds import Object

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
_FINISHED = ("Succeeded", "Failed")


def status(obj: Object) -> Object:
    """The status of an object, empty where it has none."""
    return obj.get("status") or {}


def is_deleting(obj: Object) -> bool:
    """Whether deletion has been asked for."""
    return "deletionTimestamp" in obj["metadata"]


def is_finished(pod: Object) -> bool:
    """Whether a pod has run to its end."""
    return status(pod).get("phase") in _FINISHED


def claim_names(pod: Object) -> dict[str, str | None]:
    """The pod's claims by the pod's own names: "" where not generated yet, None where none is needed."""
    generated = {
        entry["name"]: entry.get("resourceClaimName")
        for entry in status(pod).get("resourceClaimStatuses", ())
    }
    return {
        claim["name"]: claim.get("resourceClaimName") or generated.get(claim["name"], "")
        for claim in pod["spec"].get("resourceClaims", ())
    }


def claim_keys(pod: Object) -> list[str]:
    """Where the pod's claims are kept."""
    namespace = pod["metadata"]["namespace"]
    return [f"{namespace}/{name}" for name in claim_names(pod).values() if name]


def reserved_for(claim: Object) -> list[Object]:
    """The consumers of a claim."""
    return status(claim).get("reservedFor", [])


def owner_pod(claim: Object) -> Object | None:
    """The reference to the pod that a generated claim belongs to."""
    metadata = claim["metadata"]
    if POD_CLAIM not in metadata.get("annotations", {}):
        return None
    owners: list[dict[str, Any]] = metadata.get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller") and owner["kind"] == "Pod"), None)
