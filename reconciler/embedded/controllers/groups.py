"""Generate the claims of PodGroups from templates; find the entries of pods that stand for them (GANG-24)."""

from collections.abc import Iterable

from reconciler.api.objects.claims import POD_CLAIM
from reconciler.api.validation.kinds import Object
from reconciler.api.validation.served_kinds import CLAIM, POD_GROUP, TEMPLATE
from reconciler.embedded.controllers.generating import ClaimGenerator
from reconciler.embedded.controllers.reading import is_deleting, status
from reconciler.embedded.server.api import ApiServer
from reconciler.embedded.server.kind_store import Change

GROUP = POD_GROUP.group


class PodGroupController:
    """Generates the claims of PodGroups and writes their names to the groups' status."""

    subject = POD_GROUP
    sources = (POD_GROUP, TEMPLATE)

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        reference = {"apiVersion": str(POD_GROUP.stored), "kind": "PodGroup", "controller": True}
        self._claims = ClaimGenerator(api, POD_GROUP, reference)

    def keys(self, change: Change) -> Iterable[str]:
        """The group itself, or the groups that wait for a template."""
        if change.record.kind is POD_GROUP:
            return [change.record.key]
        return self._claims.woken_by(change.record.key)

    def reconcile(self, key: str) -> None:
        """Generate the missing claims of a group."""
        record = self._api.store[POD_GROUP].get(key)
        if record is None or is_deleting(record.object):
            return
        group = record.object
        known = {entry["name"] for entry in status(group).get("resourceClaimStatuses", ())}
        generated = []
        for wanted in group["spec"].get("resourceClaims", ()):
            if "resourceClaimTemplateName" in wanted and wanted["name"] not in known:
                name = claim_of_group(self._api, group, wanted["name"])
                name = name or self._claims.generate(group, wanted)
                if name:
                    generated.append({"name": wanted["name"], "resourceClaimName": name})
        if generated:
            self._claims.write_names(group, generated)


def group_name(pod: Object) -> str:
    """The PodGroup that a pod names; else empty."""
    return (pod["spec"].get("schedulingGroup") or {}).get("podGroupName") or ""


def group_of(api: ApiServer, pod: Object) -> Object | None:
    """The PodGroup of a pod, if it exists."""
    record = api.store[POD_GROUP].get(f"{pod['metadata']['namespace']}/{group_name(pod)}")
    return record.object if record is not None else None


def is_of_group(entry: Object, group: Object | None) -> bool:
    """Whether an entry of a pod's `resourceClaims` stands for one of its group: all of it is equal."""
    keys = ("name", "resourceClaimName", "resourceClaimTemplateName")
    return group is not None and any(
        all(entry.get(key) == other.get(key) for key in keys)
        for other in group["spec"].get("resourceClaims", ())
    )


def claim_of_group(api: ApiServer, group: Object, entry: str) -> str:
    """The name of the claim that was generated for an entry of a group; else empty."""
    for record in api.store[CLAIM].scan(f"{group['metadata']['namespace']}/"):
        metadata, owner = record.object["metadata"], owner_group(record.object)
        is_own = owner is not None and owner["uid"] == group["metadata"]["uid"]
        if is_own and metadata["annotations"][POD_CLAIM] == entry:
            return str(metadata["name"])
    return ""


def owner_group(claim: Object) -> Object | None:
    """The owner reference of a generated claim to its PodGroup."""
    metadata = claim["metadata"]
    if POD_CLAIM not in metadata.get("annotations", {}):
        return None
    owners: list[Object] = metadata.get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller") and owner["kind"] == "PodGroup"), None)
