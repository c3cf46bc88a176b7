"""Controllers follow the store directly: each change names keys, each key is settled in one step."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from reconciler.embedded.api import ApiServer
from reconciler.embedded.kinds import ServedKind
from reconciler.embedded.shelf import Change, Compacted

_BATCH = 256


class Controller(Protocol):
    """Brings the objects under one key to where they should be."""

    @property
    def subject(self) -> ServedKind:
        """The kind whose keys are settled."""

    @property
    def sources(self) -> Sequence[ServedKind]:
        """The kinds whose changes matter."""

    def keys(self, change: Change) -> Iterable[str]:
        """The keys that a change may concern."""

    def settle(self, key: str) -> None:
        """Do what is due for one key. Does nothing where nothing is due."""


@asynccontextmanager
async def running(api: ApiServer, controllers: Iterable[Controller]) -> AsyncIterator[None]:
    """Let controllers follow the store while the block runs."""
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
    shelf = api.store[source]
    position = _settle_all(api, controller, shelf.end)
    while True:
        await shelf.wait(position)
        try:
            changes = shelf.since(position, _BATCH)
        except Compacted:
            position = _settle_all(api, controller, shelf.end)
            continue
        position += len(changes)
        for key in dict.fromkeys(key for change in changes for key in controller.keys(change)):
            controller.settle(key)
        # Requests wait on the same loop: a burst of changes must not starve them.
        await asyncio.sleep(0)


def _settle_all(api: ApiServer, controller: Controller, position: int) -> int:
    for record in api.store[controller.subject].scan(""):
        controller.settle(record.key)
    return position
