"""Keeps a candidate in the running: looks, bids, renews, and tells when its turn begins and ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from reconciler.errors import Conflict, Gone, ReconcilerError, Retry
from reconciler.ha.elector import Bid, Elector
from reconciler.ha.lease_reading import shown
from reconciler.ha.leases import Leases
from reconciler.ha.record import Record

log = structlog.get_logger()

JITTER = 0.2
"""Part of a pause by which it may be longer, so that candidates do not bid together"""
MOST_TOLD = 10
"""Leases, and doubts about them, that one line or one look tells of"""
RELEASES = 3
"""Attempts to give the Lease up at the end"""


class Campaign:
    """Runs beside the work, and goes on while the work ends."""

    def __init__(
        self,
        elector: Elector,
        leases: Leases,
        *,
        clock: Callable[[], float],
        random: Callable[[], float],
        begin: Callable[[], Awaitable[None]],
        end: Callable[[], None],
    ) -> None:
        """`clock` counts seconds, `random` gives numbers in [0, 1).

        `begin` makes all ready for deciding, when this process may write; it is cancelled when that is over
        before. `end` is called, and must see to it that nothing is decided any more.
        """
        self._elector = elector
        self._leases = leases
        self._clock = clock
        self._random = random
        self._begin = begin
        self._end = end
        self._term: asyncio.Task[None] | None = None
        self._troubled = ""
        self._against = ""
        self._doubted: set[tuple[str, str]] = set()

    @property
    def rivals(self) -> list[Record]:
        """Live Leases that overlap with ours, as far as is known."""
        return self._elector.rivals(self._clock())

    async def run(self) -> None:
        """Campaign until cancelled; the Lease is then still held."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._advance(group)
                    self._troubled = ""
                except ReconcilerError as exc:
                    self._trouble(exc)
                self._take_stock(group)
                await asyncio.sleep(self._pause())

    async def give_up(self, quiet_at: float) -> None:
        """Let others have the Lease: at once, or when writes that were not answered cannot arrive any more.

        Nothing may be written after this was called. Cancelled: the Lease may be given up, or ends by itself.
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
                if isinstance(exc, Conflict):  # an answer to a renewal may have been lost
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
            self._take_stock(group)  # over, and nothing may be waited for before that is told
            await self._look()
            bid = None if elector.holds(self._clock()) else elector.bid(self._clock())
            if bid is not None:
                await self._attempt(bid)
        if elector.holds(self._clock()) and not elector.alone:
            await self._look()
            if elector.holds(self._clock()) and not elector.alone:
                await self._withdraw()

    async def _attempt(self, bid: Bid) -> None:
        sent = self._clock()
        try:
            version = await self._leases.bid(self._elector, bid)
        except (Conflict, Gone):
            await self._look()  # ours after all where the answer to the one before was lost
            return
        self._elector.won(bid, version, sent, self._clock())

    async def _look(self) -> None:
        records = await self._leases.all(self._elector.terms)
        self._elector.observe(records, self._clock())
        self._doubt(records)
        against = "; ".join(
            f"Lease {shown(rival.name)}: {shown(rival.shard) or 'the whole fleet'}, "
            f"{shown(rival.holder) or 'given up'}"
            for rival in self.rivals[:MOST_TOLD]
        )
        if against and against != self._against:
            log.error(
                "shard overlaps with another, allocation stopped",
                shard=str(self._elector.shard) or "the whole fleet",
                others=against,
            )
        self._against = against

    def _doubt(self, records: Iterable[Record]) -> None:
        """Tell once what is not believed of Leases, for as long as it stays."""
        doubts = {(record.name, doubt) for record in records for doubt in record.doubts}
        for name, doubt in sorted(doubts - self._doubted)[:MOST_TOLD]:
            log.warning("invalid lease ignored", lease=shown(name), why=doubt)
        self._doubted = doubts

    async def _withdraw(self) -> None:
        """Somebody else has a part of our shard. Both may give way: then chance decides who is back first."""
        now = self._clock()
        bid = self._elector.renewal(now)
        try:
            await self._leases.give_up(self._elector, bid)
        finally:
            self._elector.lost()
        await asyncio.sleep(self._elector.terms.retry * 3 * self._random())

    def _take_stock(self, group: asyncio.TaskGroup) -> None:
        """Begin or end the work as the Lease is."""
        leads = self._elector.leads(self._clock())
        if leads and self._term is None:
            log.info(
                "lease acquired, taking over",
                lease=self._elector.shard.lease,
                identity=self._elector.identity,
            )
            self._term = group.create_task(self._begin_term(), name="take over")
        elif not leads and self._term is not None:
            log.warning("lost leadership", lease=self._elector.shard.lease, holder=self._elector.holder)
            self._term.cancel()
            self._term = None
            self._end()

    async def _begin_term(self) -> None:
        await self._begin()

    def _pause(self) -> float:
        """Seconds until the next step; not later than what is waited for."""
        now, elector = self._clock(), self._elector
        pause = elector.terms.retry
        if not elector.holds(now):
            return pause * (1 + JITTER * self._random())
        left = elector.clear_at - now
        return min(pause, left) if left > 0 else pause

    def _trouble(self, exc: ReconcilerError) -> None:
        if str(exc) != self._troubled:
            log.warning("lease request failed", lease=self._elector.shard.lease, error=str(exc))
        self._troubled = str(exc)
