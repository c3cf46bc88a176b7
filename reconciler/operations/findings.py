"""Finds problems of a running cluster periodically: all checks of the doctor, and claims that nobody
allocates.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import structlog
from msgspec import Struct

from reconciler.allocation.reason_table import remedy
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import GATE
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.intake import Intake
from reconciler.control.ownership import MANAGED, Ownership
from reconciler.operations.events_writer import Notice, Regarding
from reconciler.operations.metrics import catalogue as of
from reconciler.operations.metrics.meters import Reading, single
from reconciler.operations.page.sources import Fact
from reconciler.operations.telemetry import Signals
from reconciler.settings import Settings
from reconciler.state.store import Store

log = structlog.get_logger()

DELAY_SECONDS = 30.0
"""Delay of the first run: in a starting cluster, drivers still publish slices"""
TIMEOUT_SECONDS = 300.0
"""Timeout of a run"""
MAX_BYTES = 16 * 2**20
"""Maximum output of a run, about 50,000 findings. A run with more output is stopped."""
PART = 2**16
"""Bytes per read"""
POOL_REASONS = {
    "pool-incomplete": "PoolIncomplete",
    "pool-obsolete": "PoolObsolete",
    "pool-disagrees": "PoolSlicesDisagree",
    "duplicate-device": "PoolDuplicateDevice",
    "device-on-two-nodes": "PoolDeviceOnTwoNodes",
    "duplicate-counter-set": "PoolDuplicateCounterSet",
}
"""Check -> reason of the Event on the slice, where the owner of the driver sees it"""
NICENESS = 10

Finding = dict[str, Any]
"""A finding of `doctor -o json`"""


class DoctorSchedule:
    """Runs the doctor periodically and keeps its last findings."""

    def __init__(
        self, settings: Settings, store: Store, *, record: Callable[[Iterable[Notice]], None], version: str
    ) -> None:
        """`record` takes Events; `version` is the API version of slices on the API server."""
        self._command = command(settings)
        self._pause = settings.doctor_seconds
        self._store = store
        self._record = record
        self._version = version
        self._previous: set[tuple[str, str]] = set()
        self.found: Counter[tuple[str, str]] = Counter()
        """(check, severity) -> number of findings of the last run"""
        self.runs = 0
        """Completed runs"""

    async def run(self) -> None:
        """Run until cancelled. A failed run is logged and not counted."""
        await asyncio.sleep(min(DELAY_SECONDS, self._pause))
        while True:
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    self._take(await examine(self._command))
            except TimeoutError:
                log.warning("doctor run timed out", seconds=TIMEOUT_SECONDS)
            except (OSError, ValueError) as exc:
                log.warning("doctor run failed", error=str(exc))
            await asyncio.sleep(self._pause)

    def signals(self) -> Signals:
        """Metrics of findings and runs, and a line on the status page."""
        found = Reading(of.DOCTOR, lambda: [(labels, float(count)) for labels, count in self.found.items()])
        return Signals(readings=[found, single(of.DOCTOR_ROUNDS, lambda: self.runs)], facts=[self._fact])

    def _fact(self) -> Fact:
        if not self.runs:
            return Fact("Doctor", "no run yet")
        errors = sum(count for (_, severity), count in self.found.items() if severity == "error")
        return Fact("Doctor", f"findings: {sum(self.found.values())}, errors: {errors}", alert=errors > 0)

    def _take(self, findings: Sequence[Finding]) -> None:
        self.found = Counter((one["check"], one["severity"]) for one in findings)
        self.runs += 1
        pools = {(one["check"], one["object"]): one for one in findings if one["check"] in POOL_REASONS}
        # A pool is inconsistent while its driver publishes a new generation: report only what persists.
        lasting = [one for at, one in pools.items() if at in self._previous]
        self._previous = set(pools)
        self._record(self._notices(lasting))
        log.info("doctor run finished", findings=sum(self.found.values()), pools=len(pools))

    def _notices(self, findings: Sequence[Finding]) -> Iterator[Notice]:
        names = [one["object"].removeprefix("ResourceSlice ") for one in findings]
        slices = [block.source() for block in self._store.supply.inventory.all_blocks if block.name in names]
        uids = {one.key.name: one.metadata.uid for one in slices}
        for name, one in zip(names, findings, strict=True):
            if name in uids:
                regarding = Regarding(self._version, "ResourceSlice", ObjectKey("", name), uids[name])
                yield Notice(regarding, POOL_REASONS[one["check"]], f"{one['what']}. {one['remedy']}", "")


def command(settings: Settings) -> tuple[str, ...]:
    """The command line of the doctor for the cluster of the settings."""
    where = {
        "--server": settings.server,
        "--kubeconfig": settings.kubeconfig,
        "--context": settings.context,
        "--feature-gates": settings.feature_gates or None,
    }
    named = [word for flag, value in where.items() if value is not None for word in (flag, value)]
    by_driver = (("--group-mode", settings.group_modes), ("--exclusion-scope", settings.exclusion_scopes))
    modes = [
        word
        for flag, values in by_driver
        for driver, value in values.items()
        for word in (flag, f"{driver}={value}")
    ]
    doctor = (sys.executable, "-m", "reconciler", "doctor", "--cluster", "-o", "json")
    return (*doctor, *named, *modes)


async def examine(command: Sequence[str], *, most: int = MAX_BYTES) -> list[Finding]:
    """The findings of the doctor. Raises OSError, or ValueError with its message if it failed.

    The process is killed on cancellation and if it writes more than `most` bytes.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # COLUMNS would wrap its error, and the last line alone is no message.
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"},
        preexec_fn=_lower_priority,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(_last_of(process.stderr), name="errors of the doctor")
    try:
        out = await _all_of(process.stdout, most)
        err = await errors
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await _last_of(process.stdout)  # a full pipe would block the end of the process
            await process.wait()
        errors.cancel()
    try:
        findings: list[Finding] = json.loads(out)["findings"]
    except (ValueError, KeyError) as exc:
        lines = err.decode(errors="replace").strip().splitlines()
        raise ValueError(
            lines[-1] if lines else f"the doctor exited with status {process.returncode}"
        ) from exc
    return findings


