"""Runs all checks of the doctor on the cluster again and again; findings become metrics and Events.

In a process of its own: the checks read every object as it is written and run every expression on every
device, which would hold the loop and keep memory that nothing else needs.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import structlog

from reconciler.api.objects.slices import ResourceSlice
from reconciler.operations.events.events import Notice, Regarding
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.scraping import Reading, single
from reconciler.operations.page.sources import Fact
from reconciler.operations.telemetry.signals import Signals
from reconciler.settings import Settings
from reconciler.state.store import Store

log = structlog.get_logger()

FIRST_SECONDS = 30.0
"""Before the first round: slices of a cluster that is starting are still being published."""
ROUND_SECONDS = 300.0
"""A round that takes longer is given up."""
MAX_BYTES = 16 * 2**20
"""Of what a round says: some 50,000 findings. A round that says more is ended."""
PART = 2**16
"""Bytes that are read at once"""
ABOUT_POOLS = {
    "pool-incomplete": "PoolIncomplete",
    "pool-obsolete": "PoolObsolete",
    "pool-disagrees": "PoolSlicesDisagree",
    "duplicate-device": "PoolDuplicateDevice",
    "device-on-two-nodes": "PoolDeviceOnTwoNodes",
    "duplicate-counter-set": "PoolDuplicateCounterSet",
}
"""Check -> reason of the Event on the slice: who looks at the slice is whose driver it is"""
NICENESS = 10

Finding = dict[str, Any]
"""As `doctor -o json` says it"""


class DoctorSchedule:
    """Runs the doctor again and again, and keeps what it found last."""

    def __init__(
        self, settings: Settings, store: Store, *, tell: Callable[[Iterable[Notice]], None], version: str
    ) -> None:
        """`tell` takes Events; `version` is the API version of slices on the server."""
        self._command = command(settings)
        self._pause = settings.doctor_seconds
        self._store = store
        self._tell = tell
        self._version = version
        self._before: set[tuple[str, str]] = set()
        self.found: Counter[tuple[str, str]] = Counter()
        """(check, severity) -> findings of the last round"""
        self.rounds = 0
        """That came to an end"""

    async def run(self) -> None:
        """Make rounds until cancelled. One that fails is logged and not counted."""
        await asyncio.sleep(min(FIRST_SECONDS, self._pause))
        while True:
            try:
                async with asyncio.timeout(ROUND_SECONDS):
                    self._take(await examine(self._command))
            except TimeoutError:
                log.warning("doctor run timed out", seconds=ROUND_SECONDS)
            except (OSError, ValueError) as exc:
                log.warning("doctor run failed", error=str(exc))
            await asyncio.sleep(self._pause)

    def signals(self) -> Signals:
        """How many findings there are of each check, with its severity, and how many rounds were made."""
        found = Reading(of.DOCTOR, lambda: [(labels, float(count)) for labels, count in self.found.items()])
        return Signals(readings=[found, single(of.DOCTOR_ROUNDS, lambda: self.rounds)], facts=[self._fact])

    def _fact(self) -> Fact:
        if not self.rounds:
            return Fact("Doctor", "no round yet")
        serious = sum(count for (_, severity), count in self.found.items() if severity == "error")
        return Fact("Doctor", f"{sum(self.found.values())} findings, {serious} errors", grave=serious > 0)

    def _take(self, findings: Sequence[Finding]) -> None:
        self.found = Counter((one["check"], one["severity"]) for one in findings)
        self.rounds += 1
        pools = {(one["check"], one["object"]): one for one in findings if one["check"] in ABOUT_POOLS}
        # A pool is wrong for a moment whenever its driver publishes a new generation: told is what stays.
        lasting = [one for at, one in pools.items() if at in self._before]
        self._before = set(pools)
        self._tell(self._notices(lasting))
        log.info("doctor run finished", findings=sum(self.found.values()), pools=len(pools))

    def _notices(self, findings: Iterable[Finding]) -> Iterator[Notice]:
        slices = {source.key.name: source for source in self._store.slices} if findings else {}
        for one in findings:
            source: ResourceSlice | None = slices.get(one["object"].removeprefix("ResourceSlice "))
            if source is not None:
                regarding = Regarding(self._version, source.kind, source.key, source.metadata.uid)
                yield Notice(regarding, ABOUT_POOLS[one["check"]], f"{one['what']}. {one['remedy']}", "")


def command(settings: Settings) -> tuple[str, ...]:
    """The doctor, on the cluster that the settings name."""
    where = {
        "--server": settings.server,
        "--kubeconfig": settings.kubeconfig,
        "--context": settings.context,
        "--feature-gates": settings.feature_gates or None,
    }
    named = [word for flag, value in where.items() if value is not None for word in (flag, value)]
    modes = [
        word for driver, mode in settings.group_modes.items() for word in ("--group-mode", f"{driver}={mode}")
    ]
    insecure = ["--insecure-skip-tls-verify"] if settings.insecure_skip_tls_verify else []
    doctor = (sys.executable, "-m", "reconciler", "doctor", "--cluster", "-o", "json")
    return (*doctor, *named, *modes, *insecure)


async def examine(command: Sequence[str], *, most: int = MAX_BYTES) -> list[Finding]:
    """What the doctor finds. Raises ValueError, with what it said, where it could not look; or OSError.

    Cancelled, or told more than `most` bytes: the process is ended.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=_be_nice,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    complaining = asyncio.create_task(_last_of(process.stderr), name="the doctor's complaints")
    try:
        out = await _all_of(process.stdout, most)
        err = await complaining
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await _last_of(process.stdout)  # a pipe that is full would not be seen to end
            await process.wait()
        complaining.cancel()
    try:
        findings: list[Finding] = json.loads(out)["findings"]
    except (ValueError, KeyError) as exc:
        said = err.decode(errors="replace").strip().splitlines()
        raise ValueError(said[-1] if said else f"the doctor ended with {process.returncode}") from exc
    return findings


async def _all_of(stream: asyncio.StreamReader, most: int) -> bytes:
    """What is said until the end. Raises ValueError once it is more than `most` bytes."""
    said = bytearray()
    while part := await stream.read(PART):
        said += part
        if len(said) > most:
            raise ValueError(
                f"the doctor had more to say than {most} bytes: run it by hand, and mend the most"
            )
    return bytes(said)


async def _last_of(stream: asyncio.StreamReader) -> bytes:
    """The last `PART` bytes of what is said, or somewhat more."""
    said = b""
    while part := await stream.read(PART):
        said = said[-PART:] + part
    return said


def _be_nice() -> None:
    os.nice(NICENESS)
