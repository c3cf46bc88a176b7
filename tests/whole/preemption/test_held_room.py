"""Room that pods left is held for whom they left, shown as such, and kept across restarts."""

import asyncio
import re
from typing import Any

import pytest

from reconciler.api.validation.served_kinds import POD
from reconciler.control.decisions.allocating import Waits
from reconciler.control.decisions.every import Evicted, Nominated, NominationUsed
from reconciler.control.relocation import preemptor
from reconciler.embedded.controllers import run_controllers
from tests.tools.preempting import (
    evicting,
    fleet,
    important,
    small,
    with_finalizer,
    without_finalizers,
)
from tests.tools.small_fleet import claim
from tests.tools.watched_reconciler import watched


async def test_room_that_is_made_for_one_is_not_taken_by_another():
    """Between the two evictions one device is free; a claim that would fit waits, and says for whom."""
    cluster = small()
    async with evicting(cluster, evictions_per_minute=1) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await running.heard(Evicted)
        await cluster.until(lambda: cluster.pod("low0") is None)
        cluster.load(claim("other"))
        (*_, told) = await running.heard(
            Waits, counts=lambda one: any(key.name == "other" for key in one.claims)
        )
    assert "held for pod default/high until" in told.message
    assert not cluster.devices("other")
    assert cluster.gated("high")


@pytest.mark.loopback
async def test_room_that_is_held_is_shown_on_the_page_in_a_metric_and_in_the_pod(monkeypatch):
    """Between the two evictions, as above."""
    monkeypatch.setattr(preemptor, "PAUSE", 0.01)
    cluster = small()
    options: dict[str, Any] = {
        "preemption": "evict",
        "preempting_classes": {"high"},
        "eviction_cooldown_seconds": 0.0,
        "evictions_per_minute": 1,
        "backoff_cap_seconds": 0.2,
    }
    async with watched(cluster, **options) as seen, run_controllers(cluster.api):
        await fleet(seen, cluster)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await seen.heard(Evicted)
        await cluster.until(lambda: "nominatedNodeName" in cluster.pod("high").get("status", {}))
        page = (await seen.get("/")).text
        count = await seen.value("dra_reconciler_held_room_devices", nominee="pod")
        (held_room,) = await seen.heard(Nominated)
        hint = cluster.pod("high")["status"]["nominatedNodeName"]
        assert cluster.gated("high")
    assert "Held room" in page
    assert re.search(r"pod default/high until \S+ \(2 devices on a\)", page)
    assert count == len(held_room.devices) == 2
    assert held_room.nodes == (hint,) == ("a",)


async def test_after_a_restart_the_pod_that_leaves_is_waited_for_and_nobody_else_leaves():
    cluster = small()
    async with evicting(cluster) as running:
        await fleet(running, cluster)
        for name in ("low0", "low1"):
            cluster.api.update(POD, "default", name, with_finalizer)
        cluster.load(claim("wanted", managed=False), important("high", "wanted"))
        (evicted,) = await running.heard(Evicted)
        (before,) = running.of(Nominated)
    async with evicting(cluster) as running:
        (after,) = await running.heard(Nominated)
        assert after.devices == before.devices
        await asyncio.sleep(5 * preemptor.PAUSE)
        cluster.api.update(POD, "default", evicted.pod.name, without_finalizers)
        await cluster.until(lambda: not cluster.gated("high"))
    assert running.of(Evicted) == []
    assert [cluster.pod(name) is None for name in ("low0", "low1")] == [
        evicted.pod.name == name for name in ("low0", "low1")
    ]


async def test_the_next_leader_holds_the_room_that_was_made():
    """The first process ends between two evictions. Its room is not taken by a claim that comes first."""
    cluster = small()
    cluster.load(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "default"}}
    )
    settings = {"held_room_config_map": "default/held", "evictions_per_minute": 1}
    async with evicting(cluster, **settings) as running:
        await fleet(running, cluster)
        cluster.load(claim("wanted", 2, managed=False), important("high", "wanted"))
        await running.heard(Evicted)
        await cluster.until(lambda: cluster.pod("low0") is None)
    cluster.load(claim("other"))
    async with evicting(cluster, **settings) as running:
        (*_, told) = await running.heard(
            Waits, counts=lambda one: any(key.name == "other" for key in one.claims)
        )
        assert "held for pod default/high until" in told.message
        await cluster.until(lambda: not cluster.gated("high"))
        await running.heard(NominationUsed)
    assert len(cluster.devices("wanted")) == 2
    assert not cluster.devices("other")
