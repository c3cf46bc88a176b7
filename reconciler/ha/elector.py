"""Leader election as one candidate sees it. No I/O and no clock: the caller passes times, all of one clock.

Assumptions: clocks run at most `clock_error` too fast or too slow; a request that timed out arrives at most
`write` seconds later, or gets a conflict; the server orders the versions of a Lease, and a recreated Lease
has another uid. Nothing is assumed about the time of day.

The holder counts its lease from before it sent a renewal, and starts no write that may outlast the lease. A
successor counts from when it saw the last change of the Lease, which is later. It waits for the same duration
by the slower of two clocks, and then for as long as a request may be late. Shards that overlap have different
Leases, which do not exclude one another. So each process first takes its own Lease, and then reads the
others: of two at the same time, at least one sees the other.

A Lease that does not exist may have been deleted while its holder lives, so its unknown holder is waited out,
too.
"""

from collections.abc import Iterable

from msgspec import Struct

from reconciler.ha.lease_record import Record, Terms, shown
from reconciler.ha.shard import Shard

DIGITS = 20
"""Maximum digits of a numeric version: 64 bits have no more"""


class _Held(Struct):
    """A Lease that we hold."""

    version: str
    since: float
    """A time before the last successful renewal was sent"""
    transitions: int
    alone: bool = False
    """Whether no rival was seen since we took it"""


class _Seen(Struct, frozen=True):
    record: Record
    at: float
    """When this state was first seen"""


class Bid(Struct, frozen=True):
    """An attempt to become or stay the holder. It applies to one version of the Lease, or creates it."""

    version: str | None
    transitions: int
    wait: float
    """The value of `Record.wait` to write"""


class Elector:
    """One candidate for one Lease. Calls must be in the order of the events that they report."""

    def __init__(self, identity: str, shard: Shard, terms: Terms) -> None:
        """`identity` must be unique, also among past processes."""
        self.identity = identity
        self.shard = shard
        self.terms = terms
        self._held: _Held | None = None
        self._seen: dict[str, _Seen] = {}
        self._clear_at = float("-inf")
        self._clear_of = ""
        self._highest = 0

    # -- state

    def may_write(self, now: float, seconds: float) -> bool:
        """Whether a write may start that takes at most `seconds`."""
        return self.leads(now) and self._is_held(now + seconds, self.terms.lease)

    def leads(self, now: float) -> bool:
        """Whether we hold the Lease, no other shard overlaps, and all predecessors are waited out."""
        return self._is_held(now, self.terms.renew) and self.alone and self._clear_at <= now

    def holds(self, now: float) -> bool:
        """Whether we hold the Lease, renewed in time."""
        if self._held is not None and now >= self._held.since + self.terms.renew:
            self._held = None
        return self._held is not None

    @property
    def holder(self) -> str:
        """The holder of the Lease, if known."""
        if self._held is not None:
            return self.identity
        seen = self._seen.get(self.shard.lease)
        return seen.record.holder if seen is not None else ""

    @property
    def alone(self) -> bool:
        """Whether a reading of all Leases after we took ours showed no rival."""
        return self._held is not None and self._held.alone

    @property
    def clear_at(self) -> float:
        """When all earlier holders of the Lease are waited out."""
        return self._clear_at

    @property
    def clear_of(self) -> str:
        """Why earlier holders are waited out, in words. Empty if there is no such wait."""
        return self._clear_of

    def expires_in(self, now: float) -> float:
        """Seconds until the Lease may be taken from another holder that does not renew it. 0 if now."""
        seen = self._seen.get(self.shard.lease)
        if seen is None or not seen.record.holder:
            return 0.0
        return max(seen.at + seen.record.lease * self.terms.skew - now, 0.0)

    def rivals(self, now: float) -> list[Record]:
        """Live Leases of other shards that overlap with ours."""
        return [
            seen.record
            for name, seen in sorted(self._seen.items())
            if name != self.shard.lease
            and seen.record.shard.overlaps(self.shard)
            and now < seen.at + seen.record.quiet * self.terms.skew
        ]

    # -- events

    def observe(self, records: Iterable[Record], now: float) -> None:
        """All Leases, from a read that started after our last known write."""
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
        self._held.version = ours.record.version  # perhaps of a renewal whose response was lost
        if not self.rivals(now):
            self._held.alone = True

    def bid(self, now: float) -> Bid | None:
        """The bid to become the holder now. None while another process is, or while there is a rival."""
        if self.rivals(now):
            return None
        seen = self._seen.get(self.shard.lease)
        if seen is None:  # an earlier Lease may have been deleted; its content is unknown
            why = "the Lease did not exist; if it was deleted, its holder may still write"
            self._wait_until(now + self._unknown, why)
            return Bid(None, 0, self._left(now))
        record, skew = seen.record, self.terms.skew
        if record.holder == self.identity:
            return Bid(record.version, record.transitions, self._left(now))
        if self.expires_in(now) > 0:
            return None
        why = f"writes of the previous leader {shown(record.holder)}".rstrip() + " may still arrive"
        self._wait_until(seen.at + record.quiet * skew, why)
        return Bid(record.version, record.transitions + 1, self._left(now))

    def renewal(self, now: float) -> Bid:
        """The bid to stay the holder."""
        assert self._held is not None
        return Bid(self._held.version, self._held.transitions, self._left(now))

    def won(self, bid: Bid, version: str, sent: float, now: float) -> None:
        """A bid, sent at `sent`, succeeded and made a version."""
        if version == bid.version:
            return  # nothing was written, so other candidates saw no change
        # A late response counts as a new start: rivals may have considered our lease expired.
        alone = self.holds(now) and self.alone
        self._held = _Held(version, sent, bid.transitions, alone)
        self._note_version(version, now)

    def lost(self) -> None:
        """We no longer hold the Lease: released, deleted, or taken."""
        self._held = None

    # -- inside

    @property
    def _unknown(self) -> float:
        """How long to wait for an unknown holder."""
        return (self.terms.lease + self.terms.write) * self.terms.skew

    def _is_held(self, now: float, seconds: float) -> bool:
        """Whether the last renewal was sent less than `seconds` ago."""
        return self._held is not None and now < self._held.since + seconds

    def _wait_until(self, at: float, why: str) -> None:
        if at > self._clear_at:
            self._clear_at, self._clear_of = at, why

    def _left(self, now: float) -> float:
        return max(self._clear_at - now, 0.0)

    def _note_version(self, version: str, now: float) -> None:
        """A server that was restored from a backup may have lost a holder."""
        number = int(version) if version.isdecimal() and len(version) <= DIGITS else 0
        if number < self._highest:
            self._held = None
            self._wait_until(
                now + self._unknown, "the API server lost versions of the Lease; their holder may still write"
            )
        self._highest = number
