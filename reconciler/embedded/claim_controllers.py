"""Controllers that create the claims of pods and PodGroups from templates (RCC-1, GANG-24), and that
deallocate claims like the resourceclaim controller (RCC-2 to RCC-8).
"""

from collections.abc import Callable, Iterable

from reconciler.api.objects.claims import POD_CLAIM, SPECIAL_CLAIM
from reconciler.api.validation.bodies import Refusal
from reconciler.api.validation.kinds import Object, ServedKind
from reconciler.api.validation.served_kinds import CLAIM, POD, POD_GROUP, TEMPLATE
from reconciler.embedded.api import ApiServer
from reconciler.embedded.store import Change

FINALIZER = "resource.kubernetes.io/delete-protection"
SPECIAL = "<extended resources>"
"""In place of a name that the pod has for the claim of its extended resources"""
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
    named = {
        claim["name"]: claim.get("resourceClaimName") or generated.get(claim["name"], "")
        for claim in pod["spec"].get("resourceClaims", ())
    }
    special = status(pod).get("extendedResourceClaimStatus") or {}
    return {**named, SPECIAL: special["resourceClaimName"]} if special else named


def claim_keys(pod: Object) -> list[str]:
    """The store keys of the pod's claims."""
    namespace = pod["metadata"]["namespace"]
    return [f"{namespace}/{name}" for name in claim_names(pod).values() if name]


def reserved_for(claim: Object) -> list[Object]:
    """The consumers of a claim."""
    return status(claim).get("reservedFor", [])


def owner_of(claim: Object, kind: str) -> Object | None:
    """The owner reference of a generated claim to its Pod or PodGroup."""
    metadata = claim["metadata"]
    if not {POD_CLAIM, SPECIAL_CLAIM} & metadata.get("annotations", {}).keys():
        return None
    owners: list[Object] = metadata.get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller") and owner["kind"] == kind), None)


def update_status(api: ApiServer, kind: ServedKind, obj: Object, change: Callable[[Object], Object]) -> None:
    """Replace the status of an object by the result of `change`, which gets the present one."""
    metadata = obj["metadata"]
    api.update(
        kind,
        metadata.get("namespace", ""),
        metadata["name"],
        lambda shown: {**shown, "status": change(status(shown))},
        subresource="status",
    )


class ClaimGenerator:
    """Generates the claims of one kind of owners. Remembers those that wait for a template."""

    def __init__(self, api: ApiServer, owners: ServedKind, reference: Object) -> None:
        """`reference` is the reference to an owner, without name and uid."""
        self._api = api
        self._owners = owners
        self._reference = reference
        self._waiting: dict[str, set[str]] = {}

    def woken_by(self, template: str) -> Iterable[str]:
        """The keys of the owners that wait for a template."""
        return self._waiting.pop(template, ())

    def generate_missing(self, owner: Object, name_of: Callable[[Object], str]) -> None:
        """Write the names of all claims that can be had to the status of their owner.

        `name_of` finds or creates the claim of one entry; empty if it cannot be had now.
        """
        known = {entry["name"] for entry in status(owner).get("resourceClaimStatuses", ())}
        generated = [
            {"name": wanted["name"], "resourceClaimName": name}
            for wanted in owner["spec"].get("resourceClaims", ())
            if "resourceClaimTemplateName" in wanted and wanted["name"] not in known
            if (name := name_of(wanted))
        ]

        def written(before: Object) -> Object:
            return {**before, "resourceClaimStatuses": [*before.get("resourceClaimStatuses", ()), *generated]}

        if generated:
            update_status(self._api, self._owners, owner, written)

    def generate(self, owner: Object, wanted: Object) -> str:
        """Create the claim for an entry of an owner; its name, or empty if it cannot be created now."""
        metadata = owner["metadata"]
        namespace = metadata["namespace"]
        template_key = f"{namespace}/{wanted['resourceClaimTemplateName']}"
        template = self._api.store[TEMPLATE].get(template_key)
        if template is not None:
            inner = template.object.get("spec") or {}
            given = inner.get("metadata", {})
            claim = {
                "metadata": {
                    "generateName": f"{metadata['name']}-{wanted['name']}-",
                    "labels": given.get("labels", {}),
                    "annotations": {**given.get("annotations", {}), POD_CLAIM: wanted["name"]},
                    "ownerReferences": [
                        {**self._reference, "name": metadata["name"], "uid": metadata["uid"]}
                    ],
                },
                "spec": inner.get("spec") or {},
            }
            try:
                return str(self._api.create(CLAIM, namespace, claim)["metadata"]["name"])
            except Refusal:
                pass  # admin access without the namespace's label, for example: waits for another template
        self._waiting.setdefault(template_key, set()).add(f"{namespace}/{metadata['name']}")
        return ""


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
        self._claims.generate_missing(
            group,
            lambda wanted: (
                claim_of_group(self._api, group, wanted["name"]) or self._claims.generate(group, wanted)
            ),
        )


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
        metadata, owner = record.object["metadata"], owner_of(record.object, "PodGroup")
        is_own = owner is not None and owner["uid"] == group["metadata"]["uid"]
        if is_own and metadata["annotations"][POD_CLAIM] == entry:
            return str(metadata["name"])
    return ""


