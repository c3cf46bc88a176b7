"""Machines with GPUs and NICs, and claims with preferences."""

import json
from typing import Any

from tests.tools.builders import Object, claim, device, device_class, node, request, resource_slice

PCIE = "resource.kubernetes.io/pcieRoot"


def machine(name: str, gpus: list[tuple[str, int]], nics: list[tuple[str | list[str], int]]) -> list[Object]:
    """A node, and its GPUs and NICs, each with its PCIe root and its NUMA node."""
    return [
        node(name),
        resource_slice(
            f"{name}-gpu",
            [device(f"gpu-{n}", {PCIE: root, "numaNode": numa}) for n, (root, numa) in enumerate(gpus)],
            driver="gpu",
            pool=name,
            nodeName=name,
        ),
        resource_slice(
            f"{name}-nic",
            [device(f"nic-{n}", {PCIE: root, "numaNode": numa}) for n, (root, numa) in enumerate(nics)],
            driver="nic",
            pool=name,
            nodeName=name,
        ),
    ]


def classes(*, gpu: list[Any] | None = None) -> list[Object]:
    """Classes `gpu` and `nic`; `gpu` are configurations of ours."""
    made = [device_class(name, f"device.driver == '{name}'") for name in ("gpu", "nic")]
    if gpu is not None:
        made[0]["spec"]["config"] = [
            {"opaque": {"driver": "dra-reconciler.io", "parameters": parameters}} for parameters in gpu
        ]
    return made


def gpu_nic_claim(name: str, gpus: int, nics: int, **annotations: Any) -> Object:
    """A claim for GPUs and NICs; annotations without their domain, `_` for `-`."""
    asked = [("gpu", gpus), ("nic", nics)]
    made = claim(name, *(request(kind, count, device_class=kind) for kind, count in asked if count))
    made["metadata"]["annotations"] = {
        f"dra-reconciler.io/{key.replace('_', '-')}": json.dumps(value) for key, value in annotations.items()
    }
    return made
