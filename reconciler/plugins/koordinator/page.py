"""The panel of the page: devices by type, then a drawing of each machine and the holders of its devices."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from reconciler.allocation.explanation import Explanation
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import shortened
from reconciler.operations.page import drawing as draw
from reconciler.operations.page.charts import Index
from reconciler.operations.page.drawing import Drawing, Holder, Label, Span
from reconciler.operations.page.fleet import bar
from reconciler.operations.page.parts import Panel, Part, Renderer, word
from reconciler.operations.page.query import MAX_CLAIMS, MAX_COMPARED, Query, listed, matches, named_by, shown
from reconciler.operations.page.sources import PluginView, Sources
from reconciler.plugins.koordinator import figures
from reconciler.plugins.koordinator.explain import explain_pod
from reconciler.plugins.koordinator.figures import DeviceState, MachineState, Tally
from reconciler.plugins.koordinator.fleet import Fleet
from reconciler.plugins.koordinator.pods import KoordinatorState
from reconciler.plugins.koordinator.vocabulary import GPU, GPU_MEMORY, TYPES, Shares, printed

BOX, TALL, GAP = 58, 26, 4
BOXES_A_ROW = (draw.WIDTH - draw.TRACK_AT) // BOX
LEAST = 14
"""Minimum width of a holder's part of a device"""
MOST_DEVICES = 64
"""Drawn devices of one machine"""
MOST_NAMED = 4


