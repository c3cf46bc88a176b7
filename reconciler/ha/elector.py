"""Leader election as one candidate sees it, and the content of a Lease. No I/O and no clock: the caller
passes times.
"""

from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import Any

from msgspec import Struct

from reconciler.api.versions.shapes import mapping
from reconciler.errors import Rejected
from reconciler.ha.shard import LEASE, WHOLE, Shard, parse_shard

LONGEST = 600.0
"""Maximum seconds of a lease and of a write. Longer values are ignored: if the holder is gone, no process
could lead for as long."""


class Terms(Struct, frozen=True):
    """Durations in seconds, by the clock of the process that measures them, and the error of clocks."""

    lease: float = 15.0
    """How long a renewal is valid, counted from before it was sent"""
    renew: float = 10.0
    """Time without a successful renewal after which the holder stops leading"""
    retry: float = 2.0
    """Time between renewals, and between reads of candidates"""
    write: float = 10.0
    """Timeout of a write, and how long after it the request may still arrive"""
    clock_error: float = 0.01
    """Fraction by which a clock may be too fast or too slow"""

    @property
    def skew(self) -> float:
        """Maximum seconds on one clock during one second on another."""
        return (1 + self.clock_error) / (1 - self.clock_error)


class Record(Struct, frozen=True):
    """A Lease as it was read."""

    name: str
    version: str
    holder: str
    """Empty if it was released"""
    shard: Shard
    lease: float
    write: float
    """`Terms.lease` and `Terms.write` of its holder"""
    wait: float = 0.0
    """Seconds to wait for earlier holders, or for unanswered writes"""
    transitions: int = 0
    uid: str = ""
    """Distinguishes Leases with the same name and version, after the server was restored from a backup"""
    doubts: tuple[str, ...] = ()
    """Its invalid values, one line each"""

    @property
    def quiet(self) -> float:
        """Seconds without a change after which no write of its holder or of earlier ones can arrive."""
        return max(self.lease + self.write if self.holder else 0.0, self.wait)


SHARD = "dra-reconciler.io/shard"
"""Annotation: the definition of the shard, empty for the whole fleet. It identifies our Leases."""
WRITE = "dra-reconciler.io/write-seconds"
WAIT = "dra-reconciler.io/wait-seconds"
MOST_WAIT = 3 * LONGEST
"""Seconds. More than the longest Lease and write together, by the slower of two clocks."""
MOST_TRANSITIONS = 2**31 - 2
"""The field has 32 bits, and is incremented"""
SHOWN = 200
"""Characters of foreign values that are logged"""


def is_ours(raw: object) -> bool:
    """Whether a Lease is of this project: it has our name, or the annotation of a shard."""
    metadata = mapping(mapping(raw).get("metadata"))
    return metadata.get("name") == LEASE or SHARD in mapping(metadata.get("annotations"))


def read_record(raw: Mapping[str, Any], terms: Terms) -> Record:
    """The record of a Lease. `terms` replace missing and invalid values; `doubts` name the invalid ones."""
    metadata, spec = mapping(raw.get("metadata")), mapping(raw.get("spec"))
    notes = mapping(metadata.get("annotations"))
    doubts: list[str] = []
    return Record(
        name=_text(metadata.get("name")),
        version=_text(metadata.get("resourceVersion")),
        holder=_text(spec.get("holderIdentity")),
        shard=_shard(notes.get(SHARD), doubts),
        lease=_seconds(
            "leaseDurationSeconds", spec.get("leaseDurationSeconds"), LONGEST, terms.lease, doubts
        ),
        write=_seconds(WRITE, notes.get(WRITE), LONGEST, terms.write, doubts),
        wait=_wait(notes.get(WAIT), terms, doubts),
        transitions=_transitions(spec.get("leaseTransitions"), doubts),
        uid=_text(metadata.get("uid")),
        doubts=tuple(doubts),
    )


def shown(text: object) -> str:
    """A foreign value, shortened for logs."""
    try:
        whole = str(text)
    except ValueError:  # a number of thousands of digits
        whole = "a number that is too long"
    return whole if len(whole) <= SHOWN else f"{whole[:SHOWN]}..."


def _shard(text: object, doubts: list[str]) -> Shard:
    """The shard. An unreadable one counts as the whole fleet."""
    if text is None:
        return WHOLE
    try:
        return parse_shard(_text(text, otherwise="?"))
    except Rejected as exc:
        doubts.append(f"{SHARD}: {shown(exc)}; treated as the whole fleet")
        return WHOLE


def _wait(found: object, terms: Terms, doubts: list[str]) -> float:
    return 0.0 if found is None else _seconds(WAIT, found, MOST_WAIT, terms.lease + terms.write, doubts)


def _seconds(name: str, found: object, most: float, otherwise: float, doubts: list[str]) -> float:
    if found is None:
        return otherwise
    try:
        seconds = float(found) if isinstance(found, str | int | float) else -1.0
    except (ValueError, OverflowError):
        seconds = -1.0
    # A duration of 0 for a lease or a write would end the wait for its holder at once.
    if isfinite(seconds) and 0 <= seconds <= most and (seconds > 0 or name == WAIT):
        return seconds
    doubts.append(f"{name}: {shown(found)} is not within {most:g} seconds; {otherwise:g} is used instead")
    return otherwise


def _transitions(found: object, doubts: list[str]) -> int:
    if found is None:
        return 0
    if isinstance(found, int) and 0 <= found <= MOST_TRANSITIONS:
        return found
    doubts.append(f"leaseTransitions: {shown(found)} is not a valid number; 0 is used instead")
    return 0


def _text(found: object, otherwise: str = "") -> str:
    return found if isinstance(found, str) else otherwise


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
        self.clear_at = float("-inf")
        """When all earlier holders of the Lease are waited out"""
        self.clear_of = ""
        """Why earlier holders are waited out, in words. Empty if there is no such wait"""
        self._highest = 0

    # -- state

    def may_write(self, now: float, seconds: float) -> bool:
        """Whether a write may start that takes at most `seconds`."""
        return self.leads(now) and self._is_held(now + seconds, self.terms.lease)

    def leads(self, now: float) -> bool:
        """Whether we hold the Lease, no other shard overlaps, and all predecessors are waited out."""
        return self._is_held(now, self.terms.renew) and self.alone and self.clear_at <= now

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

    def expires_in(self, now: float) -> float:
        """Seconds until the Lease may be taken from another holder that does not renew it. 0 if now."""
        seen = self._seen.get(self.shard.lease)
        if seen is None or not seen.record.holder:
            return 0.0
        return max(seen.at + seen.record.lease * self.terms.skew - now, 0.0)

    def unchanged_for(self, now: float) -> float:
        """Seconds since the Lease was first seen as it is; infinite if there is none."""
        seen = self._seen.get(self.shard.lease)
        return now - seen.at if seen is not None else inf

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
        if at > self.clear_at:
            self.clear_at, self.clear_of = at, why

    def _left(self, now: float) -> float:
        return max(self.clear_at - now, 0.0)

    def _note_version(self, version: str, now: float) -> None:
        """A server that was restored from a backup may have lost a holder."""
        number = int(version) if version.isdecimal() and len(version) <= DIGITS else 0
        if number < self._highest:
            self._held = None
            self._wait_until(
                now + self._unknown, "the API server lost versions of the Lease; their holder may still write"
            )
        self._highest = number