class ClaimController:
    """Removes the reservations of pods that are deleted or finished, and with the last one the allocation."""

    subject = CLAIM
    sources = (CLAIM, POD, POD_GROUP)

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def keys(self, change: Change) -> Iterable[str]:
        """The claim itself, the claims of a pod that is deleted or finished, or those of a deleted group."""
        if change.record.kind is CLAIM:
            return [change.record.key]
        if change.record.kind is POD_GROUP:
            return self._claims_of_group(change.record.object) if change.deleted else ()
        if change.deleted or is_finished(change.record.object):
            return claim_keys(change.record.object)
        return ()

    def reconcile(self, key: str) -> None:
        """Remove reservations, allocation and claim that are no longer needed."""
        record = self._api.store[CLAIM].get(key)
        if record is None:
            return
        claim = record.object
        before = reserved_for(claim)
        kept = [entry for entry in before if self._in_use(claim, entry)]
        held = FINALIZER in claim["metadata"].get("finalizers", ())
        # RCC-3: an allocation is removed with the last reservation or with the claim, never alone.
        free = held and not kept and (bool(before) or is_deleting(claim))
        if kept != before or (free and status(claim).get("allocation")):
            self._release(claim, kept, free=free)
        if free:
            self._drop_finalizer(claim)
        if not kept and self._is_orphan(claim) and not is_deleting(claim):
            self._api.delete(CLAIM, claim["metadata"]["namespace"], claim["metadata"]["name"])

    def _in_use(self, claim: Object, entry: Object) -> bool:
        """RCC-8: consumers that are neither pods nor PodGroups always count as in use."""
        if entry.get("resource") == "podgroups" and entry.get("apiGroup") == GROUP:
            return self._is_active(POD_GROUP, claim, entry)
        if entry.get("resource") != "pods" or entry.get("apiGroup"):
            return True
        return self._is_active(POD, claim, entry)

    def _is_active(self, kind: ServedKind, claim: Object, consumer: Object) -> bool:
        """Whether a pod or group exists that is not finished: a consumer, or the owner of a claim."""
        record = self._api.store[kind].get(f"{claim['metadata']['namespace']}/{consumer['name']}")
        if record is None or record.object["metadata"]["uid"] != consumer["uid"]:
            return False
        return kind is not POD or not is_finished(record.object)

    def _claims_of_group(self, group: Object) -> list[str]:
        """The claims that a group owns or has reserved."""
        uid = group["metadata"]["uid"]
        return [
            record.key
            for record in self._api.store[CLAIM].scan(f"{group['metadata']['namespace']}/")
            if any(
                one.get("uid") == uid
                for one in (
                    *reserved_for(record.object),
                    *record.object["metadata"].get("ownerReferences", ()),
                )
            )
        ]

    def _is_orphan(self, claim: Object) -> bool:
        """RCC-6: generated for a pod that is deleted, replaced or finished, or for a group that is gone."""
        group = owner_of(claim, "PodGroup")
        if group is not None:
            return not self._is_active(POD_GROUP, claim, group)
        owner = owner_of(claim, "Pod")
        return owner is not None and not self._is_active(POD, claim, owner)

    def _release(self, claim: Object, kept: list[Object], *, free: bool) -> None:
        dropped = ("allocation", "devices") if free else ()

        def released(before: Object) -> Object:
            return {key: value for key, value in before.items() if key not in dropped} | {"reservedFor": kept}

        update_status(self._api, CLAIM, claim, released)

    def _drop_finalizer(self, claim: Object) -> None:
        def dropped(shown: Object) -> Object:
            rest = [item for item in shown["metadata"].get("finalizers", ()) if item != FINALIZER]
            return {**shown, "metadata": {**shown["metadata"], "finalizers": rest}}

        metadata = claim["metadata"]
        self._api.update(CLAIM, metadata["namespace"], metadata["name"], dropped)


class TemplateController:
    """Generates the claims of pods and writes their names to the pods' status."""

    subject = POD
    sources = (POD, TEMPLATE, POD_GROUP)

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        reference = {"apiVersion": "v1", "kind": "Pod", "controller": True, "blockOwnerDeletion": True}
        self._claims = ClaimGenerator(api, POD, reference)

    def keys(self, change: Change) -> Iterable[str]:
        """The pod itself, the pods that wait for a template, or those of a PodGroup."""
        if change.record.kind is POD:
            return [change.record.key]
        if change.record.kind is POD_GROUP:
            namespace, _, name = change.record.key.partition("/")
            return [
                record.key
                for record in self._api.store[POD].scan(f"{namespace}/")
                if group_name(record.object) == name
            ]
        return self._claims.woken_by(change.record.key)

    def reconcile(self, key: str) -> None:
        """Generate the missing claims of a pod."""
        record = self._api.store[POD].get(key)
        if record is None or is_deleting(record.object) or is_finished(record.object):
            return
        pod = record.object
        group = group_of(self._api, pod)
        if group_name(pod) and group is None:
            return  # it says whose claims the entries of the pod are

        def name_of(wanted: Object) -> str:
            if group is not None and is_of_group(wanted, group):
                return claim_of_group(self._api, group, wanted["name"])
            return self._claims.generate(pod, wanted)

        self._claims.generate_missing(pod, name_of)
