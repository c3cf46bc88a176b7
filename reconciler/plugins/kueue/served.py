"""Kueue's objects on a server: in which version it serves them, what it has, and what we write there."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from reconciler.api.objects.changes import Notice, Replaced, versions
from reconciler.api.objects.claims import ResourceClaimTemplate
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.cluster.client import JSON, Client, Raw
from reconciler.cluster.kinds import Resource
from reconciler.errors import Gone, Rejected
from reconciler.plugins.kueue.objects import GROUP, VERSIONS, AdmissionCheck, ResourceFlavor, Workload


class KueueKinds(NamedTuple):
    """Each in the version to use."""

    workload: Resource
    check: Resource
    """Only the check of the settings"""
    flavor: Resource


async def kueue_kinds(client: Client, check: str) -> KueueKinds:
    """The kinds of a server. Raises Rejected if it does not serve them."""
    try:
        found = await client.fetch(f"/apis/{GROUP}")
    except Gone:
        found = {}
    served = [one.get("version") for one in found.get("versions", ())]
    version = next((one for one in VERSIONS if one in served), None)
    if version is None:
        raise Rejected(
            f"setting kueue_check: the server does not serve {GROUP} in {' or '.join(VERSIONS)}: install "
            "Kueue, or unset kueue_check"
        )
    return KueueKinds(
        Resource("Workload", GROUP, version, "workloads", namespaced=True, page=100),
        Resource(
            "AdmissionCheck", GROUP, version, "admissionchecks", namespaced=False, only=ObjectKey("", check)
        ),
        Resource("ResourceFlavor", GROUP, version, "resourceflavors", namespaced=False),
    )


class KueueWriter:
    """Writes states of our check, and whether it is served. Raises the errors of `Client`."""

    def __init__(self, client: Client, kinds: KueueKinds) -> None:
        self._client, self._kinds = client, kinds

    async def write_state(self, workload: Workload, at: int, state: Raw) -> None:
        """Replace the state of our check, which is at this position. Raises Conflict if the Workload has
        changed since.
        """
        version = workload.metadata.resource_version
        steps: list[Raw] = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            {"op": "replace", "path": f"/status/admissionChecks/{at}", "value": state},
        ]
        await self._client.patch(
            self._kinds.workload, workload.key, steps, content_type=JSON, subresource="status"
        )

    async def activate(self, check: AdmissionCheck, condition: Raw) -> None:
        """Say that the check is served. Other conditions stay."""
        others = [one for one in check.status.conditions if one.get("type") != condition["type"]]
        metadata = {"resourceVersion": check.metadata.resource_version}
        patch = {"metadata": metadata, "status": {"conditions": [*others, condition]}}
        await self._client.patch(self._kinds.check, check.key, patch, subresource="status")


KINDS = ("Workload", "AdmissionCheck", "ResourceFlavor", "ResourceClaimTemplate")


class KueueObjects:
    """Nothing here awaits."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after each change."""
        self.workloads: dict[ObjectKey, Workload] = {}
        self.checks: dict[ObjectKey, AdmissionCheck] = {}
        self.flavors: dict[ObjectKey, ResourceFlavor] = {}
        self.templates: dict[ObjectKey, ResourceClaimTemplate] = {}
        self.serial = 0
        """Number of changes of objects that Workloads refer to"""
        self.listed = asyncio.Event()
        """Set when each kind was listed once"""
        self._unlisted = set(KINDS)
        self._changed = changed

    def take(self, change: Notice) -> None:
        """The sink of the watches of `KINDS`."""
        shelf = self._shelf(change.kind)
        for key, thing in versions(change, ApiObject, shelf):
            shelf.pop(key, None)
            if thing is not None:
                shelf[key] = thing
        if isinstance(change, Replaced):
            self._unlisted.discard(change.kind)
            if not self._unlisted:
                self.listed.set()
        if change.kind != "Workload":
            self.serial += 1
        self._changed()

    def _shelf(self, kind: str) -> dict[ObjectKey, Any]:
        shelves: dict[str, dict[ObjectKey, Any]] = {
            "Workload": self.workloads,
            "AdmissionCheck": self.checks,
            "ResourceFlavor": self.flavors,
            "ResourceClaimTemplate": self.templates,
        }
        return shelves[kind]
