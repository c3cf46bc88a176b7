"""Two replicas in processes of their own, on a server that misbehaves: is anything lost or given twice?

The server is the embedded one in this process, behind the faults of `tests.tools.hostile_server`. One replica
is killed now and then, the other stopped for a while, so that it lives on while the lead changes.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple

import aiohttp

from perf.fleets import gpus, mig
from perf.fleets.objects import Json
from perf.replica import started
from perf.results import ROOT
from perf.soak_live import Mirror, mirrored
from perf.soak_load import SCARCE, Load
from reconciler.api.validation.served_kinds import CLAIM, LEASE, POD
from reconciler.cluster.http import connect
from reconciler.cluster.transport import Transport
from reconciler.embedded import ApiServer, run_controllers
from tests.tools.hostile_server import Faults, Hostile, proxy
from tests.tools.simulation.memory import InMemory

USUAL = {"failing": 0.03, "busy": 0.02, "cut": 0.01}
WORSE: tuple[dict[str, Any], ...] = (
    {}, {"slow": (0.5, 5.0)}, {"busy": 0.3}, {"cut": 0.3}, {"watch_seconds": 1.0}, {"bookmarks": False},
    {"stale": True, "watch_seconds": 5.0}, {"away": True},
)  # fmt: skip
WORSE_SECONDS = 20.0
SAMPLE_SECONDS = 5.0
STOPPED_SECONDS = 15.0
CALM_SECONDS = 240.0
"""For which everything that waits has time at the end"""


class Plan(NamedTuple):
    """What is done, for how long."""

    minutes: float
    rate: float
    """Pods or gangs a second"""
    nodes: int
    """With MIG partitions, 208 devices each"""
    whole: int
    """With eight whole GPUs each"""
    units: int
    """At once; beyond that the oldest goes"""
    trouble_seconds: float
    """Between two kills or stops"""
    kubeconfig: str = ""
    """Of a cluster that was made for this; empty for the embedded server"""
    seed: int = 1


class Replica:
    """One process that is started again whenever it ends."""

    def __init__(self, name: str, server: str, folder: Path, *, koordinator: bool) -> None:
        self._arguments = ["--server", server, "--lease-duration", "5s"]
        self.log, self.journal = folder / f"{name}.log", folder / f"{name}-journal"
        self._settings = {
            "own_drivers": f"{mig.DRIVER},{gpus.DRIVER},{SCARCE}", "koordinator": str(koordinator).lower(),
            "leader_elect": "true",
            "preemption": "evict", "preempting_classes": "high",
            "evictions_per_minute": "30", "journal": str(self.journal),
            "doctor_seconds": "0", "events": "false",
        }  # fmt: skip
        self.url = ""

    async def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/metrics"
        settings = self._settings | {"status_port": str(port)}
        with self.log.open("ab") as log:
            self.process = await started(self._arguments, settings, stdout=log, stderr=log)

    async def kept_alive(self) -> None:
        while True:
            await self.start()
            await self.process.wait()
            await asyncio.sleep(1)

    async def measured(self) -> Json:
        """Memory in MiB, open files, threads, and how many units are due. Empty while it starts."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text("ascii")  # noqa: ASYNC240
            files = len(os.listdir(f"/proc/{self.process.pid}/fd"))
            async with (
                aiohttp.ClientSession() as session,
                session.get(self.url, timeout=aiohttp.ClientTimeout(total=2)) as answer,
            ):
                text = await answer.text()
        except (OSError, TimeoutError, aiohttp.ClientError):
            return {}
        due = [
            line for line in text.splitlines() if line.startswith('dra_reconciler_queue_depth{state="due"}')
        ]
        words = status.split()
        return {
            "mib": int(words[words.index("VmRSS:") + 1]) / 1024,
            "threads": int(words[words.index("Threads:") + 1]),
            "files": files,
            "due": float(due[0].split()[-1]) if due else 0.0,
        }


