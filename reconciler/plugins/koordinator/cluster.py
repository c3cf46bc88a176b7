"""Koordinator's resource definition on a server."""

from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, discover_at_least_pods, serves
from reconciler.cluster.kinds import Resource, Served
from reconciler.errors import Rejected
from reconciler.settings import Settings

DEVICE = Resource("Device", "scheduling.koordinator.sh", "v1alpha1", "devices", namespaced=False, page=50)
"""Small pages: one object describes all devices of a node, with every virtual function."""


async def with_devices(client: Client, served: Served) -> Served:
    """The kinds of a server and Koordinator's Device. Raises Rejected if that is not served."""
    if not await serves(client, DEVICE):
        raise Rejected(
            f"the server does not serve {DEVICE.plural}.{DEVICE.group} in {DEVICE.version}: install "
            "Koordinator's resource definition, or run without --koordinator"
        )
    return Served({**served.resources, DEVICE.kind: DEVICE})


async def kinds_beside_devices(client: Client, settings: Settings) -> Served:
    """The other kinds. Claims are required only if the settings need them."""
    if settings.mode != "shadow" and not (
        settings.all_claims or settings.own_drivers or settings.own_classes
    ):
        return await discover_at_least_pods(client)
    try:
        return await discover(client)
    except Rejected as exc:
        remedy = (
            "To give Koordinator's devices alone, drop --own-driver, --own-class, --all-claims, --mode shadow"
        )
        raise Rejected(f"{exc} {remedy}") from exc
