"""The policy that rewrites requests for extended resources, on a cluster to try things on.

A real API server evaluates it itself. The embedded one has no admission: our evaluator takes its place there.
"""

import os
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest

from reconciler.cluster.kinds import NAMESPACE, POD, Resource
from reconciler.control.template_maker import LABEL
from reconciler.errors import Conflict, Gone
from tests.tools.admission_policies import Policy, Review
from tests.tools.any_cluster import Lent, Object
from tests.tools.deployed_rights import documents
from tests.tools.real_cluster import CONTEXT
from tests.tools.small_fleet import device_class, devices

GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = (
    Resource(kind, GROUP, "v1", plural, namespaced=False)
    for kind, plural in (
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies"),
        ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings"),
    )
)
NAME = "dra-reconciler-rewrite-resources"
TYPE = 'device.attributes["gpu.nvidia.com"].type'
GPU, MIG = "gpu.nvidia.com", "mig.nvidia.com"
"""Classes that the names of the templates stand for; another name would need another policy"""


class Rewriting:
    """A labelled namespace, the policy for it alone, and a driver with GPUs and MIG partitions."""

    def __init__(self, found: Lent) -> None:
        self.found = found
        self.driver = f"gpu.{found.driver}"
        self._policy, self._binding = (
            one for one in documents("admission") if one["metadata"]["name"] == NAME
        )
        self._evaluated: Policy | None = None

    async def prepare(self, *amounts: tuple[int, int]) -> None:
        """GPUs and partitions on each node, as NVIDIA's driver publishes them."""
        await self._label()
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
        if CONTEXT in os.environ:
            await self._install()
        else:
            self._evaluated = Policy(self._policy)

    async def _label(self) -> None:
        key = self.found.key(NAMESPACE, self.found.name)
        await self.found.client.patch(NAMESPACE, key, {"metadata": {"labels": {LABEL: "true"}}})

    def _slice(self, on: str, gpus: int, partitions: int) -> Object:
        names = [*(f"gpu-{i}" for i in range(gpus)), *(f"mig-{i}" for i in range(partitions))]
        made = devices(on, *names, driver=self.driver)
        for one in made["spec"]["devices"]:
            kind = one["name"].partition("-")[0]
            profile = {f"{GPU}/profile": {"string": "1g.5gb"}} if kind == "mig" else {}
            one["attributes"] = {f"{GPU}/type": {"string": kind}, **profile}
        return made

    async def _install(self) -> None:
        """The policy under a name of ours, for our namespace alone; waits until it is in effect."""
        policy, binding = deepcopy(self._policy), deepcopy(self._binding)
        policy["metadata"]["name"] = binding["metadata"]["name"] = self.found.name
        binding["spec"]["policyName"] = self.found.name
        selected = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
        selected["kubernetes.io/metadata.name"] = self.found.name
        self.found.know(POLICY, BINDING)
        try:
            await self.found.make(policy)
        except Gone:
            pytest.skip("the cluster does not serve MutatingAdmissionPolicy v1: it needs Kubernetes 1.36")
        await self.found.make(binding)
        await self.found.until(self._in_effect)

    async def _in_effect(self) -> bool:
        """Whether a pod that nobody schedules gets a claim."""
        main = {"name": "main", "image": "example.com/i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        made = await self.pod("probe", main, schedulerName="nobody")
        await self.found.client.delete(POD, self.found.key(POD, "probe"))
        return bool(made["spec"].get("resourceClaims"))

    async def pod(self, name: str, *containers: Object, inits: Sequence[Object] = (), **spec: Any) -> Object:
        """A pod as it is created: as it comes back from the server."""
        spec |= {"containers": [*containers], "terminationGracePeriodSeconds": 0}
        spec |= {"initContainers": [*inits]} if inits else {}
        raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        if self._evaluated is not None:
            review = Review("CREATE", new=raw, resource="pods", labels={LABEL: "true"})
            raw = self._evaluated.mutated(review)
        return await self.found.make(raw)
