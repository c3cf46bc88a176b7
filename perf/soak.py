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
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import aiohttp
from msgspec import Struct

from perf.fleets import gpus, koordinator, mig
from perf.fleets.objects import Json, claim, device_class, exactly, node, pool
from perf.results import ROOT
from reconciler.api.objects.quantity import Quantity
from reconciler.api.validation.served_kinds import CLAIM, LEASE, POD, SLICE
from reconciler.embedded import ApiServer, run_controllers
from tests.tools.gangs import grouped, pod_group
from tests.tools.hostile_server import Faults, Hostile, proxy
from tests.tools.koordinator_cluster import machine, wants
from tests.tools.simulation.memory import InMemory
from tests.tools.small_fleet import pod

SCARCE = "scarce.example.com"
"""A driver with few devices, for which pods of the class `high` evict others"""
GUARDED = {"app": "guarded"}
"""Labels of pods of which a budget allows none to go"""
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
KINDS = ("mig", "mig", "mig", "gpu", "gpu", "gang", "koordinator", "scarce", "urgent")


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
    seed: int = 1


class Replica:
    """One process that is started again whenever it ends."""

    def __init__(self, name: str, server: str, folder: Path) -> None:
        self._command = [
            sys.executable,
            "-m",
            "reconciler",
            "run",
            "--server",
            server,
            "--lease-duration",
            "5s",
        ]
        self.log, self.journal = folder / f"{name}.log", folder / f"{name}-journal"
        self._settings = {
            "own_drivers": f"{mig.DRIVER},{gpus.DRIVER},{SCARCE}", "koordinator": "true",
            "leader_elect": "true",
            "preemption": "evict", "preempting_classes": "high", "journal": str(self.journal),
            "doctor_seconds": "0", "events": "false",
        }  # fmt: skip
        self.url = ""

    async def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/metrics"
        settings = self._settings | {"status_port": str(port)}
        own = {f"DRA_RECONCILER_{name.upper()}": text for name, text in settings.items()}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command, cwd=ROOT, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, **own},
            )  # fmt: skip

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


class Books(Struct):
    """Devices and counters of the slices, to see what is given twice. Reads nothing of the reconciler."""

    draws: dict[tuple[str, str, str], list[tuple[str, Json]]] = {}
    sizes: dict[tuple[str, str, str, str], int] = {}

    def read(self, spec: Json) -> None:
        """A slice."""
        driver, name = spec["driver"], spec["pool"]["name"]
        for one in spec.get("devices", ()):
            consumed = [(part["counterSet"], part["counters"]) for part in one.get("consumesCounters", ())]
            self.draws[driver, name, one["name"]] = consumed
        for one in spec.get("sharedCounters", ()):
            for counter, amount in one["counters"].items():
                self.sizes[driver, name, one["name"], counter] = Quantity.parse(amount["value"]).nanos

    def wrong(self, claims: Iterator[Json]) -> Iterator[str]:
        """What is held twice, or more of than there is."""
        held: Counter[tuple[str, str, str]] = Counter()
        drawn: Counter[tuple[str, str, str, str]] = Counter()
        for one in claims:
            for result in one.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
                device = (result["driver"], result["pool"], result["device"])
                held[device] += 1
                for counters, amounts in self.draws[device]:
                    for counter, amount in amounts.items():
                        drawn[*device[:2], counters, counter] += Quantity.parse(amount["value"]).nanos
        yield from (f"{device} is held {times} times" for device, times in held.items() if times > 1)
        yield from (
            f"{of}: {much} of {self.sizes[of]}" for of, much in drawn.items() if much > self.sizes[of]
        )


