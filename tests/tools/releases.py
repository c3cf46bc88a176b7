"""`python -m tests.tools.releases`: releases take turns on one server, each killed in the middle of its work.

Each has an environment of its own, with the lock of its image, in a folder that is used again. The embedded
server of each has its turn, too. Every turn brings pods with claims, a pod that others must leave for, and a
gang. A SIGKILL follows the first write of the gang; no second one arrives. Who was evicted goes only then, so
the next release finds a nomination. The last turn has to finish what all others left. Raises AssertionError
if a device is given twice, an allocation changes, a pod waits, learnt demand is lost, or a journal is neither
read nor refused with the release that reads it.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import cast

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import discover
from reconciler.cluster.http import connect
from reconciler.cluster.kinds import Served, resource_of
from reconciler.cluster.transport import Lines, Request, Response, Transport, WatchRequest
from reconciler.errors import ReconcilerError, Retry
from tests.tools.checkout import ROOT
from tests.tools.gangs import annotated
from tests.tools.hostile_server import Hostile, proxy
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, node, pod

RELEASES = ("e828765f", "2464eb1")
"""0.3.0, and the last commit before the rooms were rebuilt"""
HERE = "this version"
TURNS = {
    HERE: (*RELEASES, HERE, *reversed(RELEASES), HERE, RELEASES[0], HERE),
    RELEASES[0]: (HERE, RELEASES[0], HERE, RELEASES[0]),
    RELEASES[1]: (RELEASES[1], HERE, RELEASES[1], HERE),
}
"""Whose server -> whose controllers: both directions, and on ours from each to each. The first of a server
learns a demand, which the last continues"""
PODS = 3
WAITED = 180.0
"""Seconds within which a turn has done its part"""
SETTINGS = {
    "LEADER_ELECT": "true", "LEASE_NAMESPACE": "default", "LOG_LEVEL": "warning",
    "LEASE_SECONDS": "9", "POLICY": "least-loss", "DEMAND_CONFIG_MAP": "default/demand",
    "PREEMPTION": "evict", "PREEMPTING_CLASSES": "high", "EVICTIONS_PER_MINUTE": "60",
}  # fmt: skip
EARLIER = {"RENEW_SECONDS": "6", "RETRY_SECONDS": "1", "WRITE_SECONDS": "4"}
"""What this version derives from the Lease's duration"""


