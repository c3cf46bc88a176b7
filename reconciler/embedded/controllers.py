"""Controllers for demos: claims from templates, running pods, deallocated claims, ready nodes.

Each change of the store maps to keys, and each key is reconciled in one step.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from reconciler.api.validation.kinds import ServedKind
from reconciler.embedded.api import ApiServer
from reconciler.embedded.claim_controllers import ClaimController, PodGroupController, TemplateController
from reconciler.embedded.garbage import collectors
from reconciler.embedded.pod_controllers import NodeController, PodController, Schedule
from reconciler.embedded.store import Change, Compacted

_BATCH = 256


class Controller(Protocol):
    """Reconciles the objects of one key."""

    @property
    def subject(self) -> ServedKind:
        """The kind of the keys to reconcile."""

    @property
    def sources(self) -> Sequence[ServedKind]:
        """The kinds to watch."""

    def keys(self, change: Change) -> Iterable[str]:
        """The keys that a change may affect."""

    def reconcile(self, key: str) -> None:
        """Reconcile one key."""


@asynccontextmanager
async def _running(api: ApiServer, controllers: Iterable[Controller]) -> AsyncIterator[None]:
    """Run controllers during the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                _follow(api, controller, source), name=f"{controller.subject.plural} by {source.plural}"
            )
            for controller in controllers
            for source in controller.sources
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def _follow(api: ApiServer, controller: Controller, source: ServedKind) -> None:
    kind_store = api.store[source]
    position = _reconcile_all(api, controller, kind_store.end)
    while True:
        await kind_store.wait(position)
        try:
            changes = kind_store.since(position, _BATCH)
        except Compacted:
            position = _reconcile_all(api, controller, kind_store.end)
            continue
        position += len(changes)
        for key in dict.fromkeys(key for change in changes for key in controller.keys(change)):
            controller.reconcile(key)
        # Requests use the same loop: a burst of changes must not starve them.
        await asyncio.sleep(0)


def _reconcile_all(api: ApiServer, controller: Controller, position: int) -> int:
    for record in api.store[controller.subject].scan(""):
        controller.reconcile(record.key)
    return position


@asynccontextmanager
async def run_controllers(api: ApiServer, schedule: Schedule | None = None) -> AsyncIterator[None]:
    """Run the controllers during the block; `schedule` decides the claims for extended resources."""
    pods = PodController(api, schedule)
    try:
        controllers: list[Controller] = [
            PodGroupController(api),
            TemplateController(api),
            pods,
            ClaimController(api),
            NodeController(api),
            *collectors(api),
        ]
        api.have_kubelets(there=True)
        async with _running(api, controllers):
            yield
    finally:
        api.have_kubelets(there=False)
        pods.stop()
