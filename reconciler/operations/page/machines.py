"""Koordinator's devices: numbers by type, then the holders on each machine."""

from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from reconciler.allocation.koordinator.fleet import Fleet
from reconciler.analysis.capacity.machine_state import STATES, MachineState, describe_machine
from reconciler.analysis.capacity.machine_totals import Tally, by_type
from reconciler.api.koordinator.amounts import printed
from reconciler.api.koordinator.names import GPU, GPU_MEMORY, TYPES
from reconciler.operations.page.filtering import MAX_CLAIMS, MAX_COMPARED, named
from reconciler.operations.page.names import shown
from reconciler.operations.page.overview import bar
from reconciler.operations.page.query import Query, matches
from reconciler.operations.page.rack import MOST_DEVICES, amounts, rack

A_PAGE = 12
"""Machines on one page"""
MOST_HOLDERS = 24
MOST_PARTITIONS = 64
MOST_FUNCTIONS = 4


class Selection(Struct, frozen=True):
    """The machines that match the filters, and those on the page."""

    here: tuple[str, ...]
    number: int
    all: int
    page: int
    pages: int


def select_machines(query: Query, fleet: Fleet) -> Selection:
    """The machines of a query, ordered by name."""
    names = sorted(named(query.node, list(fleet.machines))) if query.node else sorted(fleet.machines)
    if query.driver:
        kinds = named(query.driver, list(TYPES))
        names = [name for name in names if any(fleet.machines[name].devices.get(kind) for kind in kinds)]
    if query.claim:
        held = set(_nodes_of(query.claim, fleet))
        names = [name for name in names if name in held]
    pages = max(-(-len(names) // A_PAGE), 1)
    page = min(query.machines, pages)
    here = tuple(names[(page - 1) * A_PAGE : page * A_PAGE])
    return Selection(here, len(names), len(fleet.machines), page, pages)


def machines_values(query: Query, fleet: Fleet) -> dict[str, object]:
    """The values of the template. Reads only the machines of one page."""
    selected = select_machines(query, fleet)
    if not selected.all:
        summary = "No Device objects are published."
    elif not selected.number:
        summary = f"None of {selected.all} machines matches the filter."
    else:
        first = (selected.page - 1) * A_PAGE + 1
        what = "machines that match the filter" if query.filtered else "machines"
        summary = f"{first} to {first + len(selected.here) - 1} of {selected.number} {what}."
    kinds = named(query.driver, list(TYPES)) if query.driver else list(TYPES)
    return {
        "summary": summary,
        "number": selected.number,
        "states": STATES,
        "types": [_type_row(tally, query) for tally in by_type(fleet)],
        "machines": [_machine(describe_machine(fleet, name), kinds, query) for name in selected.here],
        "pages": {
            "page": selected.page,
            "pages": selected.pages,
            "previous": query.url(machines=selected.page - 1, at="machines") if selected.page > 1 else "",
            "next": query.url(machines=selected.page + 1, at="machines")
            if selected.page < selected.pages
            else "",
        },
    }


def _nodes_of(wanted: str, fleet: Fleet) -> Iterator[str]:
    """The nodes where pods that match the filter hold devices."""
    pods = list(islice(fleet.pods, MAX_COMPARED))
    exact = [pod for pod in pods if str(pod) == wanted]
    found = exact or [pod for pod in pods if matches(wanted, str(pod))]
    return (fleet.pods[pod] for pod in found[:MAX_CLAIMS])


def _type_row(tally: Tally, query: Query) -> dict[str, object]:
    left = [f"{name} {_of(name, free)} of {_of(name, total)}" for name, total, free in tally.amounts]
    if tally.functions:
        left.append(f"virtual functions {tally.functions_free} of {tally.functions}")
    return {
        "name": tally.kind,
        "url": query.narrowed(driver=tally.kind),
        "bar": bar(tally.states, STATES),
        "counts": tally.states,
        "total": tally.devices,
        "left": ", ".join(entry.removeprefix("koordinator.sh/") for entry in left),
    }


def _of(name: str, amount: float) -> str:
    if name == GPU_MEMORY:
        return f"{amount / 2**30:.0f}Gi"
    return f"{amount:.0f}"


def _machine(machine: MachineState, kinds: Sequence[str], query: Query) -> dict[str, object]:
    seen = MachineState(
        machine.name,
        tuple([device for device in machine.devices if device.kind in kinds]),
        machine.partitions if GPU in kinds else (),
        machine.honors,
    )
    drawing = rack(seen)
    name = shown(seen.name)
    return {
        "name": name,
        "url": query.narrowed(node=seen.name),
        "summary": f"{name}: {_summary(seen)}",
        "state": _summary(seen),
        "drawing": drawing,
        "holders": [
            {
                "letter": holder.letter,
                "colour": holder.colour,
                "pod": shown(str(holder.claim)),
                "devices": _listed(holder.devices, 8),
                "url": query.narrowed(claim=str(holder.claim)),
            }
            for holder in drawing.holders[:MOST_HOLDERS]
        ],
        "more": max(len(drawing.holders) - MOST_HOLDERS, 0),
        "devices": list(_rows(seen)),
        "partitions": [
            {
                "gpus": ", ".join(map(str, one.minors)),
                "score": one.score,
                "bandwidth": str(one.bandwidth) if one.bandwidth >= 0 else "",
                "free": "free" if one.free else "partly in use",
            }
            for one in seen.partitions[:MOST_PARTITIONS]
        ],
        "policy": "GPUs are allocated only as one of these partitions"
        if seen.honors
        else "GPUs are allocated as one of these partitions if possible",
        "hidden": max(len(seen.partitions) - MOST_PARTITIONS, 0),
    }


def _rows(machine: MachineState) -> Iterator[dict[str, object]]:
    for device in machine.devices[:MOST_DEVICES]:
        total = printed(device.total)
        free = [
            f"{name} of {total[key]}"
            for key, name in zip(sorted(device.free), amounts(device.free), strict=True)
        ]
        if device.vfs:
            free.append(f"virtual functions {device.vfs_free} of {device.vfs}")
        holders = []
        for held in device.holders[:MOST_HOLDERS]:
            what = amounts(held.shares)
            what += [f"function {_listed(held.vfs, MOST_FUNCTIONS)}"] if held.vfs else []
            holders.append((shown(str(held.pod)), ", ".join(what)))
        yield {
            "name": f"{device.kind} {device.minor}",
            "id": shown(device.id),
            "place": ", ".join(
                filter(None, [f"NUMA {device.numa}" if device.numa is not None else "", shown(device.pcie)])
            ),
            "health": "good" if device.healthy else "bad",
            "state": device.state,
            "free": ", ".join(free) or "nothing",
            "holders": holders,
            "more": max(len(device.holders) - MOST_HOLDERS, 0),
        }


def _summary(machine: MachineState) -> str:
    """The state of a machine in a sentence."""
    parts = []
    for kind in TYPES:
        mine = [device for device in machine.devices if device.kind == kind]
        if not mine:
            continue
        counts = {state: sum(device.state == state for device in mine) for state in STATES}
        words = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        unhealthy = sum(not device.healthy for device in mine)
        functions = sum(device.vfs for device in mine)
        words += f", {unhealthy} unhealthy" if unhealthy else ""
        if functions:
            words += f", {sum(device.vfs_free for device in mine)} of {functions} virtual functions free"
        parts.append(f"{len(mine)} {kind}: {words}")
    if machine.partitions:
        free = sum(one.free for one in machine.partitions)
        parts.append(f"{free} of {len(machine.partitions)} partitions free")
    return "; ".join(parts) or "no devices"


def _listed(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more
