"""Machines with Koordinator's devices, and pods that hold some of them."""

import json
from typing import Any

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator import vocabulary
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.vocabulary import Rules
from tests.tools.koordinator_builders import demand, device, gpu, nic, pod

PAIRS = {
    1: [{"minors": [n], "allocationScore": 1} for n in range(4)],
    2: [{"minors": [n, n + 1], "ringBusBandwidth": "200Gi", "allocationScore": 1} for n in (0, 2)],
}
JOINT: dict[str, Any] = {
    "joint": {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"},
    "hint": {"rdma": {"vfSelector": {}}},
}


def rack(name: str, *, sick: int = -1, **metadata: Any) -> Any:
    """A machine of four GPUs on two switches, each with a NIC of two functions."""
    gpus = [gpu(n, (n // 2, f"pcie-{n // 2}"), health=n != sick) for n in range(4)]
    nics = [nic(n, (n, f"pcie-{n}"), vfs=2) for n in range(2)]
    return device(*gpus, *nics, name=name, **metadata)


def fleet(machines: int = 2) -> Fleet:
    """Machines `rack-0`, ...: the first with a table of partitions, the second with a sick GPU."""
    made = Fleet(Rules())
    for at in range(machines):
        table = {"annotations": {vocabulary.PARTITIONS: json.dumps(PAIRS)}} if at == 0 else {}
        made.put(rack(f"rack-{at}", sick=3 if at == 1 else -1, **table), {})
    return made


def give(made: Fleet, name: str, requests: dict[str, int | str], **wants: Any) -> Placed:
    """Give a pod what it asks for."""
    asking = pod(requests, name=name, **wants)
    asked = demand(asking)
    answer = made.first(asked, lambda _: True)
    assert isinstance(answer, Placed), answer
    made.hold(asking.key, answer.node, answer.allocation, asked.hints)
    return answer


def release(made: Fleet, name: str) -> None:
    made.release(ObjectKey("default", name))
