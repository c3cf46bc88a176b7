"""Asks the API server once what it serves, before the parts are built."""

import structlog
from msgspec import Struct

from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover, discover_at_least_pods, unserved
from reconciler.cluster.features import missing_gates
from reconciler.cluster.kinds import Served
from reconciler.cluster.koordinator import with_devices
from reconciler.errors import Rejected
from reconciler.settings import Settings

log = structlog.get_logger()


class Found(Struct, frozen=True):
    """The kinds that the server serves, and the feature gates that it lacks."""

    served: Served
    off: frozenset[str]


async def discovered(client: Client, settings: Settings) -> Found:
    """Ask the server. Raises Rejected if it does not serve the kinds that the settings need."""
    if not settings.koordinator:
        served = await discover(client)
    else:
        served = await with_devices(client, await _beside_devices(client, settings))
    return Found(served, await missing_gates(client, served))


def log_lacks(found: Found) -> None:
    """Log kinds and gates that the server lacks."""
    missing = unserved(found.served)
    if "ResourceClaim" not in found.served:
        log.info("ResourceClaims are not served", not_served=missing, gates=sorted(found.off))
    elif missing or found.off:
        log.info("API server lacks kinds or feature gates", not_served=missing, gates=sorted(found.off))


async def _beside_devices(client: Client, settings: Settings) -> Served:
    """Claims are required only if the settings need them."""
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
