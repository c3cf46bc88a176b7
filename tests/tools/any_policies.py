"""What the chart installs for our account, under names of its own, on a cluster to try things on.

That is the account, its rights, and all admission policies. Those that change pods do so in our namespace.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from reconciler.api.validation.kinds import ServedKind
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import REVIEW
from reconciler.cluster.kinds import NAMESPACE, Resource
from reconciler.cluster.transport import Transport
from reconciler.control.template_maker import LABEL
from reconciler.embedded.accounts import service_account
from reconciler.errors import Conflict, Gone, Rejected
from tests.tools import chart
from tests.tools.any_cluster import Lent, Object, dry_run
from tests.tools.patience import PATIENCE
from tests.tools.policed_server import KINDS
from tests.tools.small_fleet import claim, device_class, devices, pod

VALUES = {
    "ownDrivers": ["gpu.example.com"],
    "makeTemplates": True,
    "admission": {"confine": True, "gatePods": True, "announceClaims": True, "rewriteResources": True},
}
GATES = "dra-reconciler.io/gate-pods"
ANNOUNCES = "dra-reconciler.io/announce-claims"
TEMPLATES = ("resourceclaimtemplates", "resource.k8s.io")
MUTATING = "Mutating"
"""What kinds of policies that change objects begin with. They are in v1 since Kubernetes 1.36"""


class Ours:
    """Our account on that cluster."""

    def __init__(self, found: Lent, transport: Transport) -> None:
        self._found, self._transport, self._client = found, transport, Client(transport)

    async def tried(self, raw: Object, namespace: str) -> Object:
        """What the server would create for our account. It keeps nothing."""
        kind, metadata = self._found.kind(raw["kind"]), {**raw["metadata"], "namespace": namespace}
        return await dry_run(self._transport, kind, {**raw, "metadata": metadata})

    async def patch(self, kind: str, name: str, patch: Object) -> Object:
        """Send a merge patch as our account."""
        found = self._found.kind(kind)
        return await self._client.patch(found, self._found.key(found, name), patch)

    async def refused(self, request: Callable[[int], Awaitable[object]]) -> str:
        """Why a request is refused, which may pass until a policy is in effect.

        `request` gets the number of the attempt: what changes nothing is never refused.
        """
        async with asyncio.timeout(PATIENCE):
            for attempt in count():
                try:
                    await request(attempt)
                except Rejected as exc:
                    return str(exc)
                await asyncio.sleep(0.05)
        raise AssertionError

    async def may(self, verb: str, resource: str, group: str = "") -> bool:
        """Whether our account has a right in our namespace, as `kubectl auth can-i` asks."""
        name, _, part = resource.partition("/")
        wanted = {"verb": verb, "group": group, "resource": name, "subresource": part}
        spec = {"resourceAttributes": {**wanted, "namespace": self._found.name}}
        review = {"kind": REVIEW.kind, "apiVersion": REVIEW.api_version, "metadata": {}, "spec": spec}
        return bool((await self._client.create(REVIEW, review))["status"].get("allowed"))


async def announce(found: Lent) -> None:
    """Label our namespace, and wait until claims are announced there."""
    labels = {ANNOUNCES: "true"}
    await found.client.patch(NAMESPACE, found.key(NAMESPACE, found.name), {"metadata": {"labels": labels}})

    async def in_effect() -> bool:
        return bool((await found.tried(claim("probe")))["metadata"].get("finalizers"))

    await found.until(in_effect, otherwise="a namespace was labelled, and claims are not announced there")


@asynccontextmanager
async def policed(found: Lent, *, mutating: bool = False) -> AsyncIterator[Ours]:
    """Our account, once its rights are in effect.

    With `mutating`, the policies that change claims and pods are there and in effect, too. Skips on servers
    that are too old for what is wanted.
    """
    labels = {LABEL: "true", GATES: "true"}
    await found.client.patch(NAMESPACE, found.key(NAMESPACE, found.name), {"metadata": {"labels": labels}})
    await install(found, mutating=mutating)
    async with found.acting_as(service_account(found.name, found.name)) as transport:
        ours = Ours(found, transport)

        async def changes() -> bool:
            gated = await found.tried(pod("probe", "c", gates=()))
            rewritten = await found.tried(asking("probe"))
            return bool(gated["spec"].get("schedulingGates") and rewritten["spec"].get("resourceClaims"))

        async def in_effect() -> bool:
            granted = await ours.may("list", "pods") and await ours.may("create", *TEMPLATES)
            return granted and (not mutating or await changes())

        await found.until(in_effect, otherwise="roles and policies were created and do not take effect")
        yield ours


def asking(name: str, **resources: Any) -> Object:
    """A pod that asks for two GPUs as an extended resource, unless `resources` say otherwise."""
    resources = resources or {"limits": {"nvidia.com/gpu": "2"}}
    main = {"name": "main", "image": "example.com/i", "resources": resources}
    return pod(name, gates=(), containers=[main])


async def install(found: Lent, *, mutating: bool = False) -> list[Object]:
    """Make what the chart has of accounts, rights and policies that refuse; with `mutating`, of all policies.

    Skips on servers that do not serve one of these kinds.
    """
    found.know(*(_resource(kind) for kind in KINDS))
    names = {kind.kind for kind in KINDS if mutating or not kind.kind.startswith(MUTATING)}
    rendered = chart.objects(chart.texts(VALUES, found.name, found.name))
    wanted = [one for (kind, _), one in rendered.items() if kind in names and not chart.is_hook(one)]
    for one in wanted:
        selector = one.get("spec", {}).get("matchConstraints", {}).get("namespaceSelector")
        if selector is not None:
            selector["matchLabels"]["kubernetes.io/metadata.name"] = found.name
        try:
            await found.make(one)
        except Gone:
            since = "1.36" if one["kind"].startswith(MUTATING) else "1.30"
            pytest.skip(f"the cluster does not serve {one['kind']} v1: it needs Kubernetes {since}")
    return wanted


def _resource(kind: ServedKind) -> Resource:
    group, version = kind.stored
    return Resource(kind.kind, group, version, kind.plural, namespaced=kind.namespaced)


# -- Devices for pods that ask for extended resources, on a cluster to try things on.


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