class Soak:
    """One run."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.folder = folder
        self.api = ApiServer(history=20_000)
        self.hostile = Hostile(InMemory(self.api), random=Random(plan.seed))
        self.books = Books()
        self.findings: list[str] = []
        self.samples: list[Json] = []
        self.counts: Counter[str] = Counter()
        self.guarded: set[str] = set()
        self.living: deque[list[str]] = deque()

    def load(self) -> None:
        """The fleets and templates. Names of nodes differ between them."""
        self.api.load(mig.fleet(self.plan.nodes))
        self.api.load([device_class(gpus.CLASS, f"device.driver == '{gpus.DRIVER}'")])
        self.api.load([device_class(SCARCE, f"device.driver == '{SCARCE}'")])
        for at in range(self.plan.whole):
            self.api.load([node(f"whole-{at:04}"), *gpus.node_slices(f"whole-{at:04}")])
        for name in ("scarce-0", "scarce-1"):
            few = pool(SCARCE, name, [{"name": f"d{at}"} for at in range(8)], reach={"nodeName": name})
            self.api.load([node(name), *few])
        for name in ("koord-0", "koord-1", "koord-2"):
            self.api.load([node(name), machine(name, *koordinator.devices(name))])
        for name, request in {
            **{profile: mig.partition("r", profile) for profile in mig.SHARE},
            **{f"gpu-{count}": exactly("r", gpus.CLASS, count=count) for count in (1, 2, 4, 8)},
            "scarce": exactly("r", SCARCE, count=2),
        }.items():
            made: Json = claim("t", [request])
            metadata = {"name": name.replace("+", "-"), "namespace": "default"}
            self.api.load([{"apiVersion": made["apiVersion"], "kind": "ResourceClaimTemplate",
                            "metadata": metadata, "spec": {"spec": made["spec"]}}])  # fmt: skip
        self.api.load([{
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "guarded", "namespace": "default"},
            "spec": {"selector": {"matchLabels": GUARDED}, "maxUnavailable": 0},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        }])  # fmt: skip
        for record in self.api.store[SLICE].scan(""):
            self.books.read(record.object["spec"])

    def create(self) -> None:
        """One more unit."""
        kind = self.random.choice(KINDS)
        self.counts[kind] += 1
        name = f"{kind}-{self.counts[kind]}"
        names = [name]
        if kind == "gang":
            names = [f"{name}-{at}" for at in range(4)]
            self.api.load([pod_group(name, 4)])
            self.api.load([grouped(one, group=name, templates=("gpu-1",)) for one in names])
        elif kind == "koordinator":
            self.api.load([wants(name, {"gpu": 50})])
        elif kind == "urgent":
            high: Json = {"priority": 1000, "priorityClassName": "high"}
            self.api.load([pod(name, templates=("scarce",), **high)])
        else:
            profile = self.random.choices(list(mig.SHARE), list(mig.SHARE.values()))[0].replace("+", "-")
            template = {"mig": profile, "gpu": f"gpu-{self.random.choice((1, 1, 2, 4, 8))}"}.get(
                kind, "scarce"
            )
            made = pod(name, templates=(template,))
            if kind == "scarce" and self.random.random() < 0.3:
                made["metadata"]["labels"] = GUARDED
                self.guarded.add(name)
            self.api.load([made])
        self.living.append(names)
        while len(self.living) > self.plan.units:
            for one in self.living.popleft():
                self.guarded.discard(one)
                if self.api.store[POD].get(f"default/{one}") is not None:
                    self.api.delete(POD, "default", one)

    def look(self) -> None:
        """Find what is wrong now."""
        self.findings += self.books.wrong(record.object for record in self.api.store[CLAIM].scan(""))
        for name in [one for one in self.guarded if self.api.store[POD].get(f"default/{one}") is None]:
            self.findings.append(f"pod {name} is gone, and its budget allows that for none")
            self.guarded.discard(name)

    async def churn(self) -> None:
        while True:
            self.create()
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
            self.look()
            measured = [await one.measured() for one in replicas]
            gated = sum(
                bool(one.object["spec"].get("schedulingGates")) for one in self.api.store[POD].scan("")
            )
            at = asyncio.get_running_loop().time() - began
            self.samples.append({"at": round(at, 1), "gated": gated, "replicas": measured})
            progress(at, f"{gated} gated, {len(self.findings)} findings")

    async def run(self, progress: Callable[[float, str], None]) -> None:
        """Turmoil for so long, then calm until nothing waits, or for `CALM_SECONDS`."""
        self.load()
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(proxy(self.hostile))
            await stack.enter_async_context(run_controllers(self.api))
            self.replicas = (Replica("killed", server, self.folder), Replica("stopped", server, self.folder))
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
                self.look()
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
        "made": dict(course.counts),
        "changes of the lead": lease.object["spec"]["leaseTransitions"] if lease else 0,
        "evictions": sum(line["event"] == "pod evicted" for line in lines),
        "decisions": len(decided),
        "internal errors": [line for line in lines if line["event"] == "reconcile failed"][:3],
        "pending seconds": {f"p{p}": waited[int((len(waited) - 1) * p / 100)] for p in (50, 99)}
        if waited
        else {},
        "most requests in 10 s": course.hostile.busiest(10.0),
        "memory growth": round(warm[-1]["mib"] / warm[0]["mib"] - 1, 4) if warm else None,
        "open files": [warm[0]["files"], warm[-1]["files"]] if warm else [],
        "threads": [warm[0]["threads"], warm[-1]["threads"]] if warm else [],
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
        course = Soak(plan, folder)
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
