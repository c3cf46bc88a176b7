"""Just before the gate of a pod with devices is removed: kube-scheduler must be able to bind it then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from reconciler.cluster.transport import Request, Response, Transport, WatchRequest
from reconciler.control.decisions.allocating import Allocated, Freed, Reclaimed, Ungated, Waits
from tests.tools.faulty_transport import Faulty, Held
from tests.tools.gangs import annotated
from tests.tools.running_reconciler import reconciling
from tests.tools.shared_clusters import SLOW, asking, bind, change_node, fleet, gone, machine, take_back
from tests.tools.small_fleet import Object, claim, pod

HOST = "kubernetes.io/hostname"


def labelled(found: Object, **labels: str) -> Object:
    return {**found, "metadata": {**found["metadata"], "labels": labels}}


def near(**labels: str) -> Object:
    """Part of a pod's spec: on a node with such a pod."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def evenly(**labels: str) -> Object:
    """Part of a pod's spec: spread over nodes."""
    rule = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": labels}}]}


async def test_a_pod_waits_until_the_pod_that_its_affinity_counts_is_bound():
    """kube-scheduler may try it first, find no such pod, and take the devices back."""
    cluster = fleet(machine("a"), machine("b"))
    cluster.load(claim("one"), labelled(pod("db", "one"), app="db"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated)
        cluster.load(claim("two"), pod("web", "two", **near(app="db")))
        await running.told(Waits, reason="PodsNotBound")
        assert (cluster.devices("two"), cluster.gated("web")) == (["a/d1"], True)
        bind(cluster, "db", "a")
        await running.heard(Ungated, 2)


async def test_the_first_of_pods_that_want_to_be_together_is_bound_before_the_others():
    """Until then kube-scheduler may put it anywhere for a moment, and refuse the others their nodes."""
    cluster = fleet(machine("a"))
    cluster.load(claim("one"), claim("two"))
    cluster.load(*(labelled(pod(f"p-{name}", name, **near(app="x")), app="x") for name in ("one", "two")))
    async with reconciling(cluster, **SLOW) as running:
        (first,) = await running.heard(Ungated)
        await running.told(Waits, reason="PodsNotBound")
        bind(cluster, first.pod.name, "a")
        await running.heard(Ungated, 2)


async def test_it_gives_its_devices_back_if_that_pod_goes():
    cluster = fleet(machine("a"))
    cluster.load(claim("one"), labelled(pod("db", "one"), app="db"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated)
        cluster.load(claim("two"), pod("web", "two", **near(app="db")))
        await running.told(Waits, reason="PodsNotBound")
        gone(cluster, "db")
        await running.heard(Freed)
        await running.told(Waits, reason="NoNode")
        assert cluster.devices("two") == []


async def test_a_spread_pod_waits_until_the_emptiest_domain_is_filled():
    """Two pods a node are allowed only when both nodes have one."""
    cluster = fleet(machine("a"), machine("b"))
    cluster.load(*(claim(f"c{n}") for n in range(3)))
    cluster.load(*(labelled(pod(f"p{n}", f"c{n}", **evenly(app="x")), app="x") for n in range(3)))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated, 2)
        await running.told(Waits, reason="PodsNotBound")
        on = {cluster.devices(f"c{n}")[0][0] for n in range(3) if not cluster.gated(f"p{n}")}
        assert on == {"a", "b"}
        for n in range(3):
            if not cluster.gated(f"p{n}"):
                bind(cluster, f"p{n}", cluster.devices(f"c{n}")[0][0])
        await running.heard(Ungated, 3)


async def test_the_node_may_have_filled_since_the_decision():
    """The devices are given back, and decided anew where there is room."""
    cluster = fleet(machine("a", cpu="4"), machine("b", cpu="4"))
    door = Held()
    cluster.load(claim("one"))
    async with reconciling(cluster, prepare=lambda f: f.on("PATCH", "/one/status", door), **SLOW) as running:
        cluster.load(pod("p", "one", **asking(cpu="3")))
        await door.arrived.wait()
        cluster.load(claim("two", managed=False), pod("other", gates=(), **asking(cpu="2")))
        bind(cluster, "other", "a")
        cluster.load(pod("seen", "two", **asking(cpu="1")))
        await running.heard(Allocated)  # of a pod that was created after it
        door.go.set()
        (freed,) = await running.heard(Freed)
        await running.heard(Ungated, 2)
    assert freed.why == "its node does not suit its pods any more"
    assert cluster.devices("one") == ["b/d1"]


async def test_a_later_pod_that_shares_a_claim_waits_until_the_claim_is_in_use():
    """Unreserved, the claim would be taken from all of them for the one that does not fit."""
    cluster = fleet(machine("a", cpu="4"))
    cluster.load(claim("one"), pod("first", "one", **asking(cpu="3")))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated)
        cluster.load(pod("later", "one", **asking(cpu="3")))
        await running.told(Waits, reason="NodeUnsuitable")
        assert cluster.gated("later")
        uid = cluster.pod("first")["metadata"]["uid"]
        cluster.edit("one", status=True, reservedFor=[{"resource": "pods", "name": "first", "uid": uid}])
        await running.heard(Ungated, 2)


