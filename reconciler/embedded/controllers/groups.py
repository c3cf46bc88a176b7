"""Generate the claims of PodGroups from templates; find the entries of pods that stand for them (GANG-24)."""

from collections.abc import Iterable

from reconciler.api.validation.kinds import Object
from reconciler.api.validation.served_kinds import CLAIM, POD_GROUP, TEMPLATE
from reconciler.api.validation.status import Refusal
from reconciler.embedded.controllers.reading import POD_CLAIM, is_deleting, status
from reconciler.embedded.server.api import ApiServer
from reconciler.embedded.server.kind_store import Change

GROUP = POD_GROUP.group


class PodGroupController:
    """Generates the claims of PodGroups and writes their names to the groups' status."""

    subject = POD_GROUP
    sources = (POD_GROUP, TEMPLATE)

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._waiting: dict[str, set[str]] = {}

    def keys(self, change: Change) -> Iterable[str]:
        """The group itself, or the groups that wait for a template."""
        if change.record.kind is POD_GROUP:
            return [change.record.key]
        return self._waiting.pop(change.record.key, ())

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
                name = claim_of_group(self._api, group, wanted["name"]) or self._generate(group, key, wanted)
                if name:
                    generated.append({"name": wanted["name"], "resourceClaimName": name})
        if generated:
            self._write_status(group, generated)

    def _generate(self, group: Object, key: str, wanted: Object) -> str:
        namespace = group["metadata"]["namespace"]
        template_key = f"{namespace}/{wanted['resourceClaimTemplateName']}"
        template = self._api.store[TEMPLATE].get(template_key)
        if template is None:
            self._waiting.setdefault(template_key, set()).add(key)
            return ""
        inner = template.object["spec"]
        metadata = inner.get("metadata", {})
        owner = {"apiVersion": str(POD_GROUP.stored), "kind": "PodGroup", "controller": True}
        owner |= {key: group["metadata"][key] for key in ("name", "uid")}
        claim = {
            "metadata": {
                "generateName": f"{group['metadata']['name']}-{wanted['name']}-",
                "labels": metadata.get("labels", {}),
                "annotations": {**metadata.get("annotations", {}), POD_CLAIM: wanted["name"]},
                "ownerReferences": [owner],
            },
            "spec": inner["spec"],
        }
        try:
            return self._api.create(CLAIM, namespace, claim)["metadata"]["name"]
        except Refusal:
            return ""

    def _write_status(self, group: Object, generated: list[Object]) -> None:
        def written(shown: Object) -> Object:
            before = status(shown)
            entries = [*before.get("resourceClaimStatuses", ()), *generated]
            return {**shown, "status": {**before, "resourceClaimStatuses": entries}}

        metadata = group["metadata"]
        self._api.update(POD_GROUP, metadata["namespace"], metadata["name"], written, subresource="status")


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
