"""Two processes with leader election, and for how long nobody decides when the one that leads ends.

Real processes and real time: the leader gets a signal while the other stands by with the whole picture. The
time runs from the signal to the other's first allocation, of a claim that was created right after the signal.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from time import perf_counter

from perf.deciding import Wrong
from perf.fleets import mig
from perf.fleets.objects import Json
from perf.live import Cluster, cluster, reach
from perf.replica import Replica, replica
from perf.workload import Figure, Outcome, Progress, Size, Workload
from perf.workloads.live import labelled_claim
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.http import connect
from reconciler.ha.campaign import LEASE_KIND
from reconciler.ha.shard import LEASE

NAMESPACE = "default"
STEPS = 3
ALLOCATED = "claim allocated"


def failover(size: Size, progress: Progress) -> Outcome:
    """The first start, which waits out whoever may have been there before, and one change of leaders."""
    return asyncio.run(_failover(size, progress))


async def _failover(size: Size, progress: Progress) -> Outcome:
    held = size["held"]
    async with AsyncExitStack() as stack:
        where = await stack.enter_async_context(reach())
        transport = await stack.enter_async_context(connect(**where))
        made = await stack.enter_async_context(cluster(transport))
        await made.create_all(mig.fleet(size["nodes"]))
        await made.create_all(labelled_claim(number, "1g.5gb") for number in range(held))

        began = perf_counter()
        leader = await stack.enter_async_context(replica(where, _settings(size)))
        start = (await leader.logged(ALLOCATED))[0] - began
        for number in range(held):
            await leader.logged(ALLOCATED, _of(number))
        progress(1, STEPS)
        standby = await stack.enter_async_context(replica(where, _settings(size)))
        await standby.ready()
        progress(2, STEPS)

        age = await _age(made)
        began = perf_counter()
        leader.send(size["signal"])
        created = await _until_decides(standby, leader, made, held)
        over = [
            (await standby.logged(event))[0]
            for event in ("lease acquired, taking over", "became leader", ALLOCATED)
        ]
        await _check(made, held + created)
        progress(3, STEPS)
    return Outcome([
        Figure("signal to the other's first allocation", over[2] - began, "s"),
        Figure("until it held the Lease", over[0] - began, "s"),
        Figure("until it led", over[1] - began, "s"),
        Figure("age of the Lease at the signal", age, "s", ""),
        Figure("no Lease yet: start to first allocation", start, "s"),
    ])  # fmt: skip


def _settings(size: Size) -> Mapping[str, str]:
    return {
        "lease_seconds": f"{size['lease'] / 1000:g}", "leader_elect": "true",
        "lease_namespace": NAMESPACE, "own_drivers": mig.DRIVER,
    }  # fmt: skip


async def _until_decides(standby: Replica, leader: Replica, made: Cluster, number: int) -> int:
    """Create a claim, and one more whenever the old leader still took it. Returns how many that were."""
    created = 0
    while True:
        await made.create(labelled_claim(number + created, "1g.5gb"))
        created += 1
        if await _who_allocated(number + created - 1, standby, leader) is standby:
            return created


async def _who_allocated(number: int, *replicas: Replica) -> Replica:
    tasks = {asyncio.create_task(one.logged(ALLOCATED, _of(number))): one for one in replicas}
    try:
        while tasks:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                found = tasks.pop(task)
                if task.exception() is None:
                    return found
    finally:
        for task in tasks:
            task.cancel()
    raise Wrong(f"claim-{number} was allocated by nobody")


def _of(number: int) -> Callable[[Json], bool]:
    return lambda line: line["claim"] == f"default/claim-{number}"


async def _age(made: Cluster) -> float:
    """Seconds since the Lease was renewed."""
    lease = await made.client.get(LEASE_KIND, ObjectKey(NAMESPACE, LEASE))
    return (datetime.now(UTC) - datetime.fromisoformat(lease["spec"]["renewTime"])).total_seconds()


async def _check(made: Cluster, claims: int) -> None:
    kind = made.served["ResourceClaim"]
    given: list[str] = []
    for number in range(claims):
        found = await made.client.get(kind, ObjectKey("default", f"claim-{number}"))
        given += [
            str(one["device"]) + one["pool"] for one in found["status"]["allocation"]["devices"]["results"]
        ]
    if len(set(given)) != claims:
        raise Wrong("a device was given out twice")


_DEFAULTS = {"lease": 15_000}
"""Milliseconds, as the setting has it"""

WORKLOADS = [
    Workload(
        "failover",
        "a leader ends: seconds until the other allocates; in real time, two processes",
        failover,
        {
            "killed": {"nodes": 50, "held": 500, "signal": signal.SIGKILL.value, **_DEFAULTS},
            "stopped": {"nodes": 50, "held": 500, "signal": signal.SIGTERM.value, **_DEFAULTS},
        },
        tiny={
            "nodes": 1,
            "held": 2,
            "signal": signal.SIGKILL.value,
            "lease": 2_000,
        },
        repeats=5,
    ),
]
