"""Pods that ask for extended resources get claims when they are created, and with them devices and a node."""

from typing import Any

import pytest

from reconciler.api.objects.core import GATE
from reconciler.control.decisions.allocating import Ungated
from tests.tools.any_cluster import Lent, Run, lent_or_embedded
from tests.tools.any_policies import Rewriting, policed

pytestmark = pytest.mark.loopback

Object = dict[str, Any]
NO_CLAIMS = (
    """No claim was made from a template: resourceclaim-controller of kube-controller-manager has to run."""
)
GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.5gb"


def container(name: str, amounts: dict[str, int], **more: Any) -> Object:
    limits = {resource: str(count) for resource, count in amounts.items()}
    return {"name": name, "image": "example.com/i", "resources": {"limits": limits}, **more}


def claims_of(pod: Object) -> dict[str, str]:
    """Name in the pod -> template."""
    return {one["name"]: one["resourceClaimTemplateName"] for one in pod["spec"]["resourceClaims"]}


def uses(pod: Object) -> dict[str, set[str]]:
    """Container -> its claims. Nothing else may be left of what it asked for."""
    found = {}
    for one in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        resources = one["resources"]
        assert not resources.get("limits")
        assert not resources.get("requests")
        found[one["name"]] = {claim["name"] for claim in resources["claims"]}
    return found


async def placed(found: Lent, run: Run, pod: Object) -> tuple[str, dict[str, set[str]]]:
    """The node to which the scheduler bound a pod, and the devices there of each of its claims."""
    name = pod["metadata"]["name"]

    async def has_claims() -> bool:
        return bool((await found.read("Pod", name)).get("status", {}).get("resourceClaimStatuses"))

    async def is_bound() -> bool:
        return bool((await found.read("Pod", name))["spec"].get("nodeName"))

    await found.until(has_claims, otherwise=NO_CLAIMS)
    await run.heard(Ungated, lambda one: one.pod.name == name)
    await found.until(is_bound, otherwise="no scheduler bound the pod: kube-scheduler has to run")
    bound = await found.read("Pod", name)
    assert not bound["spec"].get("schedulingGates")
    assert not bound["status"].get("extendedResourceClaimStatus")  # kube-scheduler made no claim of its own
    held: dict[str, set[str]] = {}
    for one in bound["status"]["resourceClaimStatuses"]:
        devices = await found.held(one["resourceClaimName"])
        assert {pool for _, pool, _ in devices} == {bound["spec"]["nodeName"]}
        held[one["name"]] = {device for _, _, device in devices}
    return bound["spec"]["nodeName"].removeprefix(f"{found.name}-"), held


async def test_pods_that_ask_for_extended_resources_are_rewritten_and_get_their_devices():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        cluster = Rewriting(found)
        await cluster.prepare((2, 0), (5, 2))
        plain = await cluster.pod("plain", container("main", {GPU: 2}))
        assert claims_of(plain) == {"main-gpu-nvidia-com": "gpu.nvidia.com-2"}
        assert uses(plain) == {"main": {"main-gpu-nvidia-com"}}
        assert plain["spec"]["schedulingGates"] == [{"name": GATE}]
        several = await cluster.pod(
            "several",
            container("train", {GPU: 1, MIG: 1}),
            inits=[container("prepare", {GPU: 3}), container("log", {GPU: 1}, restartPolicy="Always")],
        )
        assert claims_of(several) == {
            "log-gpu-nvidia-com": "gpu.nvidia.com-1",
            "train-gpu-nvidia-com": "gpu.nvidia.com-1",
            "train-mig-nvidia-com-1g-5gb": "mig.nvidia.com-1g.5gb-1",
            "init-gpu-nvidia-com": "gpu.nvidia.com-1",
        }
        assert uses(several) == {
            "prepare": {"log-gpu-nvidia-com", "train-gpu-nvidia-com", "init-gpu-nvidia-com"},
            "log": {"log-gpu-nvidia-com"},
            "train": {"train-gpu-nvidia-com", "train-mig-nvidia-com-1g-5gb"},
        }
        async with found.reconciling(own_drivers={cluster.driver}, make_templates=True) as run:
            assert await placed(found, run, plain) == ("a", {"main-gpu-nvidia-com": {"gpu-0", "gpu-1"}})
            node, held = await placed(found, run, several)
        assert node == "b"
        assert held.pop("train-mig-nvidia-com-1g-5gb") == {"mig-0"}
        assert all(len(devices) == 1 for devices in held.values())
        assert set.union(*held.values()) == {"gpu-0", "gpu-1", "gpu-2"}


async def test_pods_that_ask_for_no_device_are_left_to_their_scheduler():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        cluster = Rewriting(found)
        await cluster.prepare((1, 0), (0, 0))
        bare = await cluster.pod("bare", {"name": "main", "image": "example.com/i"})
        none = await cluster.pod("none", container("main", {GPU: 0}))
        for pod in (bare, none):
            assert not pod["spec"].get("resourceClaims")
            assert not pod["spec"].get("schedulingGates")
