"""The texts of Events."""

from collections.abc import Iterable

from reconciler.allocation.reasons.explanation import Explanation
from reconciler.allocation.reasons.reasons import remedy
from reconciler.api.objects.core import GATE
from reconciler.api.objects.meta import DeviceID
from reconciler.control.decisions.allocating import ExclusionViolated, HeldTwice, Waits
from reconciler.control.decisions.every import MoveEvicted
from reconciler.state.nominations import Nominee

MOST_NAMED = 8
"""Devices that a note names: those of a whole node, as a rule"""
UNGATED = f"Removed the scheduling gate {GATE}: all its devices are allocated."


def refused(waits: Waits, explanation: Explanation | None) -> str:
    """Why claims are pending. The nearest miss comes before the counts, because long notes are cut."""
    parts = [waits.message]
    if explanation is not None:
        parts.append(explanation.short())
    parts.append(remedy(waits.reason))
    return ". ".join(part.rstrip(".") for part in parts if part) + "."


def allocated(devices: Iterable[DeviceID], node: str) -> str:
    """`Allocated 2 devices on node n: gpu.example.com/n: gpu-0, gpu-1.`"""
    devices = tuple(devices)
    where = f" on node {node}" if node else ""
    return f"Allocated {len(devices)} device{'' if len(devices) == 1 else 's'}{where}: {named(devices)}."


def preempted(nominee: Nominee) -> str:
    """`Preempted by pod research/train-0, ...`"""
    return f"Preempted by {nominee}, which has a higher priority and needs the devices of this pod."


def moved(move: MoveEvicted) -> str:
    """Why a pod was evicted, and what becomes of it."""
    return (
        f"Evicted to move it to node {move.to}, so that one more {move.counted} fits in {move.place}. "
        f"Held there for what replaces it: {named(move.devices)}."
    )


def not_moved(why: str) -> str:
    """Why a plan to move pods ended."""
    return f"A plan to move pods so that more fits was aborted at this pod: {why.rstrip('.')}."


def named(devices: tuple[DeviceID, ...]) -> str:
    """Devices by pool, `MOST_NAMED` at most, and how many others there are."""
    pools: dict[str, list[str]] = {}
    for device in devices[:MOST_NAMED]:
        pools.setdefault(str(device.pool_id), []).append(device.device)
    shown = "; ".join(f"{pool}: {', '.join(names)}" for pool, names in pools.items())
    more = len(devices) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def found(finding: HeldTwice | ExclusionViolated) -> str:
    """What is wrong with held devices, and what to do."""
    if isinstance(finding, HeldTwice):
        holders = ", ".join(map(str, finding.claims))
        what = f"Device {finding.device} is held by {holders}, but only one claim can hold it"
    else:
        what = f"Devices that exclude one another are held at the same time: {finding.message.rstrip('.')}"
    return f"{what}. Nothing is freed automatically: delete the pods of one of the claims."
