"""A process that has nothing to decide: what watches, timers and the status of running pods cost.

A real process and real time. Pods that use claims report their status at a steady pace, as kubelets do; each
report changes the pod on the server, and comes to the process as an event.
"""

import asyncio
from collections.abc import Awaitable, Callable

from perf.fleets import mig
from perf.fleets.objects import Json
from perf.live import Cluster, cluster, reach
from perf.replica import Replica, replica
from perf.workload import Figure, Outcome, Progress, Size, Workload
from perf.workloads.live import labelled_claim
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.http import connect

ALLOCATED = "claim allocated"
NODE = "node-0000"


def at_rest(size: Size, progress: Progress) -> Outcome:
    """Processor time of a process whose claims are all allocated, first alone, then while pods report."""
    return asyncio.run(_at_rest(size, progress))


async def _at_rest(size: Size, progress: Progress) -> Outcome:
    async with reach() as where, connect(**where) as transport, cluster(transport) as made:
        await made.create_all(mig.fleet(size["nodes"]))
        await made.create_all(labelled_claim(number, "1g.5gb") for number in range(size["held"]))
        async with replica(where, {"own_drivers": mig.DRIVER}) as process:
            await process.ready()
            for number in range(size["held"]):
                await process.logged(ALLOCATED, _of(number))
            await made.create_all(map(_pod, range(size["pods"])))
            await asyncio.sleep(size["settle"])  # Events of the allocations are still written, ten a second
            progress(1, 3)
            quiet = await _share(process, asyncio.sleep(size["seconds"]))
            progress(2, 3)
            reports = size["a_minute"] * size["seconds"] // 60
            busy = await _share(process, _report(made, size, reports))
            progress(3, 3)
    return Outcome([
        Figure("of a core at rest", busy * 100, "%"),
        Figure("of a core without reports", quiet * 100, "%"),
        Figure("processor time of a report", (busy - quiet) * size["seconds"] / reports * 1e3, "ms"),
    ])  # fmt: skip


def _of(number: int) -> Callable[[Json], bool]:
    return lambda line: line["claim"] == f"default/claim-{number}"


async def _share(process: Replica, work: Awaitable[None]) -> float:
    """The part of a core that a process uses while something goes on."""
    loop = asyncio.get_running_loop()
    began, spent = loop.time(), process.processor_seconds()
    await work
    return (process.processor_seconds() - spent) / (loop.time() - began)


async def _report(made: Cluster, size: Size, reports: int) -> None:
    """Change the status of one pod after another, at an even pace."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number in range(reports):
        condition = {"type": "Ready", "status": "True", "message": f"report {number}"}
        patch = {"status": {"phase": "Running", "conditions": [condition]}}
        key = ObjectKey("default", f"pod-{number % size['pods']}")
        await made.client.patch(made.served["Pod"], key, patch, subresource="status")
        await asyncio.sleep(max(0.0, began + (number + 1) * size["seconds"] / reports - loop.time()))


def _pod(number: int) -> Json:
    """A pod that uses a claim and runs on a node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {
            "nodeName": NODE,
            "containers": [{"name": "main", "image": "none"}],
            "resourceClaims": [{"name": "partition", "resourceClaimName": f"claim-{number}"}],
        },
    }


WORKLOADS = [
    Workload(
        "rest",
        "processor time of a process with nothing to decide; in real time, two processes",
        at_rest,
        {"": {"nodes": 50, "held": 1500, "pods": 500, "a_minute": 500, "settle": 40, "seconds": 60}},
        tiny={"nodes": 1, "held": 1, "pods": 1, "a_minute": 600, "settle": 0, "seconds": 1},
        repeats=1,
    ),
]
