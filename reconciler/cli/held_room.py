"""The room that the leader of a cluster holds for something, from the ConfigMap in which it writes that."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.validating import validated
from reconciler.cli.cluster import note_unread, read_held_room
from reconciler.cli.output import remark
from reconciler.cluster.client import Client
from reconciler.control.held_room import read_held_room as held_room_in
from reconciler.control.held_room import still_held
from reconciler.errors import Gone, Malformed, Rejected, Retry
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import Nomination
from reconciler.state.store import Store

NOTED = 5
"""At most so many lines say what is held for whom"""


def _today() -> datetime:
    return datetime.now(UTC)


def split_held_room(
    raws: Iterable[dict[str, Any]],
    now: Callable[[], datetime] = _today,
    say: Callable[[str], None] = remark,
) -> tuple[list[dict[str, Any]], tuple[Nomination, ...]]:
    """What `list_objects` returned without those ConfigMaps, and the room that is held now by them.

    `say` gets notes of what cannot be read.
    """
    rest: list[dict[str, Any]] = []
    found: list[Nomination] = []
    for raw in raws:
        if raw["kind"] != "ConfigMap":
            rest.append(raw)
            continue
        try:
            one = validated(ConfigMap, raw)
            record = held_room_in(one.data, f"ConfigMap {one.key}")
        except Malformed as exc:
            say(f"note: held room is not considered: {exc}")
            continue
        for problem in record.refused:
            say(f"note: {problem}")
        found += [one for one, _ in still_held(record.nominations, now())]
    return rest, tuple(found)


def hold_room(found: Iterable[Nomination], store: Store, nodes: Nodes | None = None) -> None:
    """Hold it in a state that a command has read."""
    for one in found:
        store.nominate(one)
        if nodes is not None:
            nodes.nominated.hold(one)


class FollowedRoom:
    """Held room of a cluster that is shown live. It is read again each time.

    While that fails, room is held until its deadline.
    """

    def __init__(self, client: Client, names: Iterable[str], now: Callable[[], datetime] = _today) -> None:
        self._client, self._now = client, now
        self._held: dict[str, tuple[Nomination, ...]] = dict.fromkeys(names, ())
        self._said: set[str] = set()

    async def hold(self, store: Store) -> None:
        """Hold in a store what is held now. Notes say, each once, what cannot be read or must not be."""
        for name, before in list(self._held.items()):
            now: tuple[Nomination, ...] | None
            try:
                now = split_held_room([await read_held_room(self._client, name)], self._now, self._say)[1]
            except (Gone, Rejected) as exc:
                note_unread(name, exc, self._say)
                now = () if isinstance(exc, Gone) else None
            except (OSError, Retry):
                now = tuple(one for one, _ in still_held(before, self._now()))
            for one in before:
                store.end_nomination(one.nominee)
            if now is None:
                del self._held[name]
            else:
                hold_room(now, store)
                self._held[name] = now

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            remark(line)


def note_held_room(found: Iterable[Nomination]) -> None:
    """Note what is held for whom, so that counts of what is free can be understood."""
    said = held_room_lines(found, lambda _: True)
    for line in said[:NOTED]:
        remark(f"note: {line}")
    if len(said) > NOTED:
        remark(f"note: and room for {len(said) - NOTED} more")


def held_room_lines(found: Iterable[Nomination], shown: Callable[[Nomination], bool]) -> list[str]:
    """For people: what is held for some nominees, and until when."""
    return [
        f"room on {', '.join(dict.fromkeys(place.node for place in one.places))} is held for {one}"
        + (f": {', '.join(map(str, one.devices))}" if one.devices else "")
        for one in found
        if shown(one)
    ]