def rack(machine: MachineState) -> Drawing:
    """The drawing of a machine. Holders get letters in the order of the devices."""
    devices = machine.devices[:MOST_DEVICES]
    made = Drawing(_holders(machine))
    by_pod = {holder.claim: holder for holder in made.holders}
    places: dict[tuple[int, str], list[DeviceState]] = {}
    for device in devices:
        numa = -1 if device.numa is None else device.numa
        places.setdefault((numa, device.pcie), []).append(device)
    for numa, pcie in sorted(places):
        top = made.height
        name = _place(numa, pcie)
        made.labels.append(
            Label(
                0,
                top + TALL / 2 + 4,
                shown(name, draw.LABEL),
                title=shown(name) if len(name) > draw.LABEL else "",
            )
        )
        here = places[numa, pcie]
        for number, device in enumerate(here):
            row, column = divmod(number, BOXES_A_ROW)
            made.spans += _box(device, draw.TRACK_AT + column * BOX, top + row * (TALL + GAP), by_pod)
        made.height = top + -(-len(here) // BOXES_A_ROW) * (TALL + GAP) + GAP
    hidden = len(machine.devices) - len(devices)
    made.note = f"Not drawn: {hidden} more devices." if hidden else ""
    return made


def about(device: DeviceState) -> str:
    """A device in one line."""
    parts = [f"{shown(device.kind)} {device.minor}", f"health: {'good' if device.healthy else 'bad'}"]
    if device.holders:
        who = shortened([shown(str(held.pod)) for held in device.holders], MOST_NAMED)
        parts.append(f"{device.state} by {who}")
    else:
        parts.append("free" if device.state == figures.ALLOCATABLE else "blocked")
    parts += [f"{amount} free" for amount in amounts(device.free)]
    if device.vfs:
        parts.append(f"{device.vfs_free} of {device.vfs} virtual functions free")
    return ", ".join(parts)


def amounts(shares: Shares) -> list[str]:
    """The amount of each resource, with the last part of its name."""
    return [f"{shown(name.rpartition('/')[2])} {amount}" for name, amount in printed(shares).items()]


def part(shares: Shares, total: Shares) -> float:
    """The part of a device that the shares are, 0 to 1, by their largest resource."""
    return min(max((n / total[name] for name, n in shares.items() if total.get(name)), default=1.0), 1.0)


def _holders(machine: MachineState) -> tuple[Holder, ...]:
    held: dict[ObjectKey, list[str]] = {}
    for device in machine.devices:
        for one in device.holders:
            functions = f" ({len(one.vfs)} functions)" if one.vfs else ""
            held.setdefault(one.pod, []).append(f"{device.kind} {device.minor}{functions}")
    return tuple(
        [
            Holder(pod, draw.letters(at), draw.colour(pod), tuple(of))
            for at, (pod, of) in enumerate(held.items())
        ]
    )


def _place(numa: int, pcie: str) -> str:
    words = [f"NUMA {numa}" if numa >= 0 else "", pcie]
    return " · ".join(filter(None, words)) or "unknown location"


def _box(device: DeviceState, x: float, y: float, by_pod: dict[ObjectKey, Holder]) -> Iterator[Span]:
    """The background of a device with its name, and the part of each holder."""
    title = about(device)
    name = f"{device.kind} {device.minor}"
    wide = BOX - GAP
    ground = figures.BLOCKED if device.state == figures.BLOCKED else figures.ALLOCATABLE
    yield Span(x, y, wide, TALL, ground, title)
    at = x
    for width, pods in zip(_widths(device, wide), _named(device, wide), strict=True):
        holder = by_pod[pods[0]]
        text = f"{holder.letter}{'+' if len(pods) > 1 else ''}"
        fits = width >= draw.LETTER_WIDTH + 8 * (len(text) - 1)
        yield Span(at, y, width, TALL, "held", title, text if fits else "", holder)
        at += width
    if at + 7 * len(name) <= x + wide + 7:
        yield Span(at, y, x + wide - at, TALL, "name", title, shown(name, 8))


def _named(device: DeviceState, wide: float) -> list[list[ObjectKey]]:
    """The holders of each piece of the box; the last piece is for all holders without space."""
    pods = [held.pod for held in device.holders]
    most = int(wide // LEAST)
    return (
        [[pod] for pod in pods] if len(pods) <= most else [*([p] for p in pods[: most - 1]), pods[most - 1 :]]
    )


def _widths(device: DeviceState, wide: float) -> Sequence[float]:
    pieces = _named(device, wide)
    parts = [part(held.shares, device.total) for held in device.holders]
    sums = [*parts[: len(pieces) - 1], sum(parts[len(pieces) - 1 :])] if pieces else []
    wanted = [max(LEAST, wide * min(one, 1.0)) for one in sums]
    over = sum(wanted)
    return [one * wide / over for one in wanted] if over > wide else wanted


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
    names = sorted(named_by(query.node, list(fleet.machines))) if query.node else sorted(fleet.machines)
    if query.driver:
        kinds = named_by(query.driver, list(TYPES))
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
    kinds = named_by(query.driver, list(TYPES)) if query.driver else list(TYPES)
    return {
        "summary": summary,
        "number": selected.number,
        "states": figures.STATES,
        "types": [_type_row(tally, query) for tally in figures.by_type(fleet)],
        "machines": [_machine(figures.describe_machine(fleet, name), kinds, query) for name in selected.here],
        "pages": query.pager("machines", selected.pages, "machines"),
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
        "bar": bar(tally.states, figures.STATES),
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
                "devices": listed(holder.devices, 8),
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
            what += [f"function {listed(held.vfs, MOST_FUNCTIONS)}"] if held.vfs else []
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
        counts = {state: sum(device.state == state for device in mine) for state in figures.STATES}
        words = ", ".join(f"{count} {word(state)}" for state, count in counts.items() if count)
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


class MachinesPanel(Panel, part="machines", area="map", title="Machines"):
    """Devices by type, then a drawing of each machine."""

    def __init__(self, fleet: Fleet, sources: Sources, renderer: Renderer, index: Index) -> None:
        super().__init__(sources, renderer, index)
        self._fleet = fleet

    async def parts(self, query: Query) -> list[Part]:
        if not self.sources.ready():
            return [self.renderer.part(self.id, "machines.html", {"ready": False})]
        values = machines_values(query, self._fleet)
        badge = str(values["number"])
        return [self.renderer.part(self.id, "machines.html", {"ready": True, **values}, badge=badge)]


class MachinesView(PluginView):
    """What the status page shows of Koordinator's devices."""

    def __init__(self, state: KoordinatorState) -> None:
        self._state, self._fleet = state, state.fleet

    def panels(self, sources: Sources, renderer: Renderer, index: Index) -> Sequence[Panel]:
        return (MachinesPanel(self._fleet, sources, renderer, index),)

    def version(self) -> int:
        return self._fleet.changes

    def nodes(self) -> Iterable[str]:
        return self._fleet.machines

    def types(self) -> Iterable[str]:
        return TYPES

    def pods(self) -> Iterable[ObjectKey]:
        return self._fleet.pods

    def created(self, pod: ObjectKey) -> str:
        known = self._state.pod(pod)
        return (known.metadata.creation_timestamp or "") if known is not None else ""

    def explain(self, pod: ObjectKey, reason: str) -> Explanation | None:
        known, demand = self._state.pod(pod), self._state.demand(pod)
        return None if known is None or demand is None else explain_pod(known, demand, self._fleet, reason)
