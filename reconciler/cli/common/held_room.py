"""The room that the leader of a cluster holds for something, from the ConfigMap in which it writes that."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli.common.connection import Connection
from reconciler.cli.common.options import Decorator, F

if TYPE_CHECKING:
    from reconciler.state.nodes.table import Nodes
    from reconciler.state.nominations.nomination import Nomination
    from reconciler.state.store import Store

DEFAULT = "dra-reconciler/dra-reconciler-held-room"
"""That of deploy/"""


def held_room_option(func: F) -> F:
    """`--held-room`; below `cluster_options`, whose `connection` gets it."""

    @wraps(func)
    def command(*, connection: Connection, held_room: tuple[str, ...], **rest: Any) -> Any:
        return func(connection=connection._replace(held_room=held_room), **rest)

    option: Decorator = click.option(
        "--held-room",
        multiple=True,
        metavar="NAMESPACE/NAME",
        default=(DEFAULT,),
        show_default=True,
        help="ConfigMap in which the reconciler writes which room it holds. Can be repeated, for shards.",
    )
    return option(command)


async def held_room(connection: Connection) -> tuple["Nomination", ...]:
    """What is held now. Notes on standard error say what cannot be read.

    Raises OSError or ReconcilerError if the server cannot be reached.
    """
    # Late imports: the client library takes longer to import than these commands take for files.
    from reconciler.api.objects.core import ConfigMap  # noqa: PLC0415
    from reconciler.api.objects.meta import ObjectKey  # noqa: PLC0415
    from reconciler.api.objects.validating import validated  # noqa: PLC0415
    from reconciler.cli.common.output import remark  # noqa: PLC0415
    from reconciler.cluster.client import Client  # noqa: PLC0415
    from reconciler.cluster.http import connect  # noqa: PLC0415
    from reconciler.cluster.kinds import config_map  # noqa: PLC0415
    from reconciler.control.held_room.record import read_held_room, still_held  # noqa: PLC0415
    from reconciler.errors import Gone, Malformed, Rejected  # noqa: PLC0415

    found: list[Nomination] = []
    async with connect(**connection.arguments()) as transport:
        for name in connection.held_room:
            namespace, slash, last = name.partition("/")
            if not slash or not namespace or not last:
                raise click.UsageError(f"--held-room {name}: write NAMESPACE/NAME of a ConfigMap.")
            key = ObjectKey(namespace, last)
            try:
                data = validated(ConfigMap, await Client(transport).get(config_map(key), key)).data
                record = read_held_room(data, f"ConfigMap {key}")
            except Gone as exc:
                if name != DEFAULT:  # without a ConfigMap by this name, nothing is said of it
                    remark(f"note: held room is not considered: {exc}")
                continue
            except (Malformed, Rejected) as exc:
                remark(f"note: held room is not considered: {exc}")
                continue
            for problem in record.refused:
                remark(f"note: {problem}")
            found += [one for one, _ in still_held(record.nominations, datetime.now(UTC))]
    return tuple(found)


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
