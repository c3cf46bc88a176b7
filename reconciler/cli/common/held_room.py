"""The room that the leader of a cluster holds for something, from the ConfigMap in which it writes that."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.validating import validated
from reconciler.cli.common.connection import Connection
from reconciler.cli.common.options import HELD_ROOM
from reconciler.cli.common.output import remark
from reconciler.errors import Gone, Malformed, Rejected

if TYPE_CHECKING:
    from reconciler.cluster.client import Client
    from reconciler.state.nodes.table import Nodes
    from reconciler.state.nominations.nomination import Nomination
    from reconciler.state.store import Store

CONFIG_MAP = "ConfigMap"


async def listed(client: "Client", connection: Connection) -> list[dict[str, Any]]:
    """The ConfigMaps that exist, in the form of `list_objects`. A note says which cannot be read.

    Raises OSError or Retry if the server cannot be reached.
    """
    from reconciler.cluster.kinds import config_map  # noqa: PLC0415

    found = []
    for name in connection.held_room:
        key = _key(name)
        try:
            found.append({**await client.get(config_map(key), key), "kind": CONFIG_MAP, "apiVersion": "v1"})
        except Gone as exc:
            if name != HELD_ROOM:  # without a ConfigMap by this name, nothing is said of it
                remark(f"note: held room is not considered: {exc}")
        except Rejected as exc:
            remark(f"note: held room is not considered: {exc}")
    return found


def _key(name: str) -> ObjectKey:
    namespace, slash, last = name.partition("/")
    if not slash or not namespace or not last:
        raise click.UsageError(f"--held-room {name}: write NAMESPACE/NAME of a ConfigMap.")
    return ObjectKey(namespace, last)


def split(raws: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], tuple["Nomination", ...]]:
    """What `list_objects` returned without those ConfigMaps, and the room that is held now by them.

    Notes say what cannot be read.
    """
    rest: list[dict[str, Any]] = []
    found: list[Nomination] = []
    for raw in raws:
        if raw["kind"] != CONFIG_MAP:
            rest.append(raw)
            continue
        # Late import: most commands need none of it.
        from reconciler.control.held_room.record import read_held_room, still_held  # noqa: PLC0415

        try:
            one = validated(ConfigMap, raw)
            record = read_held_room(one.data, f"ConfigMap {one.key}")
        except Malformed as exc:
            remark(f"note: held room is not considered: {exc}")
            continue
        for problem in record.refused:
            remark(f"note: {problem}")
        found += [one for one, _ in still_held(record.nominations, datetime.now(UTC))]
    return rest, tuple(found)


def hold(found: Iterable["Nomination"], store: "Store", nodes: "Nodes") -> None:
    """Hold it in a state that a command has read."""
    for one in found:
        store.nominate(one)
        nodes.nominate(one)


def lines(found: Iterable["Nomination"], shown: Callable[["Nomination"], bool]) -> list[str]:
    """For people: what is held for some nominees, and until when."""
    return [
        f"room on {', '.join(dict.fromkeys(place.node for place in one.places))} is held for {one}"
        + (f": {', '.join(map(str, one.devices))}" if one.devices else "")
        for one in found
        if shown(one)
    ]
