"""Koordinator's resource definition on a server."""

from reconciler.cluster.client import Client
from reconciler.cluster.kinds import Resource, Served
from reconciler.errors import Gone, Rejected

DEVICE = Resource("Device", "scheduling.koordinator.sh", "v1alpha1", "devices", namespaced=False, page=50)
"""Small pages: one object describes all devices of a node, with every virtual function."""


async def with_devices(client: Client, served: Served) -> Served:
    """The kinds of a server and Koordinator's Device. Raises Rejected if that is not served."""
    try:
        listing = await client.fetch(DEVICE.root)
    except Gone:
        listing = {}
    if DEVICE.plural not in [entry["name"] for entry in listing.get("resources", ())]:
        raise Rejected(
            f"the server does not serve {DEVICE.plural}.{DEVICE.group} in {DEVICE.version}: install "
            "Koordinator's resource definition, or run without --koordinator"
        )
    return Served({**served.resources, DEVICE.kind: DEVICE})
