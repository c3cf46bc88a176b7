"""The kinds of Kueue on a server, and the writes of an admission check."""

from typing import NamedTuple

from reconciler.api.objects.kueue import GROUP, VERSIONS, AdmissionCheck, Workload
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import JSON, Client, Raw
from reconciler.cluster.kinds import Resource
from reconciler.errors import Gone, Rejected


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
