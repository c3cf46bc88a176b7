"""A small cluster whose pods of lower priority may be evicted for others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from reconciler.api.objects.claims import ALLOCATED_AT
from reconciler.control.decisions.allocating import Ungated
from reconciler.control.relocation import preemptor
from tests.tools import small_fleet
from tests.tools.gangs import pod_group
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod
from tests.tools.watched_reconciler import Watched


@asynccontextmanager
async def evicting(cluster: Cluster, **flags: Any) -> AsyncIterator[Running]:
    """Pods of the class `high` may preempt; no cool-down, no pause."""
    options = {
        "preemption": "evict",
        "preempting_classes": {"high"},
        "eviction_cooldown_seconds": 0.0,
        "backoff_cap_seconds": 0.2,
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(preemptor, "PAUSE", 0.01)
        async with reconciling(cluster, controllers=True, **{**options, **flags}) as running:
            yield running


async def fleet(running: Running | Watched, cluster: Cluster, low: int = 2) -> None:
    """One node with as many devices as running pods of priority 0, each with one."""
    for number in range(low):
        cluster.load(claim(f"c{number}", managed=False), pod(f"low{number}", f"c{number}"))
    await running.heard(Ungated, low)
    await cluster.until(lambda: all(cluster.phase(f"low{number}") == "Running" for number in range(low)))


def small(low: int = 2) -> Cluster:
    return Cluster([device_class(), node("a"), devices("a", *(f"d{number}" for number in range(low)))])


def important(name: str, *claims: str, **spec: Any) -> dict[str, Any]:
    return pod(name, *claims, priority=1000, priorityClassName="high", **spec)


def budget(allowed: int) -> dict[str, Any]:
    """Covers every pod."""
    made = small_fleet.budget("all", allowed, minAvailable=1)
    made["status"] |= {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    return made


def with_label(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "metadata": {**shown["metadata"], "labels": {"app": "important"}}}


def with_finalizer(shown: dict[str, Any]) -> dict[str, Any]:
    return {**shown, "metadata": {**shown["metadata"], "finalizers": ["example.com/slow"]}}


def without_finalizers(shown: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in shown["metadata"].items() if key != "finalizers"}
    return {**shown, "metadata": metadata}


def placed_before() -> Cluster:
    """One device, which an earlier process of ours gave to the running pod `low`; and a pod that wants it."""
    cluster = small(1)
    wanted = claim("wanted", managed=False), important("high", "wanted")
    cluster.load(*running_before("low", "c0", "d0"), *wanted)
    return cluster


def running_before(name: str, of: str, device: str, **spec: Any) -> tuple[Object, Object]:
    """A claim and its pod, which runs on node `a` with a device that an earlier process of ours gave it."""
    ours = {**claim(of, managed=False), "status": held(DRIVER, "a", device, on="a")}
    ours["metadata"]["annotations"] = {ALLOCATED_AT: "2026-01-01T00:00:00Z x"}
    ours["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"u-{name}"}]
    low = pod(name, of, gates=(), nodeName="a", **spec)
    low["metadata"]["uid"] = f"u-{name}"
    low["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return ours, low


def group_before(mode: str, least: int = 1, size: int = 2) -> Cluster:
    """The same for a PodGroup `low` of so many pods `low0` and so on, which has all devices."""
    cluster, group = small(size), pod_group("low", least)
    group["spec"]["disruptionMode"] = {mode: {}}
    cluster.load(group)
    for number in range(size):
        of = {"schedulingGroup": {"podGroupName": "low"}}
        cluster.load(*running_before(f"low{number}", f"c{number}", f"d{number}", **of))
    return cluster
