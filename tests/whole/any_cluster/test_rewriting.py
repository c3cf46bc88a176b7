"""Pods that ask for extended resources get claims when they are created, and with them devices and a node."""

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.api.migrate.pods import rewrite
from reconciler.api.migrate.special_claims import mapping
from reconciler.api.objects.claims import ALLOCATED_AT, ANNOUNCED, ResourceClaim, is_ours
from reconciler.api.objects.core import GATE
from reconciler.api.versions.reading import read
from reconciler.control.decisions.allocating import Allocated, Ungated
from reconciler.errors import Gone, Rejected
from tests.tools.admission_policies import comparable, pod_specs
from tests.tools.any_cluster import Lent, Run, lent_or_embedded
from tests.tools.any_policies import Rewriting, announce, asking, policed

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


# -- What admission policies make of claims, and of pods that ask for extended resources.


GPUS = "nvidia.com/gpu"
REFUSED = [
    ({"requests": {GPUS: "2"}}, "Limit must be set"),
    ({"limits": {GPUS: "2"}, "requests": {GPUS: "1"}}, "must be equal to"),
    ({"limits": {GPUS: "1500m"}}, "must be an integer"),
    ({"limits": {GPUS: "-1"}}, "must be greater than or equal to 0"),
]


async def test_a_pod_that_two_policies_change_gets_one_claim_and_one_gate():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        made = (await found.make(asking("rewritten")))["spec"]
        wanted = {"name": "main-gpu-nvidia-com", "resourceClaimTemplateName": "gpu.nvidia.com-2"}
        assert made["resourceClaims"] == [wanted]
        resources = {key: one for key, one in made["containers"][0]["resources"].items() if one}
        assert resources == {"claims": [{"name": "main-gpu-nvidia-com"}]}
        assert made["schedulingGates"] == [{"name": GATE}]


async def test_an_announced_claim_is_allocated_in_one_write_and_goes_when_it_is_deleted():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        await announce(found)
        async with found.reconciling() as run:
            for name in ("first", "one"):  # a claim that is there at the start is fenced off
                await found.claim(name)
                await run.heard(Allocated, lambda told, name=name: told.claim.name == name)  # type: ignore[misc]
        written = cast("ResourceClaim", read(await found.read("ResourceClaim", "one")))
        assert written.metadata.annotations[ALLOCATED_AT] == ANNOUNCED
        assert is_ours(written)
        await found.claim("pending", managed=False)
        for name in ("one", "pending"):
            kind = found.kind("ResourceClaim")
            await found.client.delete(kind, found.key(kind, name))

            async def gone(name: str = name) -> bool:
                try:
                    await found.read("ResourceClaim", name)
                except Gone:
                    return True
                return False

            await found.until(gone, otherwise=f"the resourceclaim controller does not free claim {name}")


async def test_requests_that_the_server_refuses_are_still_refused():
    async with lent_or_embedded() as found, policed(found, mutating=True):
        for resources, said in REFUSED:
            for part in ("containers", "initContainers"):
                made = asking("refused")
                made["spec"][part] = [
                    {"name": part.lower(), "image": "example.com/i", "resources": resources}
                ]
                with pytest.raises(Rejected, match=said):
                    await found.tried(made)


@settings(max_examples=3)
@given(specs=st.lists(pod_specs(), min_size=10, max_size=30))
async def test_the_server_rewrites_as_the_command_does(specs: list[dict[str, Any]]):
    """Nothing is kept: the server answers what it would create."""
    async with lent_or_embedded() as found, policed(found, mutating=True):
        for at, spec in enumerate(specs):
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"dry-{at}"}, "spec": spec}
            answer = (await found.tried(made))["spec"]
            rewritten = rewrite(spec, mapping([]), gate=True, where="Pod p")
            wanted = rewritten.spec if rewritten is not None else spec
            if wanted.get("resourceClaims"):  # by the other policy of this namespace
                others = [one for one in wanted.get("schedulingGates", []) if one["name"] != GATE]
                wanted = {**wanted, "schedulingGates": [*others, {"name": GATE}]}
            assert comparable(answer) == comparable(wanted)
