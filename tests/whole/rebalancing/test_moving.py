"""Pods are moved, one at a time, so that more of the large devices fit."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reconciler.api.objects.core import GATE
from reconciler.api.validation.served_kinds import CLAIM, NODE, POD
from reconciler.app import evicting as evicting_parts
from reconciler.control.decisions.every import (
    MoveEvicted,
    MovesAborted,
    MovesPlanned,
    Nominated,
    NominationUsed,
    PodMoved,
)
from reconciler.control.relocation import rebalancer
from reconciler.control.relocation.moves import MOVABLE
from reconciler.control.relocation.rebalancer import Rebalancer
from tests.tools.faulty_transport import Fault, Faulty, Held, answer, lost_answer
from tests.tools.machines import claim_of, device_class, halves, objects_of, pod_of, spec_of
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, Running, reconciling
from tests.tools.small_fleet import pod
from tests.tools.watched_reconciler import watched


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancer, "LOOK", 0.01)
    monkeypatch.setattr(rebalancer, "STEP", 0.01)


class ReplicaSet:
    """Keeps as many pods as it has, as the controller of Kubernetes does: a pod that leaves is replaced."""

    def __init__(self, cluster: Cluster, *, movable: bool = True) -> None:
        self._cluster = cluster
        self._labels = {MOVABLE: "true"} if movable else {}
        self.gates: tuple[str, ...] = (GATE,)
        self.template = "quarter"
        self.made = 0
        self.names: list[str] = []

    def grow(self) -> str:
        """One pod more, whose claim for a quarter of a GPU is made from a template."""
        name = f"web-{self.made}"
        self.made += 1
        made = pod(name, templates=(self.template,), gates=self.gates)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
        made["metadata"] |= {"ownerReferences": [owner], "labels": self._labels}
        self._cluster.load(made)
        self.names.append(name)
        return name

    async def run(self) -> None:
        """Replace pods until cancelled."""
        shelf = self._cluster.api.store[POD]
        while True:
            end = shelf.end
            for name in list(self.names):
                found = self._cluster.pod(name)
                if found is None or "deletionTimestamp" in found["metadata"]:
                    self.names.remove(name)
                    self.grow()
            await shelf.wait(end)


def quarter_template() -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "quarter", "namespace": "default"},
        "spec": {"spec": spec_of("quarter", 1)},
    }


def fleet() -> Cluster:
    """Three nodes with one GPU each, which is a whole, halves or quarters."""
    machines = [raw for at in range(3) for raw in objects_of(f"n{at}", halves())]
    return Cluster([device_class(), *machines, quarter_template()])


def place(cluster: Cluster, name: str) -> str:
    """`NODE/DEVICE` of a pod; empty if it has none."""
    for record in cluster.api.store[CLAIM].scan(""):
        owners = record.object["metadata"].get("ownerReferences", ())
        if any(owner["name"] == name for owner in owners):
            return "".join(cluster.devices(record.object["metadata"]["name"]))
    return ""


@asynccontextmanager
async def moving(cluster: Cluster, **flags: Any) -> AsyncIterator[Running]:
    """No cool-down, hardly a calm time."""
    options = {
        "rebalance": "evict",
        "rebalance_goals": "whole=2",
        "rebalance_calm_seconds": 0.05,
        "eviction_cooldown_seconds": 0.0,
        "backoff_cap_seconds": 0.2,
    }
    async with reconciling(cluster, controllers=True, **{**options, **flags}) as running:
        yield running


@asynccontextmanager
async def replaced(web: ReplicaSet) -> AsyncIterator[None]:
    task = asyncio.create_task(web.run())
    try:
        yield
    finally:
        task.cancel()


async def scattered(running: Running, cluster: Cluster, web: ReplicaSet) -> None:
    """One quarter is held on each of three nodes: each pod came when the other nodes were cordoned."""
    for at in range(3):
        others = [f"n{other}" for other in range(3) if other != at]
        for name in others:
            cordon(cluster, name, on=True)
        name = web.grow()
        await cluster.until(partial(runs, cluster, name))
        for other in others:
            cordon(cluster, other, on=False)
    assert sorted(place(cluster, name)[:2] for name in web.names) == ["n0", "n1", "n2"]


def runs(cluster: Cluster, name: str) -> bool:
    return cluster.pod(name) is not None and cluster.phase(name) == "Running"


def cordon(cluster: Cluster, name: str, *, on: bool) -> None:
    def changed(shown: dict[str, Any]) -> dict[str, Any]:
        return {**shown, "spec": {**shown.get("spec", {}), "unschedulable": on}}

    cluster.api.update(NODE, "", name, changed)


async def test_two_pods_move_one_after_the_other_to_the_places_that_are_held():
    cluster = fleet()
    web = ReplicaSet(cluster)
    async with moving(cluster) as running, replaced(web):
        await scattered(running, cluster, web)
        await running.heard(PodMoved, 2)
        moved, evicted = running.of(PodMoved), running.of(MoveEvicted)
        (planned, *_) = running.of(MovesPlanned)
        await cluster.until(lambda: moved_events(cluster, evicted[0].pod.name))
    assert (planned.before, planned.after, planned.acts) == (0, 2, True)
    assert [one.pod for one in evicted] == list(planned.pods)
    assert [one.devices for one in moved] == [one.devices for one in evicted]
    assert len({place(cluster, name)[:2] for name in web.names}) == 1
    assert running.of(MovesAborted) == []
    order = [type(one) for one in running.decisions if isinstance(one, MoveEvicted | PodMoved)]
    assert order == [MoveEvicted, PodMoved] * 2
    assert len(running.of(NominationUsed)) == 2
    (event,) = moved_events(cluster, evicted[0].pod.name)
    assert event["message"].startswith(f"Evicted to move it to node {evicted[0].to}, so that one more device")


def moved_events(cluster: Cluster, name: str) -> list[Any]:
    return [one for one in cluster.events(name) if one["reason"] == "Moved"]


async def test_advice_evicts_nothing_and_holds_no_place(tmp_path: Path):
    cluster = fleet()
    web = ReplicaSet(cluster)
    async with moving(cluster, rebalance="advise", journal=str(tmp_path)) as running, replaced(web):
        await scattered(running, cluster, web)
        await running.heard(MovesPlanned)
    (*_, planned) = running.of(MovesPlanned)
    assert not planned.acts
    assert planned.why
    assert not running.of(MoveEvicted)
    assert not running.of(Nominated)
    assert '"planned"' in journal(tmp_path)


async def aborted(running: Running, why: str) -> MovesAborted:
    """What was said when moves were aborted for this reason. An earlier plan may have ended otherwise."""
    found = await running.heard(MovesAborted, counts=lambda one: one.why.endswith(why))
    return next(one for one in found if one.why.endswith(why))


def journal(folder: Path) -> str:
    """The text of all its files."""
    return b"".join(gzip.decompress(path.read_bytes()) for path in folder.iterdir()).decode()


@pytest.mark.parametrize("faults", [[answer(403)], [answer(503), lost_answer]], ids=["refused", "away"])
async def test_advice_outlasts_a_server_that_does_not_name_its_rights(
    faults: list[Fault], monkeypatch: pytest.MonkeyPatch
):
    """Whoever allocates goes on: an error here would end the process."""
    monkeypatch.setattr(evicting_parts, "ASK_AGAIN", 0.01)
    cluster = fleet()
    web = ReplicaSet(cluster)

    def prepare(faulty: Faulty) -> None:
        faulty.on("POST", "/selfsubjectaccessreviews", *faults)

    async with moving(cluster, rebalance="advise", prepare=prepare) as running, replaced(web):
        await scattered(running, cluster, web)
        await running.heard(MovesPlanned)
        assert running.faulty.faults == []


async def test_budgets_are_read_once_that_is_allowed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evicting_parts, "ASK_FOR_RIGHTS", 0.01)
    cluster, listing = fleet(), Held()

    def prepare(faulty: Faulty) -> None:
        faulty.on("POST", "/selfsubjectaccessreviews", answer(403))
        faulty.on("GET", "/poddisruptionbudgets", listing)

    async with moving(cluster, rebalance="advise", prepare=prepare), asyncio.timeout(PATIENCE):
        await listing.arrived.wait()
        listing.go.set()


async def test_nobody_is_moved_who_is_not_opted_in():
    cluster = fleet()
    web = ReplicaSet(cluster, movable=False)
    async with moving(cluster, rebalance_goals="whole=2,node=2") as running, replaced(web):
        await scattered(running, cluster, web)
        await asyncio.sleep(1.0)
    assert not running.of(MovesPlanned)
    assert not running.of(MoveEvicted)


async def test_the_place_is_held_until_its_deadline_and_the_rest_is_dropped():
    """Nothing replaces the pod. Somebody else does not get the place, and no other pod leaves."""
    cluster = fleet()
    web = ReplicaSet(cluster)
    async with moving(cluster, nomination_seconds=5.0) as running:
        await scattered(running, cluster, web)
        (evicted,) = await running.heard(MoveEvicted)
        cluster.load(pod("other", templates=("quarter",)))
        await cluster.until(partial(runs, cluster, "other"))
        assert place(cluster, "other") != f"{evicted.to}/{evicted.devices[0].device}"
        dropped = await aborted(running, f"nothing replaced pod {evicted.pod} in time")
    assert len(running.of(MoveEvicted)) == 1
    assert len(dropped.pods) == 1


async def test_the_rest_is_dropped_if_the_replacement_gets_other_devices():
    """It may not use the node where its place is held."""
    cluster = fleet()
    web = ReplicaSet(cluster)
    async with moving(cluster) as running:
        await scattered(running, cluster, web)
        (evicted,) = await running.heard(MoveEvicted)
        cordon(cluster, evicted.to, on=True)
        async with replaced(web):
            await aborted(running, "got other devices")
    assert len(running.of(MoveEvicted)) == 1


async def test_the_rest_is_dropped_if_the_replacement_is_not_gated():
    cluster = fleet()
    web = ReplicaSet(cluster)
    async with moving(cluster) as running:
        await scattered(running, cluster, web)
        await running.heard(MoveEvicted)
        # Its claim is not made: allocated before anybody looks, it could have the place that is held.
        web.gates, web.template = (), "missing"
        async with replaced(web):
            await aborted(running, "does not have our scheduling gate")


async def test_nobody_moves_while_writes_are_paused():
    cluster = fleet()
    web = ReplicaSet(cluster)
    async with moving(cluster, rebalance="off") as running:
        await scattered(running, cluster, web)
    async with moving(cluster, pause=True) as running:
        await running.heard(MovesPlanned)
        await asyncio.sleep(0.1)
    assert not running.of(MoveEvicted)
    assert not running.of(Nominated)


async def test_a_look_at_the_fleet_does_not_hold_the_loop_while_pools_are_built(
    monkeypatch: pytest.MonkeyPatch,
):
    """They are built a few at a time, and before anybody asks for a snapshot."""
    cluster = Cluster([device_class(), *objects_of("n0", halves())])
    sizes, unbuilt, looks, grown = set[int](), list[bool](), asyncio.Event(), asyncio.Event()
    state = Rebalancer._state

    def looked(self: Rebalancer) -> Any:
        unbuilt.append(self._store.supply.inventory.unbuilt)
        sizes.add(self._store.snapshot().fleet.size)
        (grown if len(sizes) > 1 else looks).set()
        return state(self)

    monkeypatch.setattr(Rebalancer, "_state", looked)
    async with moving(cluster, rebalance="advise"), asyncio.timeout(PATIENCE):
        await looks.wait()
        cluster.load(*objects_of("n1", halves()))
        await grown.wait()
    assert not any(unbuilt)


def scattered_before() -> Cluster:
    """A quarter on each of three nodes is held by a running pod that an earlier process served."""
    cluster = fleet()
    for at in range(3):
        cluster.load(pod_of(f"p{at}", f"n{at}"))
        made = claim_of(f"p{at}", "quarter", f"n{at}", "quarter-0")
        made["status"]["reservedFor"][0]["uid"] = cluster.pod(f"p{at}")["metadata"]["uid"]
        cluster.load(made)
    return cluster


@pytest.mark.loopback
async def test_advice_is_on_by_default_and_on_the_page():
    async with watched(
        scattered_before(), rebalance_goals="whole=2", rebalance_calm_seconds=0.05, embedded=True
    ) as seen:
        *_, planned = await seen.heard(MovesPlanned, 1)
        advised = await seen.value("dra_reconciler_moves_advised", goal="whole=2")
        page, status = (await seen.get("/")).text, (await seen.get("/statusz")).text
    assert not planned.acts
    assert len(planned.pods) == advised == 2
    assert 'id="moves"' in page
    assert "device of whole: 2 instead of 0 after 2 moves" in page
    assert f"{planned.pods[0]} from n" in status
