"""Who leads, as one candidate sees it. No I/O and no clock: times are handed in, all by one clock.

What is relied on: clocks run at most `clock_error` too fast or too slow; a request that was given up arrives
at most `write` seconds later, or hits a version that is gone; the server orders the versions of a Lease, and
one that is made anew has another uid. Nothing is assumed of the time of day.

The holder counts its lease from before it sent a renewal, and starts no write that the lease does not
outlast. Whoever takes over counts from when it saw the Lease change last, so from later, waits for as long by
the slower of two clocks, and then for as long as a request may be late. Shards that overlap have different
Leases, which do not exclude one another; so each announces itself first by its own Lease, and looks for
others then: of two at the same time at least one sees the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.ha.record import Record, Terms
from reconciler.ha.shards.shard import Shard

DIGITS = 20
"""Of a version that is a number: 64 bits have no more"""


@dataclass(slots=True)
class _Held:
    """A Lease that is ours."""

    version: str
    since: float
    """When the last renewal that was answered had not been sent yet"""
    transitions: int
    alone: bool = False
    """Whether nobody else was seen since it became ours"""


@dataclass(frozen=True, slots=True)
class _Seen:
    record: Record
    at: float
    """Since when it is known to be like this"""


@dataclass(frozen=True, slots=True)
class Bid:
    """An attempt to become or to stay the holder, of a version of the Lease or of one that is not there."""

    version: str | None
    transitions: int
    wait: float
    """What to write down as `Record.wait`"""


class Elector:
    """One candidate for one Lease. Everything it is told happened in the order in which it is told."""

    def __init__(self, identity: str, shard: Shard, terms: Terms) -> None:
        """`identity` must be nobody else's, in the past neither."""
        self.identity = identity
        self.shard = shard
        self.terms = terms
        self._held: _Held | None = None
        self._seen: dict[str, _Seen] = {}
        self._clear_at = float("-inf")
        self._highest = 0

    # -- may we?

    def may_write(self, now: float, seconds: float) -> bool:
        """Whether a write may start that takes so many seconds at most."""
        return self.leads(now) and self._is_held(now + seconds, self.terms.lease)

    def leads(self, now: float) -> bool:
        """Whether the Lease is ours, nobody else's share of it is, and all before us have been waited out."""
        return self._is_held(now, self.terms.renew) and self.alone and self._clear_at <= now

    def holds(self, now: float) -> bool:
        """Whether the Lease is ours. One that was not renewed in time is not."""
        if self._held is not None and now >= self._held.since + self.terms.renew:
            self._held = None
        return self._held is not None

    @property
    def holder(self) -> str:
        """Who holds the Lease, as far as is known."""
        if self._held is not None:
            return self.identity
        seen = self._seen.get(self.shard.lease)
        return seen.record.holder if seen is not None else ""

    @property
    def alone(self) -> bool:
        """Whether a look at all Leases since ours was taken showed no rival."""
        return self._held is not None and self._held.alone

    @property
    def clear_at(self) -> float:
        """When all who held the Lease before have been waited out."""
        return self._clear_at

    def rivals(self, now: float) -> list[Record]:
        """Live Leases of other shards that have a part of ours."""
        return [
            seen.record
            for name, seen in sorted(self._seen.items())
            if name != self.shard.lease
            and seen.record.shard.overlaps(self.shard)
            and now < seen.at + seen.record.quiet * self.terms.skew
        ]

    # -- what is learnt

    def observe(self, records: Iterable[Record], now: float) -> None:
        """All Leases there are, by a reading that began after the last that is known of ours."""
        before, self._seen = self._seen, {}
        for record in records:
            known = before.get(record.name)
            same = known is not None and known.record == record
            self._seen[record.name] = known if known is not None and same else _Seen(record, now)
        ours = self._seen.get(self.shard.lease)
        if ours is not None:
            self._note_version(ours.record.version, now)
        if self._held is None:
            return
        if ours is None or ours.record.holder != self.identity:
            self._held = None
            return
        self._held.version = ours.record.version  # of a renewal whose answer was lost, perhaps
        if not self.rivals(now):
            self._held.alone = True

    def bid(self, now: float) -> Bid | None:
        """The attempt to make now at becoming the holder; None while somebody else is, or a rival lives."""
        if self.rivals(now):
            return None
        seen = self._seen.get(self.shard.lease)
        if seen is None:  # nobody knows what it said, if it ever was there
            self._clear_at = max(self._clear_at, now + self._unknown)
            return Bid(None, 0, self._left(now))
        record, skew = seen.record, self.terms.skew
        if record.holder == self.identity:
            return Bid(record.version, record.transitions, self._left(now))
        if record.holder and now < seen.at + record.lease * skew:
            return None
        self._clear_at = max(self._clear_at, seen.at + record.quiet * skew)
        return Bid(record.version, record.transitions + 1, self._left(now))

    def renewal(self, now: float) -> Bid:
        """The attempt to make now at staying the holder."""
        assert self._held is not None
        return Bid(self._held.version, self._held.transitions, self._left(now))

    def won(self, bid: Bid, version: str, sent: float, now: float) -> None:
        """An attempt, sent at some time, was answered with the version it made."""
        if version == bid.version:
            return  # nothing was written, so nobody saw it
        # Late answers count as a new start: rivals may have taken the silence for our end.
        alone = self.holds(now) and self.alone
        self._held = _Held(version, sent, bid.transitions, alone)
        self._note_version(version, now)

    def lost(self) -> None:
        """The Lease is not ours any more: given up, gone, or somebody else's."""
        self._held = None

    # -- inside

    @property
    def _unknown(self) -> float:
        """How long to wait for a holder of whom nothing is known."""
        return (self.terms.lease + self.terms.write) * self.terms.skew

    def _is_held(self, now: float, seconds: float) -> bool:
        """Whether the last renewal was sent no longer ago than that."""
        return self._held is not None and now < self._held.since + seconds

    def _left(self, now: float) -> float:
        return max(self._clear_at - now, 0.0)

    def _note_version(self, version: str, now: float) -> None:
        """A server that was set back may have forgotten a holder."""
        number = int(version) if version.isdecimal() and len(version) <= DIGITS else 0
        if number < self._highest:
            self._held = None
            self._clear_at = max(self._clear_at, now + self._unknown)
        self._highest = number
