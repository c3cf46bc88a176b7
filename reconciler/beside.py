"""What it takes to live beside another scheduler, put together: pause, audit, the door to the server."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from random import random
from typing import Any

from reconciler.aio.tasks import forever
from reconciler.cluster.client import Client
from reconciler.cluster.guard import Guarded, never
from reconciler.cluster.kinds import config_map
from reconciler.cluster.transport import Transport
from reconciler.cluster.watch import Sink, follow
from reconciler.objects.core import ConfigMap
from reconciler.objects.meta import ObjectKey
from reconciler.objects.validating import validated
from reconciler.reconcile.auditing import Auditor
from reconciler.reconcile.deciding import Decider
from reconciler.reconcile.decisions import Tell
from reconciler.reconcile.intake import Intake
from reconciler.reconcile.ownership import Ownership
from reconciler.reconcile.pausing import PauseReasons, Switch
from reconciler.reconcile.shadow import Shadow
from reconciler.settings import Settings


def guarded(settings: Settings, transport: Transport, pause: PauseReasons) -> Transport:
    """A transport that sends no write while writes are paused, and none at all in shadow mode."""
    if settings.mode == "shadow":
        return Guarded(transport, never)
    return Guarded(transport, pause.check)


def sidelines(
    settings: Settings, client: Client, intake: Intake, tell: Tell
) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
    """What runs beside deciding, by name: each for ever, until cancelled."""
    auditor = Auditor(intake.changed, intake.store, tell, settings.audit_seconds, intake.audit)
    yield "audit", auditor.run()
    if settings.mode == "shadow":  # nothing to pause
        return
    if settings.pause:
        intake.pause.set("setting", "the setting `pause` says so")
    if settings.pause_config_map is not None:
        namespace, _, name = settings.pause_config_map.partition("/")
        yield "watch the switch", _watch_switch(client, ObjectKey(namespace, name), intake)


def shadowing(
    settings: Settings,
    intake: Intake,
    ours: Ownership,
    sink: Sink,
    *,
    clock: Callable[[], float],
    tell: Tell,
) -> Shadow | None:
    """Who looks on instead of deciding, if the settings want it."""
    if settings.mode != "shadow":
        return None
    return Shadow(
        intake,
        Decider(ours, steps=settings.search_steps),
        sink=sink,
        pending_seconds=settings.shadow_pending_seconds,
        clock=clock,
        tell=tell,
    )


async def _watch_switch(client: Client, key: ObjectKey, intake: Intake) -> None:
    switch = Switch(key, intake.pause)
    watch = follow(
        client,
        config_map(key),
        sink=switch.take,
        random=random,
        decode=lambda raw: validated(ConfigMap, raw),
    )
    await forever("switch", watch)


def started(group: asyncio.TaskGroup, named: Iterator[tuple[str, Coroutine[Any, Any, None]]]) -> list[Any]:
    """Tasks of a group, by name."""
    return [group.create_task(work, name=name) for name, work in named]
