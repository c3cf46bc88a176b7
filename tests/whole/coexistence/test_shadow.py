"""Shadow mode: look on, compare, and write nothing."""

import asyncio
from typing import Any

import pytest

from reconciler.aio.queue import Queue
from reconciler.allocation.policies.selection import PLAIN
from reconciler.api.objects.changes import Replaced
from reconciler.api.objects.semantics import Semantics
from reconciler.api.validation.kinds import ServedKind
from reconciler.api.validation.served_kinds import CLAIM, DEVICE_CLASS, NODE, SLICE
from reconciler.api.versions.reading import read
from reconciler.control.decider import Decider
from reconciler.control.decisions.allocating import Compared, Outcome, WritesPaused
from reconciler.control.decisions.declaration import Decision
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.shadow import Shadow
from reconciler.control.units import Unit
from reconciler.state.store import Store
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.shared_clusters import SLOW, Listening, allocate, asking, bind, fleet, machine
from tests.tools.small_fleet import claim, pod

SHADOW: dict[str, Any] = {"mode": "shadow", "embedded": False, "shadow_pending_seconds": 600.0, **SLOW}


def ordinary(cluster: Cluster, name: str, *claims: str, **spec: Any) -> None:
    """A pod that kube-scheduler sees, and its claims."""
    cluster.load(*(claim(one, managed=False) for one in claims), pod(name, *claims, gates=(), **spec))


async def test_the_same_devices_on_the_same_node_agree():
    cluster = fleet(machine("a"))
    ordinary(cluster, "p", "one")
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, **SHADOW) as running:
        await listening.listed()
        allocate(cluster, "one", "a", "d0", pod="p")
        (told,) = await running.heard(Compared)
    assert told.outcome is Outcome.AGREES
    assert (told.node, told.their_node) == ("a", "a")
    assert told.devices == told.their_devices


async def test_a_policy_decides_what_is_compared():
    """Node b has fewer free devices, so best fit takes one of those."""
    cluster = fleet(machine("a"), machine("b"))
    ordinary(cluster, "p", "one")
    ordinary(cluster, "q", "two")
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, policy=["best-fit"], **SHADOW) as running:
        await listening.listed()
        allocate(cluster, "one", "b", "d0", pod="p")
        allocate(cluster, "two", "b", "d1", pod="q")
        told = await running.heard(Compared, 2)
    assert [one.node for one in told] == ["a", "b"]
    assert [one.outcome for one in told] == [Outcome.OTHER_NODE, Outcome.AGREES]


async def test_other_devices_on_the_same_node():
    cluster = fleet(machine("a"))
    ordinary(cluster, "p", "one")
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, **SHADOW) as running:
        await listening.listed()
        allocate(cluster, "one", "a", "d1", pod="p")
        (told,) = await running.heard(Compared)
    assert told.outcome is Outcome.OTHER_DEVICES
    found = [str(device) for device in (*told.devices, *told.their_devices)]
    assert found == ["gpu.example.com/a/d0", "gpu.example.com/a/d1"]


@pytest.mark.parametrize(
    ("device", "there"),
    [
        pytest.param("d0", Outcome.AGREES, id="there we would agree"),
        pytest.param("d1", Outcome.OTHER_DEVICES, id="nor there"),
    ],
)
async def test_another_node(device: str, there: Outcome):
    """Nodes are a matter of taste, so it is told as well what we would have given on theirs."""
    cluster = fleet(machine("a"), machine("b"))
    ordinary(cluster, "p", "one")
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, **SHADOW) as running:
        await listening.listed()
        allocate(cluster, "one", "b", device, pod="p")
        (told,) = await running.heard(Compared)
    assert (told.outcome, told.there) == (Outcome.OTHER_NODE, there)
    assert (told.node, told.their_node) == ("a", "b")


async def test_they_allocate_what_we_would_refuse():
    cluster = fleet(machine("a", cpu="1"))
    ordinary(cluster, "p", "one", **asking(cpu="2"))
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, **SHADOW) as running:
        await listening.listed()
        allocate(cluster, "one", "a", "d0", pod="p")
        (told,) = await running.heard(Compared)
    assert told.outcome is Outcome.WE_REFUSE
    assert told.message.startswith("NoNode")


async def test_claims_of_one_pod_are_judged_by_one_decision_although_they_come_one_by_one():
    """After the first the picture is another: asked afresh, we would take the second's device for ours."""
    cluster = fleet(machine("a"), machine("b"), count=2)
    ordinary(cluster, "p", "one", "two")
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, **SHADOW) as running:
        await listening.listed()
        allocate(cluster, "one", "a", "d1", pod="p")
        allocate(cluster, "two", "a", "d0", pod="p")
        told = await running.heard(Compared, 2)
    assert [one.outcome for one in told] == [Outcome.OTHER_DEVICES, Outcome.OTHER_DEVICES]
    assert [str(one.devices[0].device) for one in told] == ["d0", "d1"]


async def test_a_pod_that_is_bound_by_the_time_its_claim_comes_is_judged_as_before():
    """Watches of pods and claims run on their own."""
    cluster = fleet(machine("a"), machine("b"))
    ordinary(cluster, "p", "one")
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, **SHADOW) as running:
        await listening.listed()
        bind(cluster, "p", "b")
        allocate(cluster, "one", "b", "d0", pod="p")
        (told,) = await running.heard(Compared)
    assert (told.outcome, told.node) == (Outcome.OTHER_NODE, "a")


