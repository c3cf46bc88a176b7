"""The content of a Lease, read from what a server has, and when writes of its holder can no longer arrive.

Every Lease is read; invalid values count as unknown. Anyone who may write Leases in our namespace can
keep us from leading, but not for longer than a Lease lasts, and not with invalid values. A test feeds it
arbitrary values.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec import Struct

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
    metadata = _mapping(_mapping(raw).get("metadata"))
    return metadata.get("name") == LEASE or SHARD in _mapping(metadata.get("annotations"))


def read_record(raw: Mapping[str, Any], terms: Terms) -> Record:
    """The record of a Lease. `terms` replace missing and invalid values; `doubts` name the invalid ones."""
    metadata, spec = _mapping(raw.get("metadata")), _mapping(raw.get("spec"))
    notes = _mapping(metadata.get("annotations"))
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


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}
