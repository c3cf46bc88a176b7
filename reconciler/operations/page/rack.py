"""A machine with Koordinator's devices as shapes: a row for each switch, a box for each device."""

from collections.abc import Iterator, Sequence

from reconciler.analysis.capacity.machine_state import ALLOCATABLE, BLOCKED, DeviceState, MachineState
from reconciler.api.koordinator.amounts import Shares, printed
from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page.colours import colour, letters
from reconciler.operations.page.drawing import (
    LABEL,
    LETTER_WIDTH,
    TRACK_AT,
    WIDTH,
    Drawing,
    Holder,
    Label,
    Span,
)
from reconciler.operations.page.names import shown

BOX, TALL, GAP = 58, 26, 4
BOXES_A_ROW = (WIDTH - TRACK_AT) // BOX
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
            Label(0, top + TALL / 2 + 4, shown(name, LABEL), title=shown(name) if len(name) > LABEL else "")
        )
        here = places[numa, pcie]
        for number, device in enumerate(here):
            row, column = divmod(number, BOXES_A_ROW)
            made.spans += _box(device, TRACK_AT + column * BOX, top + row * (TALL + GAP), by_pod)
        made.height = top + -(-len(here) // BOXES_A_ROW) * (TALL + GAP) + GAP
    hidden = len(machine.devices) - len(devices)
    made.note = f"Not drawn: {hidden} more devices." if hidden else ""
    return made


def about(device: DeviceState) -> str:
    """A device in one line."""
    parts = [f"{shown(device.kind)} {device.minor}", f"health: {'good' if device.healthy else 'bad'}"]
    if device.holders:
        who = ", ".join(shown(str(held.pod)) for held in device.holders[:MOST_NAMED])
        more = f" and {len(device.holders) - MOST_NAMED} more" if len(device.holders) > MOST_NAMED else ""
        parts.append(f"{device.state} by {who}{more}")
    else:
        parts.append("allocatable" if device.state == ALLOCATABLE else "blocked")
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
        [Holder(pod, letters(at), colour(pod), tuple(of)) for at, (pod, of) in enumerate(held.items())]
    )


def _place(numa: int, pcie: str) -> str:
    words = [f"NUMA {numa}" if numa >= 0 else "", pcie]
    return " · ".join(filter(None, words)) or "unknown location"


def _box(device: DeviceState, x: float, y: float, by_pod: dict[ObjectKey, Holder]) -> Iterator[Span]:
    """The background of a device with its name, and the part of each holder."""
    title = about(device)
    name = f"{device.kind} {device.minor}"
    wide = BOX - GAP
    ground = BLOCKED if device.state == BLOCKED else ALLOCATABLE
    yield Span(x, y, wide, TALL, ground, title)
    at = x
    for width, pods in zip(_widths(device, wide), _named(device, wide), strict=True):
        holder = by_pod[pods[0]]
        text = f"{holder.letter}{'+' if len(pods) > 1 else ''}"
        fits = width >= LETTER_WIDTH + 8 * (len(text) - 1)
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