async def test_members_of_a_gang_follow_those_that_their_affinity_counts():
    cluster = fleet(machine("a"))
    cluster.load(claim("c0"), claim("c1"))
    cluster.load(labelled(annotated("p0", "c0", size=2), app="driver"))
    cluster.load(annotated("p1", "c1", size=2, **near(app="driver")))
    async with reconciling(cluster, **SLOW) as running:
        await running.told(Waits, reason="PodsNotBound")
        assert (cluster.gated("p0"), cluster.gated("p1")) == (False, True)
        bind(cluster, "p0", "a")
        await running.heard(Ungated, 2)


async def test_a_claim_that_is_taken_back_before_the_watch_shows_the_gate_removed_is_left():
    """The answer to our own write is enough to know."""
    cluster = fleet(machine("a"))
    silence = SilentPods()
    cluster.load(claim("one"), pod("p", "one"))
    async with reconciling(cluster, prepare=silence.prepare, **SLOW) as running:
        await running.heard(Allocated)
        silence.begun.set()
        await running.heard(Ungated)
        take_back(cluster, "one")
        await running.heard(Reclaimed)
        cluster.load(claim("next"))
        await running.heard(Allocated, 2)
        assert cluster.devices("one") == []


class SilentPods:
    """A transport whose watch of pods falls silent."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.behind: Any = None

    def prepare(self, faulty: Faulty) -> None:
        self.behind, faulty.behind = faulty.behind, self

    async def send(self, request: Request) -> Response:
        behind: Transport = self.behind
        return await behind.send(request)

    @asynccontextmanager
    async def stream(self, request: WatchRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self.behind.stream(request) as lines:
            yield self._until_silent(lines) if request.path.endswith("/pods") else lines

    async def _until_silent(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for line in lines:
            if self.begun.is_set():
                await asyncio.Event().wait()
            yield line


# -- Gated pods get devices where kube-scheduler can follow: taints, room, cordons.


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def where(cluster: Any, name: str) -> str:
    """The node of a claim's devices, whose pool is called like it."""
    return str(cluster.devices(name)[0]).partition("/")[0]


async def test_pods_that_were_ungated_count_on_their_node_before_they_are_bound():
    """kube-scheduler takes its time; meanwhile the next pod must not be sent to the same room."""
    cluster = fleet(machine("a", cpu="3"), machine("b", cpu="3"))
    cluster.load(*(claim(name) for name in "xyz"))
    cluster.load(*(pod(f"p-{name}", name, **asking(cpu="2")) for name in "xyz"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Ungated, 2)
        waits = await running.told(Waits, reason="NoNode")
        assert {where(cluster, name) for name in "xyz" if cluster.devices(name)} == {"a", "b"}
        assert "0 of 2 nodes suit the pod: 2 Insufficient cpu" in waits.message
        gone(cluster, next(f"p-{name}" for name in "xyz" if cluster.devices(name)))
        await running.heard(Ungated, 3)


async def test_pods_of_others_count_until_they_end():
    cluster = fleet(machine("a", cpu="4"))
    cluster.load(pod("big", gates=(), **asking(cpu="3")), claim("one"), pod("p", "one", **asking(cpu="2")))
    bind(cluster, "big", "a")
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
        gone(cluster, "big")
        await running.heard(Ungated)
    assert where(cluster, "one") == "a"


async def test_a_node_that_becomes_ready_is_taken_at_once():
    cluster = fleet(machine("a", ready="False"))
    cluster.load(claim("one"), pod("p", "one"))
    async with reconciling(cluster, **SLOW) as running:
        await running.heard(Waits)
        change_node(cluster, "a", machine("a"))
        await running.heard(Ungated)


async def test_a_claim_without_a_pod_avoids_nodes_that_take_no_pods():
    """What the pods tolerate that will use it is not known; that nobody can go there is."""
    cluster = fleet(
        machine("a", spec={"unschedulable": True}),
        machine("b", ready="Unknown"),
        machine("c", spec={"taints": [TAINT]}),
    )
    cluster.load(claim("one"))
    async with reconciling(cluster) as running:
        await running.heard(Allocated)
    assert where(cluster, "one") == "c"
