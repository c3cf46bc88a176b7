"""Parts that keep a record of held room. None without a ConfigMap, and where no room is held."""

from collections.abc import Callable

import structlog

from reconciler.api.objects.meta import ObjectKey
from reconciler.app.foundation import Foundation, now
from reconciler.cluster.client import Client
from reconciler.control.held_room.keeper import HeldRoomKeeper
from reconciler.control.held_room.takeover import HeldRoomTakeover
from reconciler.control.intake import Intake
from reconciler.control.kept_config_map import KeptConfigMap
from reconciler.settings import Settings

log = structlog.get_logger()


def held_room_config_map(settings: Settings, client: Client) -> KeptConfigMap | None:
    """Where held room is written down."""
    if settings.held_room_config_map is None or settings.mode == "shadow":
        return None
    if settings.preemption != "evict" and not settings.kueue_check:
        return None
    namespace, _, name = settings.held_room_config_map.partition("/")
    key = ObjectKey(namespace, name)

    def tell(error: str, remedy: str) -> None:
        log.warning("held room not written down", config_map=str(key), error=error, remedy=remedy)

    return KeptConfigMap(client, key, on_problem=tell)


def takeover_of(base: Foundation, intake: Intake, kept: KeptConfigMap) -> HeldRoomTakeover:
    """What a new leader does before its first decision."""
    settings = base.settings
    # Room is held for longer than its usual time only while the next eviction has to wait, at most as long.
    most = 2 * max(settings.nomination_seconds, settings.kueue_hold_seconds)
    return HeldRoomTakeover(intake, kept, most_seconds=most, clock=base.clock, now=now)


def keeper_of(intake: Intake, kept: KeptConfigMap, leads: Callable[[], bool]) -> HeldRoomKeeper:
    """What writes the record. `leads` says whether this process may write."""
    return HeldRoomKeeper(intake.store.nominations, intake.nominating, kept, writes=leads)
