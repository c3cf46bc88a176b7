"""Parts for running beside another scheduler: the guard on writes, the pause switch, shadow mode."""

from collections.abc import Callable
from functools import partial
from random import random

from reconciler.aio.tasks import forever
from reconciler.api.objects.meta import ObjectKey
from reconciler.app.foundation import Foundation
from reconciler.app.from_settings import Job
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import config_map
from reconciler.cluster.transport import GuardedTransport, PauseReasons, Transport
from reconciler.cluster.watch import Sink, follow
from reconciler.control.decider import Decider
from reconciler.control.decisions.declaration import Report
from reconciler.control.demand import PoliciesInUse
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.shadow import Shadow
from reconciler.control.waiting import Pause, Switch
from reconciler.settings import Settings


def guarded(base: Foundation, pause: PauseReasons) -> Transport:
    """A transport that sends no write while writes are paused. Shadow mode has its own guard."""
    return base.transport if base.settings.mode == "shadow" else GuardedTransport(base.transport, pause.check)


def switches(settings: Settings, client: Client, pause: Pause) -> list[Job]:
    """Pause as the settings say, and follow their ConfigMap. Not in shadow mode."""
    if settings.mode == "shadow":
        return []
    if settings.pause:
        pause.set("setting", "the setting `pause` says so")
    if settings.pause_config_map is None:
        return []
    namespace, _, name = settings.pause_config_map.partition("/")
    key = ObjectKey(namespace, name)
    return [Job("watch the switch", partial(_watch_switch, client, key, Switch(key, pause)))]


def shadow_of(
    settings: Settings,
    intake: Intake,
    ours: Ownership,
    sink: Sink,
    policies: PoliciesInUse,
    *,
    clock: Callable[[], float],
    report: Report,
) -> Shadow | None:
    """In shadow mode, the part that compares decisions instead of writing them."""
    if settings.mode != "shadow":
        return None
    return Shadow(
        intake,
        Decider(ours, steps=settings.search_steps),
        sink=sink,
        policies=policies,
        pending_seconds=settings.shadow_pending_seconds,
        clock=clock,
        report=report,
    )


async def _watch_switch(client: Client, key: ObjectKey, switch: Switch) -> None:
    watch = follow(
        client,
        config_map(key),
        sink=switch.take,
        random=random,
    )
    await forever("switch", watch)
