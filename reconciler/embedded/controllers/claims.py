"""Deallocate claims like the resourceclaim controller (RCC-2 to RCC-8)."""

from collections.abc import Iterable

from reconciler.api.validation.kinds import Object
from reconciler.api.validation.served_kinds import CLAIM, POD, POD_GROUP
from reconciler.embedded.controllers.groups import GROUP, owner_group
from reconciler.embedded.controllers.reading import (
    FINALIZER,
    claim_keys,
    is_deleting,
    is_finished,
    owner_pod,
    reserved_for,
    status,
)
from reconciler.embedded.server.api import ApiServer
from reconciler.embedded.server.kind_store import Change


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
            return self._is_group(claim, entry["name"], entry["uid"])
        if entry.get("resource") != "pods" or entry.get("apiGroup"):
            return True
        return self._is_active(claim, entry["name"], entry["uid"])

    def _is_active(self, claim: Object, name: str, uid: str) -> bool:
        record = self._api.store[POD].get(f"{claim['metadata']['namespace']}/{name}")
        return (
            record is not None and record.object["metadata"]["uid"] == uid and not is_finished(record.object)
        )

    def _is_group(self, claim: Object, name: str, uid: str) -> bool:
        record = self._api.store[POD_GROUP].get(f"{claim['metadata']['namespace']}/{name}")
        return record is not None and record.object["metadata"]["uid"] == uid

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
        group = owner_group(claim)
        if group is not None:
            return not self._is_group(claim, group["name"], group["uid"])
        owner = owner_pod(claim)
        return owner is not None and not self._is_active(claim, owner["name"], owner["uid"])

    def _release(self, claim: Object, kept: list[Object], *, free: bool) -> None:
        def released(shown: Object) -> Object:
            new = {**status(shown), "reservedFor": kept}
            if free:
                new = {key: value for key, value in new.items() if key not in ("allocation", "devices")}
            return {**shown, "status": new}

        metadata = claim["metadata"]
        self._api.update(CLAIM, metadata["namespace"], metadata["name"], released, subresource="status")

    def _drop_finalizer(self, claim: Object) -> None:
        def dropped(shown: Object) -> Object:
            rest = [item for item in shown["metadata"].get("finalizers", ()) if item != FINALIZER]
            return {**shown, "metadata": {**shown["metadata"], "finalizers": rest}}

        metadata = claim["metadata"]
        self._api.update(CLAIM, metadata["namespace"], metadata["name"], dropped)
