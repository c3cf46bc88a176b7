"""Validates and normalises the requests of a pod for each device type (KOO-4)."""

from collections.abc import Mapping

from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.api.koordinator.amounts import Shares
from reconciler.api.koordinator.names import (
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    KOORD_FPGA,
    KOORD_GPU,
    KOORD_RDMA,
    NPU_CORE,
    NPU_CPU,
    NPU_DVPP,
    TYPE_OF,
    TYPES,
    WHOLE_GPU,
)

WHOLE = 100
"""The share of a whole device."""

UNITS = (KOORD_GPU, KOORD_FPGA, KOORD_RDMA)

COMBINATIONS = frozenset(
    frozenset(names)
    for names in (
        *((name,) for name in WHOLE_GPU),
        (KOORD_GPU,),
        (KOORD_FPGA,),
        (KOORD_RDMA,),
        (GPU_MEMORY,),
        (GPU_MEMORY_RATIO,),
        (GPU_CORE, GPU_MEMORY),
        (GPU_CORE, GPU_MEMORY_RATIO),
        (NPU_CORE, GPU_MEMORY_RATIO),
        (GPU_SHARED, GPU_MEMORY),
        (GPU_SHARED, GPU_MEMORY_RATIO),
        (GPU_SHARED, GPU_CORE, GPU_MEMORY),
        (GPU_SHARED, GPU_CORE, GPU_MEMORY_RATIO),
        (GPU_SHARED, NPU_CORE, NPU_CPU, GPU_MEMORY),
        (GPU_SHARED, NPU_CORE, NPU_CPU, NPU_DVPP, GPU_MEMORY),
    )
)
"""The sets of resource names of one type that may be requested together."""


def by_type(requests: Shares) -> dict[str, dict[str, int]]:
    """The requests of each device type, unchanged; types in the order of TYPES."""
    return {
        kind: mine
        for kind in TYPES
        if (mine := {name: n for name, n in requests.items() if TYPE_OF[name] == kind})
    }


def refusal(requests: Shares) -> Failure | None:
    """Why the requests of one type are invalid, or None."""
    for name in UNITS:
        if name in requests and not _in_whole_devices(requests[name]):
            message = f"invalid resource unit {name}: {requests[name]}"
            return Failure("invalid-request-unit", Status.NEVER, message)
    if frozenset(requests) not in COMBINATIONS or not _amounts_agree(requests):
        message = f"invalid resource device requests: [{' '.join(sorted(requests))}]"
        return Failure("invalid-request-combination", Status.NEVER, message)
    return None


def normalised(requests: Shares) -> dict[str, int]:
    """The requests in shares of devices: a number of GPUs becomes shares of core and memory."""
    for name in (*WHOLE_GPU, KOORD_GPU):
        if name in requests:
            share = requests[name] * (WHOLE if name in WHOLE_GPU else 1)
            return {GPU_CORE: share, GPU_MEMORY_RATIO: share}
    return dict(requests)


def _in_whole_devices(share: int) -> bool:
    return share <= WHOLE or share % WHOLE == 0


def _amounts_agree(requests: Mapping[str, int]) -> bool:
    shares = [requests[name] for name in (GPU_CORE, GPU_MEMORY_RATIO) if name in requests]
    cards = requests.get(GPU_SHARED)
    if NPU_CPU in requests:
        return (cards or 0) <= 1 and requests.get(NPU_DVPP, 0) <= WHOLE
    if cards is None:
        return all(map(_in_whole_devices, shares))
    return all(share % cards == 0 and share // cards <= WHOLE for share in shares)
