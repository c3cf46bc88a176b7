"""The output of `top --koordinator`: Koordinator's devices by type, or by node and type."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal

from reconciler.api.objects.meta import ApiObject
from reconciler.cli.cluster import Connection, connected, following
from reconciler.cli.output import Table
from reconciler.cluster.discovery import discover_at_least_pods
from reconciler.plugins.koordinator.cluster import with_devices
from reconciler.plugins.koordinator.figures import STATES, Tally, by_node, by_type
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.objects import printed
from reconciler.plugins.koordinator.pods import KoordinatorState
from reconciler.plugins.koordinator.rules import Rules, Semantics
from reconciler.state.trial import load

By = Literal["driver", "node"]
Show = Callable[[Fleet], Awaitable[None]]
_HEADINGS = {"allocatable": "FREE"}
"""State -> its heading, as in the table of all devices"""


def tallies(fleet: Fleet, by: By) -> list[Tally]:
    """The lines to show, sorted by name."""
    return by_node(fleet) if by == "node" else by_type(fleet)


def table(found: Iterable[Tally], by: By) -> Table:
    """The table, with one row per tally."""
    names = ("NODE", "TYPE") if by == "node" else ("TYPE",)
    numbers = ("DEVICES", *(_HEADINGS.get(state, state.upper()) for state in STATES))
    made = Table((*names, *numbers, "RESOURCES FREE"), right=numbers, names=len(names))
    for one in found:
        own = (one.node, one.kind) if by == "node" else (one.kind,)
        made.add((*own, *map(str, (one.devices, *one.states)), ", ".join(_free(one)) or "-"))
    return made


def as_json(found: Iterable[Tally], by: By) -> dict[str, Any]:
    """Return all figures."""
    return {"by": by, "items": [_item(one) for one in found]}


def fleet_of(objects: Iterable[ApiObject], semantics: Semantics) -> Fleet:
    """The fleet of manifests, with the devices that pods hold."""
    picture = _picture(semantics)
    load(picture, objects)
    return picture.fleet


async def follow_machines(
    connection: Connection, semantics: Semantics, show: Show, interval: float | None
) -> None:
    """Watch a cluster and show its state: once if `interval` is None, else repeatedly until cancelled.

    Raises ReconcilerError or OSError if the first connection fails; later failures are retried.
    """
    picture = _picture(semantics)
    async with connected(connection, announced=interval is None) as client:
        served = await with_devices(client, await discover_at_least_pods(client))
        async with following(client, served, ("Node", "Device", "Pod"), picture.apply):
            await show(picture.fleet)
            while interval is not None:
                await asyncio.sleep(interval)
                await show(picture.fleet)


def _picture(semantics: Semantics) -> KoordinatorState:
    return KoordinatorState(Fleet(Rules(semantics)), lambda _: None)


def _free(one: Tally) -> Iterable[str]:
    for name, total, free in one.amounts:
        shown = (next(iter(printed({name: int(amount)}).values())) for amount in (free, total))
        yield f"{name.rpartition('/')[2]} {' of '.join(shown)}"
    if one.functions:
        yield f"virtual functions {one.functions_free} of {one.functions}"


def _item(one: Tally) -> dict[str, Any]:
    return {
        "type": one.kind,
        "node": one.node or None,
        "devices": one.devices,
        **dict(zip(STATES, one.states, strict=True)),
        "resources": [
            {"resource": name, "total": int(total), "free": int(free)} for name, total, free in one.amounts
        ],
        "virtualFunctions": {"total": one.functions, "free": one.functions_free},
    }
