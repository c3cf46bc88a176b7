"""`python -m tests.tools.releases`: releases take turns on one server, each killed in the middle of its work.

Each has an environment of its own, with the lock of its image, in a folder that is used again. Every turn
brings pods with claims and a gang; a SIGKILL follows the first write of the gang. The last turn has to finish
what all others left. A turn takes half a minute, until no write of the killed leader can arrive any more.
Raises AssertionError if a device is given twice, an allocation changes or a pod waits.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

from reconciler.embedded import serve
from tests.tools.checkout import ROOT
from tests.tools.gangs import annotated
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, node, pod

RELEASES = ("e828765f", "2464eb1")
"""0.3.0, and the last commit before the rooms were rebuilt"""
HERE = "this version"
TURNS = (*RELEASES, HERE, *reversed(RELEASES), HERE, RELEASES[0], HERE)
"""Both directions, and from each to each"""
PODS = 3
SETTINGS = {
    "LEADER_ELECT": "true",
    "LEASE_NAMESPACE": "default",
    "OWN_DRIVERS": DRIVER,
    "LOG_LEVEL": "warning",
}


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


@asynccontextmanager
async def running(python: Path, source: Path, server: str) -> AsyncIterator[asyncio.Task[int]]:
    """The controller of a release, killed at the end. Yields its exit, which should not come before."""
    variables = {f"DRA_RECONCILER_{name}": value for name, value in SETTINGS.items()}
    command = ("-m", "reconciler", "run", "--server", server)
    process = await asyncio.create_subprocess_exec(
        python, *command, cwd=source, env={**os.environ, "PYTHONPATH": str(source), **variables}
    )
    exits = asyncio.create_task(process.wait())
    try:
        yield exits
    finally:
        if process.returncode is None:
            process.kill()
        await exits


class Held:
    """Looks at all allocations, again and again."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before: dict[str, list[str]] = {}

    def check(self) -> int:
        """How many claims are allocated."""
        names = [one["metadata"]["name"] for one in self._cluster.claims()]
        now = {name: given for name in names if (given := self._cluster.devices(name))}
        every = [device for given in now.values() for device in given]
        assert len(every) == len(set(every)), f"a device is given twice: {now}"
        changed = {name for name, given in self._before.items() if now.get(name) != given}
        assert not changed, f"allocations of {changed} changed: {self._before} {now}"
        self._before = now
        return len(now)


async def play(folder: Path) -> None:
    """All turns. Prints one line for each."""
    releases = installed(folder)
    nodes = [f"n{number}" for number in range(2 * len(TURNS))]
    fleet = [devices(name, *(f"d{number}" for number in range(4))) for name in nodes]
    cluster = Cluster([device_class(), *(node(name, rack="r") for name in nodes), *fleet])
    held = Held(cluster)
    pods: list[str] = []

    def work_left(gang: list[str], *, last: bool) -> bool:
        return any(map(cluster.gated, pods)) if last else not any(map(cluster.devices, gang))

    async with serve(cluster.api) as server:
        for turn, release in enumerate(TURNS):
            started = perf_counter()
            alone, gang = ([f"{kind}{turn}-{number}" for number in range(PODS)] for kind in ("a", "g"))
            cluster.load(*map(claim, (*alone, *gang)))
            cluster.load(*(pod(name, name) for name in alone))
            cluster.load(
                *(annotated(name, name, size=PODS, gang=f"g{turn}", topology="rack") for name in gang)
            )
            pods += [*alone, *gang]
            async with running(*releases[release], server) as exits:
                left = partial(work_left, gang, last=turn == len(TURNS) - 1)
                done = asyncio.create_task(cluster.until(lambda left=left: not left()))  # type: ignore[misc]
                await asyncio.wait({done, exits}, return_when=asyncio.FIRST_COMPLETED)
                assert not exits.done(), f"{release} ended by itself"
                await done
            written, gated = sum(map(bool, map(cluster.devices, gang))), sum(map(cluster.gated, pods))
            print(
                f"{release}: {held.check()} claims allocated after {perf_counter() - started:.1f} s; "
                f"{written} of {PODS} of its gang; {gated} of {len(pods)} pods gated"
            )
    assert held.check() == len(pods)


if __name__ == "__main__":
    asyncio.run(play(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".releases")))
