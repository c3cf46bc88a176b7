"""The server that everybody writes to, and what all of its users need to write."""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from reconciler.api.validation.bodies import Refusal
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.served_kinds import CLAIM
from reconciler.embedded import ApiServer
from tests.tools.simulation.fleet import Object

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Ground:
    """An API server, and chance."""

    def __init__(self, random: Random, now: Callable[[], float], count: Counter[str]) -> None:
        self.random = random
        self.now = now
        self.count = count
        self.made = 0
        """Names given"""
        self.disturbed: Callable[[str], None] = lambda _: None
        """Told the name of what is deleted, or loses its devices"""
        self.api = ApiServer(now=lambda: EPOCH + timedelta(seconds=now()), random=Random(random.random()))

    def all(self, kind: ServedKind) -> list[Any]:
        return [record.object for record in self.api.store[kind].scan("")]

    def loose(self) -> Iterator[Object]:
        """Claims made on their own, not being deleted."""
        for claim in self.all(CLAIM):
            metadata = claim["metadata"]
            if "ownerReferences" not in metadata and "deletionTimestamp" not in metadata:
                yield claim

    def do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Refusal:
            self.count["act refused by the server"] += 1

    def name(self, what: str) -> str:
        self.made += 1
        return f"{what}{self.made}"

    def delete(self, kind: ServedKind, thing: Object) -> None:
        metadata = thing["metadata"]
        self.disturbed(metadata["name"])
        self.api.delete(kind, metadata.get("namespace", ""), metadata["name"])

    def update(
        self, kind: ServedKind, thing: Object, change: Callable[[Object], Object], *, status: bool = False
    ) -> None:
        metadata = thing["metadata"]
        part = "status" if status else ""
        self.api.update(kind, metadata.get("namespace", ""), metadata["name"], change, subresource=part)