class Soak:
    """One run."""

    def __init__(self, plan: Plan, folder: Path, api: ApiServer, transport: Transport) -> None:
        """`transport` leads to the server whose objects `api` has."""
        self.plan = plan
        self.random = Random(plan.seed)
        self.folder = folder
        self.api = api
        self.hostile = Hostile(transport, random=Random(plan.seed))
        self.load = Load(self.api, self.random, plan.units, koordinator=not plan.kubeconfig)
        self.findings: list[str] = []
        self.samples: list[Json] = []
        self.counts: Counter[str] = Counter()

    async def churn(self) -> None:
        while True:
            self.load.create()
            await asyncio.sleep(self.random.expovariate(self.plan.rate))

    async def weather(self) -> None:
        while True:
            self.hostile.faults = Faults(**(USUAL | self.random.choice(WORSE)))
            await asyncio.sleep(WORSE_SECONDS)

    async def trouble(self, killed: Replica, stopped: Replica) -> None:
        while True:
            await asyncio.sleep(self.plan.trouble_seconds)
            self.counts["stops"] += 1
            stopped.process.send_signal(signal.SIGSTOP)
            try:
                await asyncio.sleep(STOPPED_SECONDS)
            finally:
                stopped.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(self.plan.trouble_seconds)
            self.counts["kills"] += 1
            killed.process.kill()

    async def sample(self, replicas: tuple[Replica, ...], progress: Callable[[float, str], None]) -> None:
        began = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            self.findings += self.load.look()
            measured = [await one.measured() for one in replicas]
            gated = sum(
                bool(one.object["spec"].get("schedulingGates")) for one in self.api.store[POD].scan("")
            )
            at = asyncio.get_running_loop().time() - began
            self.samples.append({"at": round(at, 1), "gated": gated, "replicas": measured})
            progress(at, f"{gated} gated, {len(self.findings)} findings")

    async def run(self, progress: Callable[[float, str], None]) -> None:
        """Turmoil for so long, then calm until nothing waits, or for `CALM_SECONDS`."""
        self.load.fleets(self.plan.nodes, self.plan.whole)
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(proxy(self.hostile))
            if isinstance(self.api, Mirror):
                await self.api.sent()
            else:
                await stack.enter_async_context(run_controllers(self.api))
            self.replicas = (
                Replica("killed", server, self.folder, koordinator=not self.plan.kubeconfig),
                Replica("stopped", server, self.folder, koordinator=not self.plan.kubeconfig),
            )
            alive = [asyncio.create_task(one.kept_alive()) for one in self.replicas]
            sampling = asyncio.create_task(self.sample(self.replicas, progress))
            rough = [
                asyncio.create_task(one)
                for one in (self.churn(), self.weather(), self.trouble(*self.replicas))
            ]
            try:
                await asyncio.wait(
                    [*alive, sampling, *rough],
                    timeout=self.plan.minutes * 60,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                await self._cancel(rough)
                self.hostile.faults = Faults()
                await self._settled()
                self.findings += [*self.load.look(), *self.load.torn_gangs()]
            finally:
                await self._cancel([*rough, *alive, sampling])
                for one in self.replicas:
                    if one.process.returncode is None:
                        one.process.terminate()
                    await one.process.wait()

    async def _cancel(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def _settled(self) -> None:
        """Wait until what is there no longer changes."""
        until, before = asyncio.get_running_loop().time() + CALM_SECONDS, -1
        while asyncio.get_running_loop().time() < until and self.api.store.version != before:
            before = self.api.store[CLAIM].end + self.api.store[POD].end
            await asyncio.sleep(CALM_SECONDS / 4)
            if before == self.api.store[CLAIM].end + self.api.store[POD].end:
                return

    async def lost(self) -> list[str]:
        """What an offline run over all that the server holds would allocate: it fits, and waits."""
        items = [
            json.loads(record.whole(shelf.kind.stored))
            for shelf in self.api.store
            for record in shelf.scan("")
        ]
        dump = self.folder / "held.json"
        dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        command = ("-m", "reconciler", "allocate", "-f", str(dump), "-o", "json")
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, cwd=ROOT, stdout=-1, stderr=-1
        )
        out, err = await process.communicate()
        if process.returncode not in (0, 1):
            raise RuntimeError(err.decode())
        return [one["metadata"]["name"] for one in json.loads(out)["items"]]


def lines_of(log: Path) -> list[Json]:
    """Log lines; a process that was killed leaves half of one."""
    lines = []
    for line in log.read_bytes().splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return lines


def summed_up(course: Soak, lost: list[str]) -> Json:
    """The figures of a run."""
    steady = [one["replicas"][1] | {"at": one["at"]} for one in course.samples if one["replicas"][1]]
    warm = [one for one in steady if one["at"] > min(300.0, course.plan.minutes * 20)] or steady

    def ends(name: str) -> list[float]:
        """The medians of the first and of the last tenth."""
        some = [one[name] for one in warm] or [1.0]
        tenth = max(len(some) // 10, 1)
        return [round(median(some[:tenth]), 1), round(median(some[-tenth:]), 1)]

    memory = ends("mib")
    lines = sorted(
        (line for one in course.replicas for line in lines_of(one.log)), key=lambda line: line["timestamp"]
    )
    decided = [line for line in lines if "decision_id" in line]
    allocated = [line for line in lines if line["event"] == "claim allocated" and "pending_seconds" in line]
    waited = sorted(line["pending_seconds"] for line in allocated)
    half = len(lines) // 2
    per = [
        len(part) / max(sum("decision_id" in line for line in part), 1)
        for part in (lines[:half], lines[half:])
    ]
    lease = course.api.store[LEASE].get("kube-system/dra-reconciler")
    return {
        **course.plan._asdict(),
        "findings": course.findings[:20],
        "lost": lost,
        "stops and kills": dict(course.counts),
        "made": dict(course.load.made),
        "refused by the server": dict(course.api.refused) if isinstance(course.api, Mirror) else {},
        "ran": {kind: len(names) for kind, names in course.load.ran.items()},
        "evicted": course.load.evicted,
        "changes of the lead": lease.object["spec"]["leaseTransitions"] if lease else 0,
        "evictions logged": sum(line["event"] == "pod evicted" for line in lines),
        "decisions": len(decided),
        "internal errors": [line for line in lines if line["event"] == "reconcile failed"][:3],
        "pending seconds": {f"p{p}": waited[int((len(waited) - 1) * p / 100)] for p in (50, 99)}
        if waited
        else {},
        "most requests in 10 s": course.hostile.busiest(10.0),
        "memory growth": round(memory[1] / memory[0] - 1, 4),
        "memory, files, threads, after the first minutes and at the end": [
            memory,
            ends("files"),
            ends("threads"),
        ],
        "log lines a decision, first and second half": [round(one, 2) for one in per],
        "journal": {
            one.journal.name: [
                len(files := list(one.journal.glob("*"))),
                sum(file.stat().st_size for file in files),
            ]
            for one in course.replicas
        },
        "latency": [[line["timestamp"], line["pending_seconds"]] for line in allocated],
        "samples": course.samples,
    }


def soak(plan: Plan, folder: Path, progress: Callable[[float, str], None]) -> Json:
    """Run, and say what came of it as JSON."""

    async def run() -> Json:
        async with AsyncExitStack() as stack:
            if plan.kubeconfig:
                transport = await stack.enter_async_context(connect(kubeconfig=plan.kubeconfig))
                api: ApiServer = await stack.enter_async_context(mirrored(transport))
                course = Soak(plan, folder, api, transport)
            else:
                api = ApiServer(history=20_000)
                course = Soak(plan, folder, api, InMemory(api))
            await course.run(progress)
            return summed_up(course, await course.lost())

    return asyncio.run(run())


def draw(found: Json, path: Path) -> None:
    """Memory, what waits, and how long claims waited, over time."""
    from datetime import datetime  # noqa: PLC0415

    from matplotlib.figure import Figure  # noqa: PLC0415 - of an extra

    picture = Figure(figsize=(10, 7), layout="constrained")
    memory, queue, latency = picture.subplots(3, sharex=True)
    at = [one["at"] / 60 for one in found["samples"]]
    for number, name in enumerate(("killed now and then", "stopped now and then")):
        memory.plot(at, [one["replicas"][number].get("mib") for one in found["samples"]], label=name)
        queue.plot(at, [one["replicas"][number].get("due") for one in found["samples"]], label=f"due, {name}")
    queue.plot(at, [one["gated"] for one in found["samples"]], label="gated pods", color="0.6")
    if found["latency"]:
        times = [datetime.fromisoformat(when).timestamp() for when, _ in found["latency"]]
        latency.plot(
            [(when - times[0]) / 60 for when in times], [s for _, s in found["latency"]], ".", markersize=2
        )
    latency.set_yscale("log")
    for axes, label in ((memory, "memory, MiB"), (queue, "units"), (latency, "claims pending, s")):
        axes.set_ylabel(label)
        if axes is not latency:
            axes.legend(fontsize=8)
    latency.set_xlabel("minutes")
    picture.savefig(path)