def installed(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Release -> its Python and its source."""
    found = {HERE: (Path(sys.executable), ROOT)}
    for release in RELEASES:
        home, source = folder / release, folder / release / "src"
        done = home / "done"
        if not done.exists():
            source.mkdir(parents=True, exist_ok=True)
            archive = subprocess.run(["git", "archive", release], cwd=ROOT, check=True, capture_output=True)
            subprocess.run(["tar", "x", "-C", source], input=archive.stdout, check=True)
            subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
            lock = source / "deploy" / "requirements.lock"
            pip = [str(home / "venv" / "bin" / "pip"), "install", "--quiet", "--no-deps"]
            subprocess.run([*pip, "--require-hashes", "-r", lock], check=True)
            wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
            subprocess.run([*wheel, "-w", home, source], check=True)
            subprocess.run([*pip, *home.glob("*.whl")], check=True)
            done.touch()
        found[release] = (home / "venv" / "bin" / "python", source)
    return found


class Process:
    """A command of a release."""

    def __init__(self, release: tuple[Path, Path], *command: str, **settings: str) -> None:
        python, source = release
        variables = {f"DRA_RECONCILER_{name}": value for name, value in settings.items()}
        self._of = subprocess.Popen(
            [python, "-m", "reconciler", *command],
            cwd=source, env={**os.environ, "PYTHONPATH": str(source), **variables},
            stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def alive(self) -> bool:
        return self._of.poll() is None

    def kill(self) -> None:
        self._of.send_signal(signal.SIGKILL)
        self._of.wait()


class Trap:
    """A transport that kills the sender with its first allocation of some claims, and loses the others."""

    def __init__(self, behind: Transport) -> None:
        self._behind = behind
        self.claims, self.sender = "", cast("Process | None", None)
        self.sprung = asyncio.Event()

    def set(self, claims: str, sender: "Process | None") -> None:
        self.claims, self.sender = f"/resourceclaims/{claims}", sender
        self.sprung.clear()

    async def send(self, request: Request) -> Response:
        meant = request.method == "PATCH" and request.path.endswith("/status")
        if self.sender is None or not meant or self.claims not in request.path:
            return await self._behind.send(request)
        if self.sprung.is_set():
            raise Retry("the sender is gone")
        self.sprung.set()
        answer = await self._behind.send(request)
        self.sender.kill()
        return answer

    def stream(self, request: WatchRequest) -> Lines:
        return self._behind.stream(request)


class Fleet:
    """What a server holds, read again and again."""

    def __init__(self, client: Client, kinds: Served) -> None:
        self._client, self._kinds = client, {**kinds.resources, "ConfigMap": resource_of("ConfigMap")}
        self._before: dict[str, list[str]] = {}

    async def load(self, *objects: Object) -> None:
        for raw in objects:
            await self._client.create(self._kinds[raw["kind"]], raw)

    async def all(self, kind: str) -> dict[str, Object]:
        found = await self._client.fetch(self._kinds[kind].everywhere)
        return {one["metadata"]["name"]: one for one in found["items"]}

    async def change(self, name: str, patch: Object, subresource: str = "") -> None:
        key = ObjectKey("default", name)
        await self._client.patch(self._kinds["Pod"], key, patch, subresource=subresource)

    async def held(self) -> dict[str, list[str]]:
        """Claim -> its devices. Raises AssertionError if one has two claims, or a claim has others now."""
        now = {}
        for name, raw in (await self.all("ResourceClaim")).items():
            allocation = raw.get("status", {}).get("allocation", {})
            if results := allocation.get("devices", {}).get("results"):
                now[name] = [f"{one['driver']}/{one['pool']}/{one['device']}" for one in results]
        every = [device for given in now.values() for device in given]
        assert len(every) == len(set(every)), f"a device is given twice: {now}"
        changed = {name for name, given in self._before.items() if now.get(name, given) != given}
        assert not changed, f"allocations of {changed} changed: {self._before} {now}"
        self._before = now
        return now

    async def gated(self) -> set[str]:
        return {name for name, one in (await self.all("Pod")).items() if one["spec"].get("schedulingGates")}

    async def until(self, process: Process, what: str, true: Callable[[], Awaitable[object]]) -> None:
        async with asyncio.timeout(WAITED):
            while not await true():
                assert process.alive(), f"it ended by itself, before {what}"
                await asyncio.sleep(0.1)


class Turns:
    """All turns on the server of one release."""

    def __init__(
        self, releases: dict[str, tuple[Path, Path]], folder: Path, fleet: Fleet, trap: Trap
    ) -> None:
        self._releases, self._folder, self._fleet, self._trap = releases, folder, fleet, trap

    async def play(self, turns: Sequence[str], server: str) -> None:
        """Prints one line for each."""
        drivers = [DRIVER, *(f"scarce{turn}.example.com" for turn, _ in enumerate(turns))]
        metadata = {"name": "demand", "namespace": "default"}
        await self._fleet.load(
            device_class(), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        )
        for turn, release in enumerate(turns):
            for at in (2 * turn, 2 * turn + 1):
                name = f"n{at}"
                await self._fleet.load(node(name, rack="r"), devices(name, "d0", "d1", "d2", "d3"))
            kind, driver = f"scarce{turn}", drivers[turn + 1]
            await self._fleet.load(device_class(kind, driver), devices(f"n{2 * turn}", "only", driver=driver))
            own = SETTINGS | {"OWN_DRIVERS": ",".join(drivers), "JOURNAL": str(self._folder / f"{turn}")}
            own |= {} if release == HERE else EARLIER
            began, last = perf_counter(), turn == len(turns) - 1
            if turn:
                await self._fleet.change(f"low{turn - 1}", {"metadata": {"finalizers": None}})
            self._trap.set("", None)
            process = Process(self._releases[release], "run", "--server", server, **own)
            try:
                await self._turn(turn, process, last=last)
            finally:
                process.kill()
            held, gated = await self._fleet.held(), await self._fleet.gated()
            print(
                f"  {release}: {len(held)} claims allocated after {perf_counter() - began:.1f} s; "
                f"{sum(f'g{turn}-' in name for name in held)} of {PODS} of its gang; {len(gated)} gated",
                flush=True,
            )

    async def _turn(self, turn: int, process: Process, *, last: bool) -> None:
        fleet, alone = self._fleet, [f"a{turn}-{number}" for number in range(PODS)]
        await fleet.load(*map(claim, alone), *(pod(name, name) for name in alone))
        if turn == 0 or last:
            await fleet.until(process, "the demand was learnt", self._learnt)
        if not last:
            await self._nominate(turn, process)
            self._trap.set(f"g{turn}-", process)
        gang = [f"g{turn}-{number}" for number in range(PODS)]
        members = (annotated(name, name, size=PODS, gang=f"g{turn}", topology="rack") for name in gang)
        await fleet.load(*map(claim, gang), *members)
        if last:
            await fleet.until(process, "all pods had devices", lambda: _none(fleet.gated()))
        else:
            async with asyncio.timeout(WAITED):
                await self._trap.sprung.wait()
            await asyncio.sleep(1.0)  # what was sent before arrives

    async def _learnt(self) -> bool:
        """Whether the kept demand counts nearly all claims."""
        kept = (await self._fleet.all("ConfigMap"))["demand"].get("data", {}).get("demand", "{}")
        counted = sum(shape["weight"] for shape in json.loads(kept).get("shapes", ())) / 1000
        # A claim of the second in which a demand was written is not counted.
        return counted > 0.9 * len(await self._fleet.all("ResourceClaim")) - 1

    async def _nominate(self, turn: int, process: Process) -> None:
        """Have a pod evicted for another one. It goes once the next turn begins."""
        fleet, kind = self._fleet, f"scarce{turn}"
        low, high = f"low{turn}", f"high{turn}"
        victim = pod(low, low)
        victim["metadata"]["finalizers"] = ["example.com/slow"]
        await fleet.load(claim(low, device_class=kind), victim)

        async def ran() -> bool:
            return bool((await fleet.all("Pod"))[low]["spec"].get("nodeName"))

        async def nominated() -> bool:
            pods = await fleet.all("Pod")
            left = "deletionTimestamp" in pods[low]["metadata"]
            return left and bool(pods[high].get("status", {}).get("nominatedNodeName"))

        await fleet.until(process, f"{low} ran", ran)
        await fleet.change(
            low, {"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}, "status"
        )
        urgent = pod(high, high, priority=1000, priorityClassName="high")
        await fleet.load(claim(high, device_class=kind), urgent)
        await fleet.until(process, f"{high} was nominated", nominated)


async def _none(names: Awaitable[set[str]]) -> bool:
    return not await names


def replayed(releases: dict[str, tuple[Path, Path]], journals: dict[str, Path]) -> None:
    """Each release replays what each wrote, or refuses it. This one names what reads it."""
    for writer, folder in journals.items():
        for reader, (python, source) in releases.items():
            found = subprocess.run(
                [str(python), "-m", "reconciler", "replay", str(folder)],
                cwd=source, env={**os.environ, "PYTHONPATH": str(source)},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            if (writer == HERE) == (reader == HERE):
                meant = found.returncode == 0 and "decisions the same, 0 different" in found.stdout
            else:
                refusal = "dra-reconciler 0.3.0 reads it" if reader == HERE else "not a journal of format 1"
                meant = found.returncode == 2 and refusal in found.stderr
            assert meant, f"{reader} reads what {writer} wrote: {found}"
    print("  journals: replayed by those that have their format, refused by the others", flush=True)


async def served(client: Client, server: Process) -> Served:
    """What a server offers, as soon as it answers."""
    while True:
        try:
            return await discover(client, also=("ResourceClaimTemplate",))
        except ReconcilerError:
            assert server.alive()
            await asyncio.sleep(0.2)


async def play(folder: Path) -> None:
    """All turns on all servers."""
    releases = installed(folder)
    for owner, turns in TURNS.items():
        print(f"on the server of {owner}:", flush=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with TemporaryDirectory() as journals:
            server = Process(releases[owner], "apiserver", "--with-controllers", "--port", str(port))
            try:
                async with connect(server=f"http://127.0.0.1:{port}") as transport:
                    trap, client = Trap(transport), Client(transport)
                    fleet = Fleet(client, await served(client, server))
                    async with proxy(Hostile(trap)) as url:
                        await Turns(releases, Path(journals), fleet, trap).play(turns, url)
            finally:
                server.kill()
            replayed(releases, {release: Path(journals) / f"{turn}" for turn, release in enumerate(turns)})


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".releases")))
