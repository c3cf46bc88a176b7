"""Nodes are requested for pods that no present node can serve, and not for longer than needed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import kubernetes_validate
import pytest

from reconciler.api.objects.core import GATE
from reconciler.api.validation.served_kinds import POD, POD_TEMPLATE
from reconciler.control.decisions.allocating import Ungated, Waits
from reconciler.control.decisions.every import NodesNotRequested, NodesRequested
from reconciler.plugins.provisioning import objects, provisioner
from reconciler.plugins.provisioning.objects import OURS, PROVISIONING_REQUEST
from tests.tools.definitions import assert_valid
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod, template

CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisioner, "EVERY", 0.02)


TOGETHER = {"provisioning_patience_seconds": 3.0}
"""Time for the pods of one job to become pending: what is asked for then counts all of them"""


@asynccontextmanager
async def provisioning(cluster: Cluster, **flags: Any) -> AsyncIterator[Running]:
    options = {"provisioning_requests": CLASS, "provisioning_patience_seconds": 0.2, **flags}
    async with reconciling(cluster, controllers=True, **options) as running:
        yield running
    for request in shelf(cluster, PROVISIONING_REQUEST):
        assert_valid(PROVISIONING_REQUEST, request)
    for made in shelf(cluster, POD_TEMPLATE):
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "PodTemplate", **made}, "1.36", strict=True)


def full() -> Cluster:
    """One node, all of whose devices are held."""
    used = claim("used", 2, managed=False) | {"status": held(DRIVER, "a", "d0", "d1", on="a")}
    return Cluster([device_class(), template("t"), node("a"), devices("a", "d0", "d1"), used])


def of_job(number: int) -> Object:
    made = pod(f"job-{number}", templates=("t",))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": True}
    made["metadata"] |= {"ownerReferences": [owner], "labels": {"app": "job"}}
    return made


def shelf(cluster: Cluster, kind: Any) -> list[Object]:
    return [record.object for record in cluster.api.store[kind].scan("")]


def claims_of_jobs(cluster: Cluster) -> list[str]:
    names = (one["metadata"]["name"] for one in cluster.claims())
    return [name for name in names if name.startswith("job-")]


async def test_equal_pods_get_one_request_which_goes_with_their_devices():
    cluster = full()
    async with provisioning(cluster, **TOGETHER) as running:
        cluster.load(*map(of_job, range(3)))
        (asked,) = await running.heard(NodesRequested)
        assert (asked.count, asked.shapes) == (3, ("a",))
        (request,) = shelf(cluster, PROVISIONING_REQUEST)
        templates = shelf(cluster, POD_TEMPLATE)
        sets = request["spec"].pop("podSets")
        assert request["spec"] == {"provisioningClassName": CLASS}
        found = {one["podTemplateRef"]["name"]: one["count"] for one in sets}
        assert found == {one["metadata"]["name"]: 1 for one in templates}
        assert {one["metadata"]["ownerReferences"][0]["name"] for one in templates} == {"job"}
        specs = [one["template"]["spec"] for one in templates]
        # An autoscaler makes no claims from templates: each of its pods names one that is there.
        assert sorted(str(spec["resourceClaims"]) for spec in specs) == sorted(
            str([{"name": "t0", "resourceClaimName": one}]) for one in claims_of_jobs(cluster)
        )
        assert GATE not in str(templates)
        assert not any("nodeName" in spec for spec in specs)
        assert all(cluster.gated(f"job-{number}") for number in range(3)), "the gate stays"
        cluster.load(node("b"), devices("b", "d0", "d1", "d2"))
        await running.heard(Ungated, 3)
        await running.heard(NodesNotRequested)
        assert not shelf(cluster, PROVISIONING_REQUEST)
        assert not shelf(cluster, POD_TEMPLATE)


async def test_nothing_is_requested_for_pods_that_no_known_kind_of_node_can_serve():
    cluster = full()
    cluster.load(template("large", 3))
    async with provisioning(cluster) as running:
        cluster.load(pod("impossible", templates=("large",)), of_job(0))
        await running.heard(Waits, counts=lambda one: "impossible" in str(one))
        (asked,) = await running.heard(NodesRequested)
        assert asked.pod.name == "job-0"
        assert len(shelf(cluster, PROVISIONING_REQUEST)) == 1


async def test_a_request_goes_when_its_pods_are_gone():
    cluster = full()
    async with provisioning(cluster) as running:
        cluster.load(of_job(0))
        await running.heard(NodesRequested)
        cluster.api.delete(POD, "default", "job-0")
        (removed,) = await running.heard(NodesNotRequested)
        assert removed.why == "its pods have their devices, or are gone"
        assert not shelf(cluster, PROVISIONING_REQUEST)


async def test_a_request_is_made_again_when_a_pod_is_replaced():
    """The claim of the new pod is another one: no autoscaler would find a place for the old one."""
    cluster = full()
    async with provisioning(cluster, **TOGETHER) as running:
        cluster.load(of_job(0), of_job(1))
        await running.heard(NodesRequested)
        cluster.api.delete(POD, "default", "job-0")
        cluster.load(of_job(2))
        (removed,) = await running.heard(NodesNotRequested)
        assert removed.why == "claims that it names are gone"
        await running.heard(NodesRequested, 2)
        named = [one["template"]["spec"]["resourceClaims"][0] for one in shelf(cluster, POD_TEMPLATE)]
        assert {one["resourceClaimName"] for one in named} == set(claims_of_jobs(cluster))


async def test_pods_that_name_the_same_claim_have_one_template():
    cluster = full()
    cluster.load(claim("shared"))
    async with provisioning(cluster, **TOGETHER) as running:
        for number in range(2):
            made = of_job(number)
            made["spec"]["resourceClaims"] = [{"name": "t0", "resourceClaimName": "shared"}]
            cluster.load(made)
        (asked,) = await running.heard(NodesRequested)
        (request,) = shelf(cluster, PROVISIONING_REQUEST)
        assert [one["count"] for one in request["spec"]["podSets"]] == [asked.count] == [2]


async def test_a_request_has_no_more_sets_than_its_schema_allows_and_the_rest_is_requested_later(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(objects, "MOST_SETS", 2)
    cluster = full()
    async with provisioning(cluster, **TOGETHER) as running:
        cluster.load(*map(of_job, range(3)))
        (asked,) = await running.heard(NodesRequested)
        assert asked.count == len(shelf(cluster, POD_TEMPLATE)) == 2
        cluster.load(node("b"), devices("b", "d0", "d1"))
        await running.heard(Ungated, 2)
        await running.heard(NodesNotRequested)
        _, rest = await running.heard(NodesRequested, 2)
        assert (rest.pod.name, rest.count) == ("job-2", 1)


async def test_templates_of_others_are_left_alone():
    """Somebody who may make a request, but delete no template, cannot let this controller delete one."""
    cluster = full()
    cluster.load(
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "theirs", "namespace": "default"},
            "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        }
    )
    cluster.load(
        {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": {"name": "dra-x-0123456789", "namespace": "default", "labels": {OURS: "true"}},
            "spec": {
                "provisioningClassName": CLASS,
                "podSets": [{"podTemplateRef": {"name": "theirs"}, "count": 1}],
            },
        }
    )
    async with provisioning(cluster) as running:
        await running.heard(NodesNotRequested)
        assert [one["metadata"]["name"] for one in shelf(cluster, POD_TEMPLATE)] == ["theirs"]


@pytest.mark.parametrize("labels", [{}, {OURS: "true"}], ids=["another", "a copy of ours"])
async def test_a_request_that_failed_is_made_again_and_those_of_others_are_left_alone(labels: dict[str, str]):
    cluster = full()
    other = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": "other", "namespace": "default", "labels": labels},
        "spec": {"provisioningClassName": CLASS, "podSets": [{"podTemplateRef": {"name": "x"}, "count": 1}]},
    }
    cluster.load(other)
    async with provisioning(cluster) as running:
        cluster.load(of_job(0))
        (asked,) = await running.heard(NodesRequested)
        failed = {
            "type": "Failed", "status": "True", "reason": "OutOfResources", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        cluster.api.update(
            PROVISIONING_REQUEST,
            "default",
            asked.request.name,
            lambda shown: {**shown, "status": {"conditions": [failed]}},
            subresource="status",
        )
        (removed,) = await running.heard(NodesNotRequested)
        assert removed.why == "the autoscaler ended it: Failed"
        await running.heard(NodesRequested, 2)
    found = [one["metadata"]["name"] for one in shelf(cluster, PROVISIONING_REQUEST)]
    assert found == [asked.request.name, "other"]


async def test_there_are_never_more_requests_than_the_maximum(monkeypatch: pytest.MonkeyPatch):
    """Also if all pods are due at once. The next one has its turn when a request is gone."""
    monkeypatch.setattr(provisioner, "MOST", 2)
    cluster = full()
    cluster.load(*(pod(f"alone-{number}", templates=("t",)) for number in range(4)))
    async with provisioning(cluster) as running:
        asked = await running.heard(NodesRequested, 2)
        await asyncio.sleep(5 * provisioner.EVERY)
        assert len(shelf(cluster, PROVISIONING_REQUEST)) == 2
        cluster.api.delete(POD, "default", asked[0].pod.name)
        await running.heard(NodesRequested, 3)
        assert len(shelf(cluster, PROVISIONING_REQUEST)) == 2


async def test_nothing_is_requested_by_default():
    cluster = full()
    async with reconciling(cluster, controllers=True) as running:
        cluster.load(of_job(0))
        await running.heard(Waits, counts=lambda one: one.reason == "DevicesInUse")
    assert not shelf(cluster, PROVISIONING_REQUEST)
