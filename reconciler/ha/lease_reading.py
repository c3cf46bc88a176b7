"""Reads Leases of the server into records. Every Lease is read; invalid values count as unknown.

Anyone who may write Leases in our namespace can keep us from leading, but not for longer than a Lease lasts,
and not with invalid values. A test feeds it arbitrary values.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from reconciler.errors import Rejected
from reconciler.ha.record import LONGEST, Record, Terms
from reconciler.ha.shards.shard import LEASE, WHOLE, Shard, parse

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


def record(raw: Mapping[str, Any], terms: Terms) -> Record:
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
        return parse(_text(text, otherwise="?"))
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
