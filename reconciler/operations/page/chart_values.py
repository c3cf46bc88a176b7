"""What the template of a chart shows."""

from collections import Counter
from collections.abc import Sequence

from reconciler.operations.page.drawing import Drawing
from reconciler.operations.page.names import shown
from reconciler.operations.page.query import Query
from reconciler.operations.page.scene import Scene

MOST_HOLDERS = 24
"""Claims listed below a chart"""
MOST_NAMES = 60
"""Devices listed in a sentence"""
MOST_NODES = 4
"""Nodes listed above a chart"""


def chart_values(found: Scene, drawing: Drawing, name: str, query: Query) -> dict[str, object]:
    """The values of the template of a chart."""
    chart = found.chart
    taken = [device for device in found.devices if device.claims]
    free = [device.name for device in found.devices if device.state == "allocatable"]
    tainted = [device.name for device in found.devices if device.state == "tainted"]
    blocked = [device.name for device in found.devices if device.state == "blocked"]
    title = shown(chart.name)
    if chart.set < 0:
        numbers = f"{chart.rows[0] + 1} to {chart.rows[-1] + 1}"
        title = f"Devices {numbers} of {shown(chart.pool.pool)}"
    holders = [
        {
            "letter": holder.letter,
            "colour": holder.colour,
            "claim": shown(str(holder.claim)),
            "devices": _listed(holder.devices, 8),
            "url": query.narrowed(claim=str(holder.claim)),
        }
        for holder in drawing.holders[:MOST_HOLDERS]
    ]
    return {
        "chart": {
            "id": name,
            "name": title,
            "nodes": [
                {"name": shown(node), "url": query.narrowed(node=node)} for node in found.nodes[:MOST_NODES]
            ],
            "pool": shown(chart.pool.pool),
            "driver": shown(chart.pool.driver),
            "summary": _summary(found, title, len(drawing.holders)),
            "flaw": shown(chart.flaw, 200),
            "more": max(len(drawing.holders) - MOST_HOLDERS, 0),
        },
        "drawing": drawing,
        "holders": holders,
        "taken": [
            {
                "name": shown(device.name),
                "claims": _listed([str(claim) for claim in device.claims], 8),
                "consumed": "".join(f"; {amount} {shown(key)}" for key, amount in device.consumed),
            }
            for device in taken
        ],
        "counters": [
            (shown(counter), found.amount(at, found.totals[at]), found.amount(at, found.left[at]))
            for at, counter in enumerate(found.counters)
        ],
        "free": _listed(free, MOST_NAMES) or "none",
        "tainted": _listed(tainted, MOST_NAMES),
        "blocked": _listed(blocked, MOST_NAMES) or "none",
    }


def _summary(found: Scene, title: str, claims: int) -> str:
    """The drawing in a sentence, for screen readers."""
    slots = [
        f"{sum(found.left[at] for at in group.columns)} of {len(group.columns)} {shown(group.name)} available"
        for group in found.slots
    ]
    number = Counter(device.state for device in found.devices)
    held = f"{number['held'] + number['shared']} held by {claims} {'claim' if claims == 1 else 'claims'}"
    tainted = [f"{number['tainted']} tainted"] if number["tainted"] else []
    counts = [held, f"{number['allocatable']} allocatable", *tainted, f"{number['blocked']} blocked"]
    return f"{title}: {', '.join([*slots, f'devices: {counts[0]}', *counts[1:]])}"


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more
