"""The complete result of a decision, and its annotation (KOO-9, KOO-20)."""

import json
from typing import Any

from msgspec.structs import replace

from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.api.koordinator.amounts import printed
from reconciler.api.koordinator.names import BIND_TIMESTAMP, GPU, GPU_MEMORY, GPU_MEMORY_RATIO, GPU_MINORS
from reconciler.state.koordinator.holdings import Allocation, Grant
from reconciler.state.koordinator.machine import Machine


def completed(allocation: Allocation, machine: Machine) -> Allocation | Failure:
    """The allocation with GPU memory both in bytes and in percent; the missing one is computed."""
    found = dict(allocation)
    if GPU in found:
        gpus: list[Grant] = []
        for grant in found[GPU]:
            total = machine.capacity.get(GPU, {}).get(grant.minor, {}).get(GPU_MEMORY, 0)
            if not total:
                message = f"no healthy gpu device with minor {grant.minor} of allocation"
                return Failure("gpu-capacity-unknown", Status.ERROR, message)
            gpus.append(_with_memory(grant, total))
        found[GPU] = tuple(gpus)
    return found


def annotation(allocation: Allocation, machine: Machine) -> str:
    """The text of `device-allocated`."""
    value = {
        kind: [_entry(grant, machine.devices[kind][grant.minor].id) for grant in allocation[kind]]
        for kind in sorted(allocation)
    }
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def plugin_annotations(allocation: Allocation, bound_at: int) -> dict[str, str]:
    """Annotations for device plugins of vendors: the bind time in nanoseconds, and the GPUs."""
    found = {BIND_TIMESTAMP: str(bound_at)}
    if GPU in allocation:
        found[GPU_MINORS] = ",".join(str(grant.minor) for grant in allocation[GPU])
    return found


def _with_memory(grant: Grant, total: int) -> Grant:
    shares = dict(grant.shares)
    if GPU_MEMORY not in shares and GPU_MEMORY_RATIO in shares:
        shares[GPU_MEMORY] = shares[GPU_MEMORY_RATIO] * total // 100
    if GPU_MEMORY_RATIO not in shares and GPU_MEMORY in shares:
        shares[GPU_MEMORY_RATIO] = shares[GPU_MEMORY] * 100 // total
    return replace(grant, shares=shares)


def _entry(grant: Grant, identifier: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"minor": grant.minor, "resources": printed(grant.shares)}
    if identifier:
        entry["id"] = identifier
    extension: dict[str, Any] = {}
    if grant.vfs:
        extension["vfs"] = [
            {"minor": vf.minor, "busID": vf.bus_id} if vf.minor else {"busID": vf.bus_id} for vf in grant.vfs
        ]
    if grant.template:
        extension["gpuSharedResourceTemplate"] = grant.template
    if extension:
        entry["extension"] = extension
    return entry
