"""Devices for pods that ask for extended resources, on a cluster to try things on."""

from collections.abc import Sequence
from typing import Any

import pytest

from reconciler.errors import Conflict
from tests.tools.any_cluster import Lent, Object
from tests.tools.small_fleet import device_class, devices

TYPE = 'device.attributes["gpu.nvidia.com"].type'
GPU, MIG = "gpu.nvidia.com", "mig.nvidia.com"
"""Classes that the names of the templates stand for; another name would need another policy"""


class Rewriting:
    """A driver with GPUs and MIG partitions."""

    def __init__(self, found: Lent) -> None:
        self.found = found
        self.driver = f"gpu.{found.driver}"

    async def prepare(self, *amounts: tuple[int, int]) -> None:
        """GPUs and partitions on each node, as NVIDIA's driver publishes them."""
        for name, kind in ((GPU, "gpu"), (MIG, "mig")):
            made = device_class(name, self.driver)
            made["spec"]["selectors"].append({"cel": {"expression": f'{TYPE} == "{kind}"'}})
            made["spec"] |= {"extendedResourceName": "nvidia.com/gpu"} if kind == "gpu" else {}
            try:
                await self.found.make(made)
            except Conflict:
                pytest.skip(f"the cluster has a DeviceClass {name} of its own")
        for letter, (gpus, partitions) in zip("ab", amounts, strict=True):
            await self.found.make(self._slice(f"{self.found.name}-{letter}", gpus, partitions))

    def _slice(self, on: str, gpus: int, partitions: int) -> Object:
        names = [*(f"gpu-{i}" for i in range(gpus)), *(f"mig-{i}" for i in range(partitions))]
        made = devices(on, *names, driver=self.driver)
        for one in made["spec"]["devices"]:
            kind = one["name"].partition("-")[0]
            profile = {f"{GPU}/profile": {"string": "1g.5gb"}} if kind == "mig" else {}
            one["attributes"] = {f"{GPU}/type": {"string": kind}, **profile}
        return made

    async def pod(self, name: str, *containers: Object, inits: Sequence[Object] = (), **spec: Any) -> Object:
        """A pod as it is created: as it comes back from the server."""
        spec |= {"containers": [*containers], "terminationGracePeriodSeconds": 0}
        spec |= {"initContainers": [*inits]} if inits else {}
        raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        return await self.found.make(raw)
