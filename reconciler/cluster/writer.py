"""Writes decisions: allocations, their withdrawal, and the removal of scheduling gates. Source: CO-13.

Every write names the resourceVersion that it was decided from, so it applies to that version or not at
all. Nothing is retried here: after a Conflict the caller reads and decides again. Fields that a server
drops because their feature gate is off (ST-10) show only in the response to a write, and are recorded
here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

import structlog

from reconciler.api.objects.claims import (
    ALLOCATED_AT,
    FINALIZER,
    MAX_ALLOCATED_CONFIGS,
    TIERS,
    Allocation,
    ResourceClaim,
    is_announced,
    mark,
    signed,
)
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import FENCED, SEAT
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.api.objects.semantics import ADMIN_ACCESS, BINDING_CONDITIONS, CONSUMABLE_CAPACITY, TAINTS
from reconciler.api.versions.reading import read
from reconciler.api.versions.shapes import mapping
from reconciler.cluster.client import JSON, Client, Raw
from reconciler.cluster.discovery import CLAIM
from reconciler.cluster.kinds import Served
from reconciler.cluster.pod_writer import ungate
from reconciler.errors import Conflict, Gone, Inconsistent, Malformed, Undecided

log = structlog.get_logger()

_GATES = {
    "adminAccess": ADMIN_ACCESS,
    "bindingConditions": BINDING_CONDITIONS,
    "bindingFailureConditions": BINDING_CONDITIONS,
    "consumedCapacity": CONSUMABLE_CAPACITY,
    "shareID": CONSUMABLE_CAPACITY,
    "tolerations": TAINTS,
}
"""Field of a device in an allocation -> the gate that a server needs to keep it"""


class Dropped:
    """Records fields that the server changed in a write. Logs each field once."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        """Field -> the gate that is probably off; empty if none explains it"""

    def compare(self, plan: Plan, written: ResourceClaim) -> None:
        """Compare a plan with the response to its write."""
        results = written.allocation.devices.results if written.allocation else ()
        if results == plan.allocation.devices.results:
            return
        sent = [device.to_json() for device in plan.allocation.devices.results]
        stored = [device.to_json() for device in results]
        nothing: Raw = {}
        found = dict.fromkeys(
            f"status.allocation.devices.results[].{name}"
            for before, after in zip_longest(sent, stored, fillvalue=nothing)
            for name in _differing(before, after)
        )
        for field in found:
            if field not in self.fields:
                self.fields[field] = gate = _GATES.get(field.rpartition(".")[2], "")
                log.warning("API server dropped a field", field=field, gate=gate, claim=str(written.key))


def _differing(before: Raw, after: Raw) -> Iterator[str]:
    return (name for name in {**before, **after} if before.get(name) != after.get(name))


_UNMARKED: Mapping[str, str | None] = {ALLOCATED_AT: None, TIERS: None}
"""Annotations of a claim without an allocation of ours"""


class Writer:
    """Writes claims and pods. Raises the errors of `Client`; Gone means that there is nothing left to do.

    A cancelled request may have been applied, as with Undecided: read the object to find out.
    """

    def __init__(
        self, client: Client, served: Served, *, withdrawals: set[str], now: Callable[[], datetime]
    ) -> None:
        """`withdrawals` gets the uids of claims while they are withdrawn; `now` has a zone."""
        self._client = client
        self._claims = served.resources.get("ResourceClaim", CLAIM)
        self._pods = served["Pod"]
        self._now = now
        self._withdrawals = withdrawals
        self.dropped = Dropped()

    async def read_claim(self, key: ObjectKey) -> ResourceClaim | None:
        """The claim as the server has it now, or None if there is none. Raises Malformed."""
        try:
            raw = await self._client.get(self._claims, key)
        except Gone:
            return None
        return _claim(read(raw))

    async def write(self, plan: Plan, claim: ResourceClaim) -> ResourceClaim:
        """Allocate a claim, which must be the version of the plan. Returns it as stored.

        The first request adds the finalizer, without which nobody would free the devices of a deleted
        claim (CO-1), and the mark that identifies our allocations. Cancelled or failed between the two
        requests: the claim has the finalizer and no allocation, which is harmless; the next decision,
        or `release`, continues from there. A claim that was announced has both already (CO-14): then the
        allocation is the only request, and carries the mark.
        """
        if claim.deleting or claim.allocation is not None:
            state = "is being deleted" if claim.deleting else "is allocated already"
            raise Conflict(f"{claim.key} {state}, so {plan.allocation.devices.results} cannot be written")
        # Without the timestamp kube-scheduler can never reserve the claim (SCHED-10).
        stamp = f"{self._now().astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"
        if _needs_no_mark(plan, claim):
            written = await self._allocate(
                claim.key, plan.resource_version, signed(plan.allocation, stamp), stamp
            )
        else:
            written = await self._mark_and_allocate(plan, claim, stamp)
        self.dropped.compare(plan, written)
        return written

    async def withdraw(self, claim: ResourceClaim) -> ResourceClaim:
        """Remove an allocation that is not in use, then the finalizer. Returns the claim as stored.

        Raises Conflict for a reserved claim. Cancelled or failed between the two requests:
        the claim has the finalizer and no allocation, as in `write`.
        """
        if claim.status.reserved_for:
            raise Conflict(f"{claim.key} is reserved for {claim.status.reserved_for[0].name}")
        uid = claim.metadata.uid
        self._withdrawals.add(uid)
        try:
            if claim.allocation is not None:
                claim = await self._deallocate(claim)
            if FINALIZER not in claim.metadata.finalizers:
                return claim
            others = (finalizer for finalizer in claim.metadata.finalizers if finalizer != FINALIZER)
            return await self._mark(
                claim.key, claim.metadata.resource_version, others, {**_UNMARKED, **_no_seat(claim)}
            )
        finally:
            self._withdrawals.discard(uid)

    async def touch(self, claim: ResourceClaim) -> ResourceClaim:
        """Change only the resourceVersion, so that an earlier write that still arrives gets a conflict.

        Cancelled between the two requests: the claim has an annotation that means nothing.
        """
        key, finalizers = claim.key, claim.metadata.finalizers
        if FENCED not in claim.metadata.annotations:  # a patch that changes nothing keeps the version
            claim = await self._mark(key, claim.metadata.resource_version, finalizers, {FENCED: "true"})
        return await self._mark(key, claim.metadata.resource_version, finalizers, {FENCED: None})

    async def release(self, claim: ResourceClaim) -> None:
        """Withdraw a claim that is being deleted, so that the server removes it.

        Raises Conflict for a claim that is reserved or not being deleted.
        """
        if not claim.deleting:
            raise Conflict(f"{claim.key} is not being deleted")
        await self.withdraw(claim)

    async def ungate(self, pod: Pod) -> Pod:
        """Remove our scheduling gate from a pod; other gates stay. Returns the pod as stored.

        Cancelled: the gate may be removed.
        """
        return await ungate(self._client, self._pods, pod)

    async def _mark_and_allocate(self, plan: Plan, claim: ResourceClaim, stamp: str) -> ResourceClaim:
        finalizers = dict.fromkeys((*claim.metadata.finalizers, FINALIZER))
        annotations = {
            ALLOCATED_AT: mark(stamp, plan.allocation),
            **_no_seat(claim),
            **dict(plan.annotations),
        }
        marking = self._marking(claim.key, plan.resource_version, finalizers, annotations)
        version = _version(await self._client.patch(self._claims, claim.key, marking))
        return await self._allocate(claim.key, version, plan.allocation, stamp)

    async def _allocate(
        self, key: ObjectKey, version: str, allocation: Allocation, stamp: str
    ) -> ResourceClaim:
        # No merge patch: it would drop every null inside the opaque parameters.
        patch: list[Raw] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": _known(key, version)},
            {
                "op": "add",
                "path": "/status/allocation",
                "value": {**allocation.to_json(), "allocationTimestamp": stamp},
            },
        ]
        return _answer(
            await self._client.patch(self._claims, key, patch, content_type=JSON, subresource="status")
        )

    async def _deallocate(self, claim: ResourceClaim) -> ResourceClaim:
        patch = _from(claim.key, claim.metadata.resource_version, status={"allocation": None})
        return _answer(await self._client.patch(self._claims, claim.key, patch, subresource="status"))

    async def _mark(
        self, key: ObjectKey, version: str, finalizers: Iterable[str], annotations: Mapping[str, str | None]
    ) -> ResourceClaim:
        patch = self._marking(key, version, finalizers, annotations)
        return _answer(await self._client.patch(self._claims, key, patch))

    def _marking(
        self, key: ObjectKey, version: str, finalizers: Iterable[str], annotations: Mapping[str, str | None]
    ) -> Raw:
        # The patch replaces the whole list. The version makes sure that it is the list that was read.
        patch = _from(key, version)
        patch["metadata"] |= {"finalizers": list(finalizers) or None, "annotations": dict(annotations)}
        return patch


def _needs_no_mark(plan: Plan, claim: ResourceClaim) -> bool:
    """Whether the claim has all that must be written before its allocation."""
    return (
        is_announced(claim)
        and not plan.annotations
        and not _no_seat(claim)
        and len(plan.allocation.devices.config) < MAX_ALLOCATED_CONFIGS
    )


def _no_seat(claim: ResourceClaim) -> Mapping[str, str | None]:
    """Removes the annotation of an earlier allocation for a gang."""
    return {SEAT: None} if SEAT in claim.metadata.annotations else {}


def _from(key: ObjectKey, version: str, **parts: Any) -> Raw:
    """A merge patch that applies to one version only."""
    return {"metadata": {"resourceVersion": _known(key, version)}, **parts}


def _known(key: ObjectKey, version: str) -> str:
    """The version; an empty one would make the write unconditional (ST-9)."""
    if not version:
        raise Inconsistent(f"{key} has no resourceVersion to write from")
    return version


def _version(raw: Raw) -> str:
    """The version in the response to a write, which was applied even if the response is unreadable."""
    found = mapping(raw.get("metadata")).get("resourceVersion")
    return found if isinstance(found, str) and found else _answer(raw).metadata.resource_version


def _answer(raw: Raw) -> ResourceClaim:
    """The claim in the response to a write, which was applied even if the response is unreadable."""
    if raw.get("kind", CLAIM.kind) != CLAIM.kind:
        raise Inconsistent(f"a claim was read as {raw['kind']}")
    try:
        return _claim(read(raw))
    except Malformed as exc:
        raise Undecided(f"the answer to a write cannot be read: {exc}") from exc


def _claim(found: object) -> ResourceClaim:
    if not isinstance(found, ResourceClaim):
        raise Inconsistent(f"a claim was read as {type(found).__name__}")
    return found
