"""Runs a candidate: reads Leases, bids, renews, and starts and ends leadership; says what it waits for.

Every change of a Lease is a PATCH that names the version it was decided from: applied twice, the second
one gets a conflict.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any

import structlog

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster import transport
from reconciler.cluster.client import Client, Raw
from reconciler.cluster.kinds import Resource
from reconciler.errors import Conflict, Gone, ReconcilerError, Retry, Undecided
from reconciler.ha.elector import SHARD, WAIT, WRITE, Bid, Elector, Record, Terms, is_ours, read_record, shown


class WaitLog:
    """Looks at a candidate after each of its steps."""

    def __init__(self, elector: Elector, now: Callable[[], datetime]) -> None:
        """`now` returns the time of day with its zone."""
        self._elector = elector
        self._now = now
        self._logged: tuple[str, float] | None = None

    def note(self, at: float) -> None:
        """Log a new wait. `at` is the present time by the clock of the candidate."""
        elector = self._elector
        lease, left = elector.shard.lease, elector.clear_at - at
        if not elector.holds(at):
            holder = elector.holder
            if holder and self._is_new((holder, 0.0)):
                log.info(
                    "standby, another process holds the lease",
                    lease=lease,
                    holder=shown(holder),
                    wait_seconds=round(elector.expires_in(at), 1),
                )
        elif left > 0 and elector.alone and self._is_new(("", elector.clear_at)):
            log.info(
                "waiting before allocation starts",
                lease=lease,
                why=elector.clear_of,
                wait_seconds=round(left, 1),
                until=_shown(self._now() + timedelta(seconds=left)),
            )

    def _is_new(self, wait: tuple[str, float]) -> bool:
        before, self._logged = self._logged, wait
        return wait != before


def _shown(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


LEASE_KIND = Resource("Lease", "coordination.k8s.io", "v1", "leases", namespaced=True)
NUMBER = "dra-reconciler.io/renewal"
"""Annotation: changes with each write. A write without a change makes no version, so others would not see it:
the time of day may be the same."""


class Leases:
    """Reads and writes for one candidate. Raises the errors of `Client`. A cancelled write may be applied."""

    def __init__(self, client: Client, namespace: str, *, now: Callable[[], datetime]) -> None:
        """`now` returns the time of day with its zone, which is written only for people."""
        self._client = client
        self._namespace = namespace
        self._now = now
        self._written = 0

    async def all(self, terms: Terms) -> list[Record]:
        """All our Leases as the server has them now. Missing values are taken from `terms`."""
        found = await self._client.fetch(LEASE_KIND.within(self._namespace))
        try:
            return [read_record(raw, terms) for raw in found["items"] if is_ours(raw)]
        except (KeyError, TypeError) as exc:
            raise Retry(
                f"Leases in namespace {self._namespace}: the response is not a list of Leases"
            ) from exc

    async def bid(self, elector: Elector, bid: Bid) -> str:
        """Become or stay the holder. Returns the new version. Raises Conflict or Gone."""
        stamp = _stamp(self._now())
        spec = {
            "holderIdentity": elector.identity,
            "leaseDurationSeconds": ceil(elector.terms.lease),
            "renewTime": stamp,
            "leaseTransitions": bid.transitions,
        }
        if elector.holder != elector.identity:
            spec["acquireTime"] = stamp
        return await self._write(elector, bid, spec)

    async def give_up(self, elector: Elector, bid: Bid) -> None:
        """Release the Lease for others, at once or after `bid.wait`."""
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _stamp(self._now())}
        await self._write(elector, bid, spec)

    async def _write(self, elector: Elector, bid: Bid, spec: dict[str, Any]) -> str:
        key = ObjectKey(self._namespace, elector.shard.lease)
        self._written += 1
        notes = {
            SHARD: str(elector.shard),
            WRITE: f"{elector.terms.write:g}",
            WAIT: f"{bid.wait:.3f}",
            NUMBER: str(self._written),
        }
        metadata: Raw = {"annotations": notes}
        if bid.version is None:
            metadata |= {"name": key.name, "namespace": key.namespace}
            body = {
                "apiVersion": LEASE_KIND.api_version,
                "kind": LEASE_KIND.kind,
                "metadata": metadata,
                "spec": spec,
            }
            written = await self._client.create(LEASE_KIND, body)
        else:
            metadata["resourceVersion"] = bid.version
            written = await self._client.patch(LEASE_KIND, key, {"metadata": metadata, "spec": spec})
        try:
            return str(written["metadata"]["resourceVersion"])
        except (KeyError, TypeError) as exc:
            raise Undecided(f"Lease {key}: the response to a write is not a Lease") from exc


def _stamp(now: datetime) -> str:
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


log = structlog.get_logger()

JITTER = 0.2
"""Random extension of a pause, as a fraction, so that candidates do not bid together"""
STANDBY = 0.5
"""Pauses of a standby, in those of a leader: a Lease that was released is taken within about a second"""
SHARP, SHARP_FROM, SHARP_TO = 0.05, 0.95, 1.25
"""The pause of a standby while the next renewal is due, and when that begins and ends after the last renewal;
all in pauses of a leader. A standby counts from when it saw the renewal: seen late, a Lease is taken late"""
MOST_LOGGED = 10
"""Maximum number of Leases, and of doubts about them, that are logged at a time"""
RELEASES = 3
"""Attempts to release the Lease at the end"""


class Campaign:
    """Runs beside the work, and continues while the work ends."""

    def __init__(
        self,
        elector: Elector,
        leases: Leases,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        random: Callable[[], float],
        begin: Callable[[], Coroutine[Any, Any, None]],
        end: Callable[[], None],
    ) -> None:
        """`clock` counts seconds; `now` returns the time of day with its zone, which is only logged; `random`
        returns numbers in [0, 1).

        `begin` prepares for decisions when this process becomes the leader. It is cancelled if the leadership
        ends before. `end` is called when the leadership ends, and must stop all decisions.
        """
        self._elector = elector
        self._leases = leases
        self._clock = clock
        self._random = random
        self._begin = begin
        self._end = end
        self._term: asyncio.Task[None] | None = None
        self._last_error = ""
        self._against = ""
        self._doubted: set[tuple[str, str]] = set()
        self._waits = WaitLog(elector, now)

    @property
    def rivals(self) -> list[Record]:
        """Known live Leases of shards that overlap with ours."""
        return self._elector.rivals(self._clock())

    async def run(self) -> None:
        """Campaign until cancelled. The Lease is kept."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._advance(group)
                    self._last_error = ""
                except ReconcilerError as exc:
                    self._log_error(exc)
                self._update_term(group)
                self._waits.note(self._clock())
                await asyncio.sleep(self._pause())

    async def give_up(self, quiet_at: float) -> None:
        """Release the Lease: at once, or when unanswered writes can no longer arrive.

        Nothing may be written after this call. Cancelled: the Lease is released, or expires by itself.
        """
        elector = self._elector
        for _ in range(RELEASES):
            now = self._clock()
            if not elector.holds(now):
                return
            bid = elector.renewal(now)
            wait = max(bid.wait, quiet_at - now)
            try:
                await self._leases.give_up(elector, Bid(bid.version, bid.transitions, wait))
            except (Gone, Retry) as exc:
                log.info("lease not released", lease=elector.shard.lease, error=str(exc))
                if isinstance(exc, Conflict):  # the response to a renewal may be lost
                    elector.observe(await self._leases.all(elector.terms), self._clock())
            else:
                elector.lost()
                log.info("lease released", lease=elector.shard.lease, wait_seconds=round(wait, 3))

    # -- one step

    async def _advance(self, group: asyncio.TaskGroup) -> None:
        elector = self._elector
        if elector.holds(self._clock()):
            await self._attempt(elector.renewal(self._clock()))
        else:
            self._update_term(group)  # leadership ended: stop the work before any await
            await self._read_leases()
            bid = None if elector.holds(self._clock()) else elector.bid(self._clock())
            if bid is not None:
                await self._attempt(bid)
        if elector.holds(self._clock()) and not elector.alone:
            await self._read_leases()
            if elector.holds(self._clock()) and not elector.alone:
                await self._withdraw()

    async def _attempt(self, bid: Bid) -> None:
        sent = self._clock()
        try:
            version = await self._leases.bid(self._elector, bid)
        except (Conflict, Gone) as exc:
            if isinstance(exc, Gone) and bid.version is None:
                raise Retry(f"{exc}; create the namespace of the Lease, or set --lease-namespace") from exc
            await self._read_leases()  # it may be ours, if the response to the previous bid was lost
            return
        self._elector.won(bid, version, sent, self._clock())

    async def _read_leases(self) -> None:
        records = await self._leases.all(self._elector.terms)
        self._elector.observe(records, self._clock())
        self._log_doubts(records)
        against = "; ".join(
            f"Lease {shown(rival.name)}: {shown(rival.shard) or 'the whole fleet'}, "
            f"{shown(rival.holder) or 'given up'}"
            for rival in self.rivals[:MOST_LOGGED]
        )
        if against and against != self._against:
            log.error(
                "shard overlaps with another, allocation stopped",
                shard=str(self._elector.shard) or "the whole fleet",
                others=against,
            )
        self._against = against

    def _log_doubts(self, records: Iterable[Record]) -> None:
        """Log each doubt about a Lease once, while it lasts."""
        doubts = {(record.name, doubt) for record in records for doubt in record.doubts}
        for name, doubt in sorted(doubts - self._doubted)[:MOST_LOGGED]:
            log.warning("invalid lease ignored", lease=shown(name), why=doubt)
        self._doubted = doubts

    async def _withdraw(self) -> None:
        """Release the Lease since another shard overlaps. If both do, a random pause decides."""
        now = self._clock()
        bid = self._elector.renewal(now)
        try:
            await self._leases.give_up(self._elector, bid)
        finally:
            self._elector.lost()
        await asyncio.sleep(self._elector.terms.retry * 3 * self._random())

    def _update_term(self, group: asyncio.TaskGroup) -> None:
        """Start or end the work, depending on the Lease."""
        leads = self._elector.leads(self._clock())
        if leads and self._term is None:
            log.info(
                "lease acquired, taking over",
                lease=self._elector.shard.lease,
                identity=self._elector.identity,
            )
            self._term = group.create_task(self._begin(), name="take over")
        elif not leads and self._term is not None:
            log.warning("lost leadership", lease=self._elector.shard.lease, holder=self._elector.holder)
            self._term.cancel()
            self._term = None
            self._end()

    def _pause(self) -> float:
        """Seconds until the next step, at most until the predecessors are waited out."""
        now, elector = self._clock(), self._elector
        pause = elector.terms.retry
        if not elector.holds(now):
            usual = pause * STANDBY * (1 + JITTER * self._random())
            age = elector.unchanged_for(now)
            if age >= pause * SHARP_TO:
                return usual
            return min(usual, max(pause * SHARP_FROM - age, pause * SHARP))
        left = elector.clear_at - now
        return min(pause, left) if left > 0 else pause

    def _log_error(self, exc: ReconcilerError) -> None:
        if str(exc) != self._last_error:
            log.warning("lease request failed", lease=self._elector.shard.lease, error=str(exc))
        self._last_error = str(exc)


