"""A placement policy at work: the demand is learnt and kept, decisions are compared with other policies."""

import asyncio
from typing import Any

import pytest

from reconciler.api.validation.served_kinds import CONFIG_MAP
from reconciler.control import demand
from reconciler.control.decisions.allocating import Allocated
from reconciler.operations.policy_comparison import read_comparison
from tests.tools.naive_policies import GPUS
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim
from tests.tools.watched_reconciler import watched

FLAGS: dict[str, Any] = {
    "policy": ["best-fit", "class:nic=least-loss"],
    "policy_compare_seconds": 0.01,
    "demand_config_map": "default/demand",
}


async def kept(cluster: Cluster, key: str) -> str:
    """What the ConfigMap says under a key, as soon as it says it."""
    shelf = cluster.api.store[CONFIG_MAP]
    async with asyncio.timeout(PATIENCE):
        while True:
            record = shelf.get("default/demand")
            assert record is not None
            if key in record.object.get("data", {}):
                return str(record.object["data"][key])
            await shelf.wait(shelf.end)


@pytest.mark.loopback
async def test_the_demand_is_kept_and_policies_are_compared(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(demand, "EVERY", 0.05)
    cluster = Cluster([*GPUS])
    metadata = {"name": "demand", "namespace": "default"}
    cluster.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    async with watched(cluster, **FLAGS) as seen:
        cluster.load(claim("one"))
        await seen.heard(Allocated, 1)
        assert "gpu" in await kept(cluster, "demand")
        for name in ("two", "three"):
            cluster.load(claim(name))
        found = await seen.heard(Allocated, 3)
        samples, rows = read_comparison(await kept(cluster, "comparison"))
        compared = await seen.value("dra_reconciler_demand_shapes")
        page = (await seen.get("/")).text
    assert {one.policy for one in found} == {"best-fit"}
    assert samples >= 1
    assert {row.name for row in rows if row.used} == {"best-fit", "least-loss"}
    assert compared == 1.0
    assert 'id="placement"' in page
    assert "1 of class gpu" in page
