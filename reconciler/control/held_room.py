"""A record of held room in a ConfigMap, which commands read and the next leader takes over, and of a group
that is evicted as a whole, which it finishes; and what any data that outlast the process need.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import structlog
from msgspec import DecodeError, json
from msgspec.structs import replace

from reconciler.api.objects.core import ConfigMap
from reconciler.api.objects.meta import ObjectKey, time_of
from reconciler.api.objects.validating import validated
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import config_map
from reconciler.control.intake import Intake
from reconciler.errors import Gone, Malformed, ReconcilerError, Rejected, Retry
from reconciler.state.nominations import (
    Leaving,
    Nomination,
    NomineeKind,
    Record,
    read_record,
    text_of,
)


class KeptConfigMap:
    """Reads and writes one ConfigMap. Only the reader decides whether to wait for a server that is away."""

    def __init__(self, client: Client, key: ObjectKey, *, on_problem: Callable[[str, str], None]) -> None:
        """`on_problem` gets each problem that does not pass by itself once, with its remedy."""
        self._client, self.key, self._resource = client, key, config_map(key)
        self._on_problem = on_problem
        self._version = ""
        self._problem = ""

    async def read(self) -> Mapping[str, str] | None:
        """Its data; None if it does not exist, or must not be read. Raises Retry as `Client` does."""
        try:
            found = validated(ConfigMap, await self._client.get(self._resource, self.key))
        except Retry:
            raise
        except ReconcilerError as exc:
            self._tell(exc)
            return None
        self._version = found.metadata.resource_version
        return found.data

    async def write(self, data: Mapping[str, str]) -> bool:
        """Set these keys. Returns whether it did; False also where somebody else has changed it."""
        try:
            if not self._version and await self.read() is None:
                return False
            patch = {"metadata": {"resourceVersion": self._version}, "data": dict(data)}
            raw = await self._client.patch(self._resource, self.key, patch)
            self._version = validated(ConfigMap, raw).metadata.resource_version
        except ReconcilerError as exc:
            self._version = ""
            self._tell(exc)
            return False
        self._problem = ""
        return True

    def _tell(self, exc: ReconcilerError) -> None:
        if not isinstance(exc, Gone | Rejected) or str(exc) == self._problem:
            return
        self._problem = str(exc)
        remedy = "create it, empty" if isinstance(exc, Gone) else "allow get and patch on it"
        self._on_problem(self._problem, remedy)


HELD_ROOM = "heldRoom"
"""The key in its data: the nominations as JSON"""
LEAVING = "leaving"
"""Another: the group that is evicted as a whole as JSON, or the empty text"""


def read_held_room(data: Mapping[str, str], source: str) -> Record:
    """What the data of the ConfigMap `source` say. Raises Malformed as `read_record` does."""
    found = read_record(data[HELD_ROOM], f"{source} {HELD_ROOM}") if HELD_ROOM in data else Record()
    try:
        return found._replace(leaving=json.decode(data[LEAVING], type=Leaving) if data.get(LEAVING) else None)
    except (DecodeError, RecursionError, UnicodeEncodeError) as exc:  # the last: half a surrogate
        refused = Malformed(f"{source} {LEAVING}", "", f"is not a group that leaves ({exc}); it is left out")
        return found._replace(refused=(*found.refused, refused))


def still_held(nominations: Iterable[Nomination], now: datetime) -> Iterator[tuple[Nomination, float]]:
    """Those whose deadline has not passed by the time of day, each with the seconds that are left."""
    for one in nominations:
        try:
            deadline = datetime.fromisoformat(one.deadline)
        except ValueError:
            continue  # nobody could say when it ends
        aware = deadline if deadline.tzinfo is not None else deadline.replace(tzinfo=UTC)
        if (seconds := (aware - now).total_seconds()) > 0:
            yield one, seconds


PAUSE = 0.1
"""Seconds between two writes, at least: room for many Workloads may be held at once"""
RETRY = 5.0
"""Seconds after which a write that failed is tried again"""
PATIENCE = 5.0
"""Seconds for which others wait until something is written, at most"""


class HeldRoomKeeper:
    """The record follows the state. It is empty once nothing is held."""

    def __init__(self, intake: Intake, kept: KeptConfigMap, *, writes: Callable[[], bool]) -> None:
        """`writes` says whether this process may write now: only the leader may."""
        self._nominations = intake.store.nominations
        self._nominating = intake.nominating
        self._kept = kept
        self._writes = writes
        self._written = self._state
        """The changes that the record has"""
        self._failures = 0
        self._tried = asyncio.Event()
        """Set at the end of a write, and replaced"""

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            self._nominating.news.clear()
            if self._behind and self._writes():
                await self._write()
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY if self._behind else None):
                    await self._nominating.news.wait()
            await asyncio.sleep(PAUSE)

    async def written(self) -> None:
        """Wait until what is held now is written. A failed write is not waited for, nor a long one.

        After that a next leader holds the room, too.
        """
        failures = self._failures
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._behind and self._failures == failures:
                    await self._tried.wait()

    @property
    def _state(self) -> tuple[int, int]:
        return self._nominations.serial, self._nominating.leaving_serial

    @property
    def _behind(self) -> bool:
        return self._state != self._written

    async def _write(self) -> None:
        state, leaving = self._state, self._nominating.leaving
        group = "" if leaving is None else json.encode(leaving).decode()
        if await self._kept.write({HELD_ROOM: text_of(self._nominations), LEAVING: group}):
            self._written = state
        else:
            self._failures += 1
        self._tried.set()
        self._tried = asyncio.Event()


log = structlog.get_logger()

TAKEOVER_PATIENCE, TAKEOVER_PAUSE = 5.0, 0.5
"""Seconds for which the record is tried to read, and between two tries"""


async def take_over_held_room(
    intake: Intake,
    kept: KeptConfigMap,
    *,
    most_seconds: float,
    clock: Callable[[], float],
    now: Callable[[], datetime],
) -> None:
    """Hold what the record says, and nothing that an earlier term of this process has left; and know which
    group leaves.

    Nothing is held and nobody has to leave after `most_seconds`, whatever the record says. `clock` is that of
    the loop; `now` the time of day.
    """
    record = await _read_with_retries(kept)
    if record is None:
        return
    intake.nominating.leave(_limited(record.leaving, now() + timedelta(seconds=most_seconds)))
    began = clock()
    held = {
        one.nominee: replace(one, until=began + min(seconds, most_seconds))
        for one, seconds in still_held(record.nominations, now())
    }
    for one in intake.store.nominations:
        # What is held for special claims follows from the pods.
        if one.nominee not in held and one.nominee.kind is not NomineeKind.SPECIAL:
            intake.nominating.drop(one.nominee, "the leader in between did not hold it")
    taken = [one for one in held.values() if intake.nominating.restore(one, "the previous leader held it")]
    if taken:
        log.info("held room taken over", nominees=[str(one.nominee) for one in taken])


def _limited(leaving: Leaving | None, latest: datetime) -> Leaving | None:
    """The same with no later deadline."""
    until = time_of(leaving.deadline) if leaving is not None else None
    if leaving is None or until is None or until <= latest:
        return leaving
    return replace(leaving, deadline=latest.isoformat(timespec="seconds"))


async def _read_with_retries(kept: KeptConfigMap) -> Record | None:
    """The record; None if there is none, or none that can be read."""
    try:
        async with asyncio.timeout(TAKEOVER_PATIENCE):
            while True:
                try:
                    data = await kept.read()
                    break
                except Retry as exc:
                    await asyncio.sleep(max(TAKEOVER_PAUSE, exc.after))
        found = None if data is None else read_held_room(data, f"ConfigMap {kept.key}")
    except (TimeoutError, Malformed) as exc:
        why = "no answer of the server" if isinstance(exc, TimeoutError) else str(exc)
        log.warning("held room not taken over", config_map=str(kept.key), error=why)
        return None
    for problem in () if found is None else found.refused:
        log.warning("held room not taken over", config_map=str(kept.key), error=str(problem))
    return found