class FencedTransport:
    """Starts no write that may outlast the lease, and keeps track of unanswered writes."""

    def __init__(self, behind: transport.Transport, elector: Elector, clock: Callable[[], float]) -> None:
        """`clock` counts seconds."""
        self._behind = behind
        self._elector = elector
        self._clock = clock
        self.quiet_at = float("-inf")
        """When unanswered writes can no longer arrive"""

    async def send(self, request: transport.Request) -> transport.Response:
        """See `Transport.send`. Raises Retry for a write that must not start; nothing was sent then."""
        path = request.path
        passes = request.method in transport.READS or path.startswith(
            (*transport.QUESTIONS, transport.LEASES)
        )
        is_event = not passes and _is_event(path)
        if not passes:
            self._check(path, 0.0 if is_event else request.timeout)
        deadline = self._clock() + request.timeout
        settled = passes or is_event
        try:
            response = await self._behind.send(request)
        except (Undecided, CancelledError):
            raise
        except Retry:
            settled = True
            raise
        else:
            settled = settled or response.status < 500  # a server that failed may still apply it
            return response
        finally:
            if not settled:
                self.quiet_at = max(self.quiet_at, deadline + self._elector.terms.write)

    def stream(self, request: transport.WatchRequest) -> transport.Lines:
        """See `Transport.stream`."""
        return self._behind.stream(request)

    def _check(self, path: str, seconds: float) -> None:
        now, elector = self._clock(), self._elector
        if elector.may_write(now, seconds):
            return
        why = "it was not renewed in time" if elector.leads(now) else "another process leads"
        raise Retry(f"{path}: the lease does not outlast this write: {why}", after=elector.terms.retry)


def _is_event(path: str) -> bool:
    """Whether a path is of Events: only the leader writes them, but they allocate nothing."""
    return "/events/" in path or path.endswith("/events")