async def _all_of(stream: asyncio.StreamReader, most: int) -> bytes:
    """The whole output. Raises ValueError if it is more than `most` bytes."""
    output = bytearray()
    while part := await stream.read(PART):
        output += part
        if len(output) > most:
            raise ValueError(f"the doctor wrote more than {most} bytes: run it by hand and fix its findings")
    return bytes(output)


async def _last_of(stream: asyncio.StreamReader) -> bytes:
    """The end of the output, at least `PART` bytes if there are so many."""
    output = b""
    while part := await stream.read(PART):
        output = output[-PART:] + part
    return output


def _lower_priority() -> None:
    os.nice(NICENESS)


NOT_MANAGED = "NotManaged"
"""The reason of the Event"""
PAUSE_SECONDS = 5.0
"""Between two checks. A claim is reported at the second one: its pod may be created after it"""


class UnmanagedClaims(Struct, eq=False):
    """Checks all pending claims periodically, and reports each unmanaged one once.

    `record` takes Events; `version` is the API version of claims on the API server.
    """

    _intake: Intake
    _ours: Ownership
    record: Callable[[Iterable[Notice]], None]
    version: str
    _seen: set[str] = set()
    _reported: set[str] = set()

    async def run(self) -> None:
        """Check until cancelled."""
        await self._intake.listed.wait()
        while True:
            self.check()
            await asyncio.sleep(PAUSE_SECONDS)

    def check(self) -> None:
        """Report the claims that were unmanaged at the previous check, too."""
        found = {claim.metadata.uid: claim for claim in self._unmanaged()}
        new = (found.keys() & self._seen) - self._reported
        self.record([self._notice(claim) for uid, claim in found.items() if uid in new])
        for uid in sorted(new):
            log.warning("claim is not managed", claim=str(found[uid].key))
        self._seen = set(found)
        self._reported = (self._reported | new) & self._seen

    def _unmanaged(self) -> Iterator[ResourceClaim]:
        for claim in self._intake.store.claims.values():
            if claim.allocation is not None or claim.deleting or self._ours.claims(claim):
                continue
            if not self._intake.is_gated(claim.key):
                yield claim

    def _notice(self, claim: ResourceClaim) -> Notice:
        text = (
            f"claim {claim.key} stays pending: it has neither the label {MANAGED}=true nor a pod with the "
            f"scheduling gate {GATE}, and the embedded server has no other allocator. {remedy(NOT_MANAGED)}"
        )
        regarding = Regarding(self.version, "ResourceClaim", claim.key, claim.metadata.uid)
        return Notice(regarding, NOT_MANAGED, text, "")
