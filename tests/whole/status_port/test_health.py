"""`/livez` and `/readyz`: what they say, in Kubernetes' words, and when they fail."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from reconciler.control.decisions.allocating import Allocated
from reconciler.ha.shard import LEASE
from reconciler.operations.metrics.catalogue import CATALOGUE
from reconciler.operations.serving.port import Progress, Route
from reconciler.operations.telemetry import TaskHealth
from tests.tools.faulty_transport import Held
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim, device_class, devices, node, pod
from tests.tools.watched_reconciler import Watched, watched

loopback = pytest.mark.loopback


def fleet(*names: str) -> Cluster:
    return Cluster([node("n"), device_class(), devices("n", *names)])


async def ready(seen: Watched) -> None:
    async def is_ready() -> bool:
        return (await seen.get("/readyz")).status == 200

    await seen.until(is_ready)


@loopback
async def test_ready_means_that_every_kind_was_listed():
    cluster = fleet("d0")
    slow = Held()
    async with watched(cluster, prepare=lambda f: f.on("GET", "/resourceclaims", slow)) as seen:
        await slow.arrived.wait()

        async def others_are_listed() -> bool:
            return (await seen.get("/readyz")).text.count("[-]") == 1

        await seen.until(others_are_listed)
        waiting = await seen.get("/readyz")
        assert waiting.status == 500
        assert "[-]listed-resourceclaims failed: ResourceClaim is not listed yet" in waiting.text
        assert "[+]listed-pods ok" in waiting.text
        assert waiting.text.endswith("readyz check failed\n")
        assert (await seen.get("/readyz/listed-resourceclaims")).status == 500
        assert (await seen.get("/readyz/listed-pods")).text == "ok"
        assert (await seen.get("/readyz?exclude=listed-resourceclaims")).status == 200
        assert (await seen.get("/livez")).status == 200
        slow.go.set()
        await ready(seen)
        assert (await seen.get("/readyz")).text == "ok"
        verbose = await seen.get("/readyz?verbose")
        assert "[-]" not in verbose.text
        assert verbose.text.endswith("readyz check passed\n")


@loopback
async def test_health_is_served_during_discovery():
    cluster = fleet("d0")
    slow = Held()
    async with watched(cluster, prepare=lambda f: f.on("GET", "/version", slow)) as seen:
        await slow.arrived.wait()
        assert (await seen.get("/livez")).status == 200
        assert "[-]discovery failed" in (await seen.get("/readyz")).text
        slow.go.set()
        await ready(seen)


@loopback
async def test_a_process_that_shuts_down_is_live_but_not_ready():
    cluster = fleet("d0")
    cluster.load(claim("a"))
    held = Held()
    async with watched(cluster, prepare=lambda f: f.on("PATCH", "/a/status", held)) as seen:
        await held.arrived.wait()
        seen.stop.set()
        found = await seen.get("/readyz")
        assert (found.status, "[-]shutdown failed: the process is shutting down" in found.text) == (500, True)
        assert (await seen.get("/livez?verbose")).status == 200
        held.go.set()


@loopback
async def test_workers_that_are_all_stuck_are_noticed():
    """Something waits, the only worker does not come back, and nothing else moves."""
    cluster = fleet("d0", "d1")
    cluster.load(claim("a"))
    held = Held()
    flags = {"writers": 1, "stalled_seconds": 0.02, "write_seconds": 0.2}
    async with watched(cluster, prepare=lambda f: f.on("PATCH", "/a/status", held), **flags) as seen:
        await held.arrived.wait()
        cluster.load(claim("b"))

        async def fails() -> bool:
            found = await seen.get("/livez")
            return found.status == 500 and "[-]workers failed: no progress for" in found.text

        await seen.until(fails)
        held.go.set()
        await seen.heard(Allocated, 2)

        async def lives() -> bool:
            return (await seen.get("/livez")).status == 200

        await seen.until(lives)


IMPATIENT = {"writers": 1, "stalled_seconds": 0.02, "write_seconds": 0.1}


async def lives_for_long(seen: Watched) -> bool:
    """Whether every probe of the work says so, until something has waited for twice what counts as stuck.

    That of the loop may fail: on a busy machine, reading the metrics on the same loop takes longer than that.
    """
    lives = True
    began: list[float] = []

    async def long_enough() -> bool:
        nonlocal lives
        lives = (await seen.get("/livez/workers")).status == 200 and lives
        age = await seen.value("dra_reconciler_queue_oldest_age_seconds")
        began.append(age or 0.0)
        return began[-1] > began[0] + 0.4

    await seen.until(long_enough)
    return lives


@loopback
async def test_waiting_for_the_first_list_is_not_stuck():
    """A process that is killed while it lists a large cluster would never get further."""
    cluster = fleet("d0")
    cluster.load(claim("a"), pod("p", "a"))
    slow = Held()
    async with watched(cluster, prepare=lambda f: f.on("GET", "/resourceclaims", slow), **IMPATIENT) as seen:
        await slow.arrived.wait()
        assert await lives_for_long(seen)
        slow.go.set()


@loopback
async def test_shutdown_with_pending_work_is_not_stuck():
    cluster = fleet("d0", "d1")
    cluster.load(claim("a"), claim("b"))
    held = Held()
    async with watched(cluster, prepare=lambda f: f.on("PATCH", "/a/status", held), **IMPATIENT) as seen:
        await held.arrived.wait()
        seen.stop.set()
        assert await lives_for_long(seen)
        held.go.set()


def lease_of_another() -> dict[str, Any]:
    """It is not believed to have ended before we saw it unchanged for ten minutes."""
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 600}
    metadata = {"name": LEASE, "namespace": "kube-system"}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


@loopback
async def test_standby_is_not_stuck():
    """Another one holds the lease, and our queue is as long as its."""
    cluster = fleet("d0", "d1")
    cluster.load(claim("a"), claim("b"), lease_of_another())
    flags: dict[str, Any] = {"leader_elect": True, **IMPATIENT}
    async with watched(cluster, **flags) as seen:
        await ready(seen)
        assert await lives_for_long(seen)
        assert await seen.value("dra_reconciler_leader", lease="dra-reconciler") == 0
        assert "  leading: no" in (await seen.get("/statusz")).text


@loopback
async def test_standby_leaves_the_numbers_of_the_cluster_to_the_leader():
    """A sum over all replicas must not count a device once for each."""
    cluster = fleet("d0", "d1")
    cluster.load(claim("a"), lease_of_another())
    async with watched(cluster, leader_elect=True, preemption="advise") as seen:
        await ready(seen)
        families = await seen.families()
    assert [spec.name for spec in CATALOGUE if spec.by_leader and families[spec.full_name].samples] == []
    assert families["dra_reconciler_cache_age_seconds"].samples


@loopback
async def test_a_candidate_does_not_lead_before_the_server_answered():
    slow = Held()
    cluster = fleet("d0")
    async with watched(cluster, prepare=lambda f: f.on("GET", "/version", slow), leader_elect=True) as seen:
        await slow.arrived.wait()
        assert await seen.value("dra_reconciler_leader", lease="dra-reconciler") == 0
        assert "  leading: no" in (await seen.get("/statusz")).text
        slow.go.set()


async def test_an_ended_task_is_named_except_at_shutdown():
    stop = asyncio.Event()
    health = TaskHealth(stop)
    ended = asyncio.create_task(asyncio.sleep(0), name="watch pods")
    alive = asyncio.create_task(asyncio.sleep(1000), name="watch nodes")
    for task in (ended, alive):
        task.add_done_callback(health.ended)
    assert health.problem() == ""
    await ended
    assert health.problem() == "ended: watch pods"
    stop.set()
    assert health.problem() == ""
    alive.cancel()


@loopback
async def test_an_unknown_check_is_reported():
    async with watched(fleet("d0")) as seen:
        await ready(seen)
        assert (await seen.get("/livez/nonsense")).status == 404
        found = await seen.get("/livez?verbose&exclude=nonsense")
        assert 'warn: some health checks cannot be excluded: no matches for "nonsense"' in found.text


@pytest.mark.parametrize(
    ("steps", "stuck"),
    [
        ([(100, 0, 0.0)], False),  # nothing to do
        ([(100, 0, 5.0)], False),  # idle for long, and something came just now
        ([(100, 0, 100.0)], True),
        ([(50, 0, 50.0), (100, 0, 100.0)], True),
        ([(90, 1, 90.0), (100, 1, 100.0)], False),  # something was done ten seconds ago
        ([(100, 1, 100.0), (200, 1, 200.0)], True),
        ([(100, 0, 0.0), (130, 0, 130.0)], False),  # it became ours just now, and is old already
        ([(100, 0, 0.0), (170, 0, 170.0)], True),
    ],
)
def test_stuck_means_due_work_without_progress(steps: list[tuple[float, int, float]], stuck: bool):
    now, done, waiting = 0.0, 0, 0.0
    progress = Progress(lambda: done, lambda: waiting, 60.0, lambda: now)
    problem = ""
    for now, done, waiting in steps:  # noqa: B007 - read by the lambdas
        problem = progress.problem()
    assert bool(problem) == stuck


@loopback
async def test_routes_can_be_added_at_any_time():
    async def page(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=f"{request.method} {request.path} {await request.text()}")

    async with watched(fleet("d0")) as seen:
        await ready(seen)
        assert (await seen.get("/whatif")).status == 404
        seen.port.add(Route("/whatif", page, methods=("POST",)), Route("/pages/", page))
        assert (await seen.get("/whatif")).status == 405
        assert (await seen.get("/pages/a/b")).text == "GET /pages/a/b "
        assert "/pages/" in (await seen.get("/statusz")).text


@loopback
async def test_a_failing_handler_does_not_affect_others():
    async def page(_: web.BaseRequest) -> web.StreamResponse:
        raise ValueError("odd")

    async with watched(fleet("d0")) as seen:
        await ready(seen)
        seen.port.add(Route("/odd", page))
        found = await seen.get("/odd")
        assert (found.status, "odd" in found.text) == (500, False)
        assert (await seen.get("/livez")).status == 200


@loopback
async def test_too_many_requests_are_rejected_but_health_is_served():
    gate = asyncio.Event()
    inside = asyncio.Semaphore(0)

    async def slow(_: web.BaseRequest) -> web.StreamResponse:
        inside.release()
        await gate.wait()
        return web.Response(text="at last")

    async with watched(fleet("d0")) as seen:
        await ready(seen)
        seen.port.add(Route("/slow", slow))
        asked = [asyncio.ensure_future(seen.get("/slow")) for _ in range(32)]
        for _ in asked:
            await inside.acquire()
        assert (await seen.get("/slow")).status == 429
        assert (await seen.get("/livez")).status == 200
        gate.set()
        assert {found.status for found in await asyncio.gather(*asked)} == {200}
