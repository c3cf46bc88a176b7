"""Workloads, checks and flavors of Kueue on the embedded server, and a process that answers the check."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from reconciler.api.objects.core import WORKLOAD as MARK
from reconciler.control.decisions.every import NominationDropped, WorkloadChecked
from reconciler.plugins.kueue import checker
from reconciler.plugins.kueue.objects import ADMISSION_CHECK, CONTROLLER, RESOURCE_FLAVOR, WORKLOAD
from tests.tools.definitions import assert_valid
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import Object, device_class, devices, node, pod, template

KUEUE = "kueue.x-k8s.io/v1beta2"


def check(controller: str = CONTROLLER) -> Object:
    spec = {"controllerName": controller}
    return {"apiVersion": KUEUE, "kind": "AdmissionCheck", "metadata": {"name": "room"}, "spec": spec}


def flavor(name: str, **labels: str) -> Object:
    spec = {"nodeLabels": labels}
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def workload(
    name: str, count: int, *, reserved: str = "", topology: Object | None = None, **spec: Any
) -> Object:
    """With quota of the flavor `gpus`, and other admission checks before and after ours."""
    now = reserved or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def state(check: str, found: str) -> Object:
        return {"name": check, "state": found, "lastTransitionTime": now, "message": "", "retryCount": 2}

    pods = {
        "name": "main",
        "count": count,
        "template": {
            "spec": {
                "containers": [{"name": "main", "image": "example.com/main"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
            }
        },
        **({"topologyRequest": topology} if topology else {}),
    }
    condition = {
        "type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
        "lastTransitionTime": now,
    }  # fmt: skip
    assigned = {"name": "main", "flavors": {"gpu": "gpus"}, "count": count}
    return {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"podSets": [pods], "queueName": "q", **spec},
        "status": {
            "conditions": [condition],
            "admission": {"clusterQueue": "c", "podSetAssignments": [assigned]},
            "admissionChecks": [state("other", "Ready"), state("room", "Pending"), state("last", "Pending")],
        },
    }


class Queue:
    """The objects of Kueue on the embedded server."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def states(self, name: str) -> list[Object]:
        record = self.cluster.api.store[WORKLOAD].get(f"default/{name}")
        assert record is not None
        return record.object["status"]["admissionChecks"]

    def ours(self, name: str) -> Object:
        return self.states(name)[1]

    def change(self, name: str, change: Callable[[Object], Object]) -> None:
        self.cluster.api.update(WORKLOAD, "default", name, change, subresource="status")


def fleet(**counts: int) -> Cluster:
    found: list[Object] = [device_class(), template("t"), flavor("gpus", kind="gpu"), check()]
    for name, number in counts.items():
        found += [node(name, kind="gpu", rack=name[0]), devices(name, *(f"d{at}" for at in range(number)))]
    return Cluster(found)


@asynccontextmanager
async def checking(cluster: Cluster, **flags: Any) -> AsyncIterator[tuple[Running, Queue]]:
    """A process that answers the check `room`, without a pause. What it wrote must fit the definitions."""
    options = {"kueue_check": "room", "backoff_cap_seconds": 0.2, **flags}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checker, "PAUSE", 0.01)
        async with reconciling(cluster, controllers=True, **options) as running:
            yield running, Queue(cluster)
    for kind in (WORKLOAD, ADMISSION_CHECK, RESOURCE_FLAVOR):
        for record in cluster.api.store[kind].scan(""):
            assert_valid(kind, record.object)


def answers(running: Running, name: str) -> list[str]:
    return [one.state for one in running.of(WorkloadChecked) if one.workload.name == name]


async def checked(running: Running, name: str, state: str) -> WorkloadChecked:
    found = await running.heard(
        WorkloadChecked, counts=lambda one: (one.workload.name, one.state) == (name, state)
    )
    return [one for one in found if (one.workload.name, one.state) == (name, state)][-1]


def bound(name: str, *, phase: str = "Running", **metadata: Any) -> Object:
    """A pod of the Workload `job` that runs or ran on the node `a`."""
    made = pod(name, gates=(), nodeName="a")
    made["metadata"] |= {"annotations": {MARK: "job"}, **metadata}
    return made | {"status": {"phase": phase}}


def drops(running: Running) -> list[str]:
    return [one.why for one in running.of(NominationDropped)]


def admitted(shown: Object) -> Object:
    """As Kueue writes it once all checks are ready."""
    since = shown["status"]["conditions"][0]["lastTransitionTime"]
    condition = {"type": "Admitted", "status": "True", "reason": "Admitted", "message": ""}
    conditions = [*shown["status"]["conditions"], {**condition, "lastTransitionTime": since}]
    return {**shown, "status": {**shown["status"], "conditions": conditions}}


async def rounds(cluster: Cluster, running: Running) -> None:
    """At least one more round of the check, after it has seen all that was loaded before."""
    cluster.load(workload("probe", 9))
    await checked(running, "probe", "Pending")
    cluster.api.delete(WORKLOAD, "default", "probe")