async def test_a_pod_waits_although_we_could():
    cluster = fleet(machine("a"))
    ordinary(cluster, "p", "one")
    async with reconciling(cluster, **{**SHADOW, "shadow_pending_seconds": 0.01}) as running:
        (told,) = await running.heard(Compared)
    assert told.outcome is Outcome.THEY_WAIT
    assert (told.node, [device.device for device in told.devices]) == ("a", ["d0"])


async def test_a_pod_that_waits_rightly_is_told_of_once_it_does_so_wrongly():
    cluster = fleet(machine("a"), count=1)
    ordinary(cluster, "p", "one")
    cluster.load(claim("other"))
    allocate(cluster, "other", "a", "d0")
    quick = {**SHADOW, "shadow_pending_seconds": 0.01, "backoff_base_seconds": 0.01}
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, **quick) as running:
        await listening.listed()
        cluster.edit("other", status=True, allocation=None)
        (told,) = await running.heard(Compared)
    assert told.outcome is Outcome.THEY_WAIT


async def test_a_claim_without_a_pod_is_compared_too():
    cluster = fleet(machine("a", ready="False"), machine("b"))
    cluster.load(claim("one", managed=False))
    listening = Listening()
    async with reconciling(cluster, prepare=listening.prepare, **SHADOW) as running:
        await listening.listed()
        allocate(cluster, "one", "b", "d0")
        (told,) = await running.heard(Compared)
    assert (told.outcome, told.pod) == (Outcome.AGREES, None)


async def test_what_was_missed_while_the_watch_was_away_is_compared_in_the_order_of_its_timestamps():
    """By name `late` would come first, and take the device that `z-early` got."""
    cluster = fleet(machine("a"))
    cluster.load(claim("late", managed=False), claim("z-early", managed=False))
    shadow, told = looking_on(cluster)
    allocate(cluster, "late", "a", "d1", stamp="2026-01-02T00:00:00Z")
    allocate(cluster, "z-early", "a", "d0", stamp="2026-01-01T00:00:00Z")
    shadow.take(listing(cluster, CLAIM))
    found = [(one.claims[0].name, one.outcome) for one in told]
    assert found == [("z-early", Outcome.AGREES), ("late", Outcome.AGREES)]
    shadow.take(listing(cluster, CLAIM))
    assert len(told) == 2


def listing(cluster: Cluster, kind: ServedKind) -> Replaced:
    """Everything of a kind, as a watch lists it."""
    version = "v1" if kind is NODE else "resource.k8s.io/v1"
    records = cluster.api.store[kind].scan("")
    things = [read({"kind": kind.kind, "apiVersion": version, **record.object}) for record in records]
    return Replaced(kind.kind, tuple(things), ())


def looking_on(cluster: Cluster) -> tuple[Shadow, list[Compared]]:
    """A shadow that has seen everything on the server."""
    told: list[Compared] = []

    def report(decision: Decision) -> None:
        assert isinstance(decision, Compared)
        told.append(decision)

    queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=lambda: 1.0)
    intake = Intake(Store(Semantics()), queue, ["ResourceClaim"], report)
    decider = Decider(Ownership(alone=True), steps=1000)
    shadow = Shadow(intake, decider, intake.take, 30.0, lambda: PLAIN, clock=lambda: 0.0, report=report)
    for kind in (NODE, DEVICE_CLASS, SLICE, CLAIM):
        shadow.take(listing(cluster, kind))
    return shadow, told


async def test_nothing_at_all_is_written():
    """Whatever there would be to do: claims and gated pods of ours, claims to free, races, a pause."""
    cluster = fleet(machine("a"), count=1)
    cluster.load(claim("ours"), claim("gated", managed=False), pod("g", "gated"), claim("gone"))
    cluster.edit("gone", finalizers=["resource.kubernetes.io/delete-protection"])
    cluster.delete("gone")
    ordinary(cluster, "p", "one")
    before = cluster.api.store.version
    async with reconciling(cluster, **{**SHADOW, "shadow_pending_seconds": 0.01}, pause=True) as running:
        await running.heard(Compared)
        assert cluster.api.store.version == before
        allocate(cluster, "one", "a", "d0", pod="p")
        now = cluster.api.store.version
        await running.heard(Compared, 2)
    assert cluster.api.store.version == now
    assert running.faulty.sent == []
    assert running.of(WritesPaused) == []
    assert cluster.gated("g")


async def test_it_stops_at_once_before_everything_was_listed():
    queue: Queue[Unit] = Queue(base=1.0, cap=1.0, random=lambda: 1.0)
    intake = Intake(Store(Semantics()), queue, ["Pod"], lambda _: None)
    decider = Decider(Ownership(alone=True), steps=1000)
    shadow = Shadow(
        intake, decider, intake.take, 30.0, lambda: PLAIN, clock=lambda: 0.0, report=lambda _: None
    )
    queue.close()
    shadow.stop()
    async with asyncio.timeout(PATIENCE):
        await shadow.work()
