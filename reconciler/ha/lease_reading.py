"""Leases as the server has them -> records. Whatever one says it is read: what is absurd counts as unknown.

Who may write Leases in our namespace may keep us from leading, that is what they are for; but not for longer
than a Lease can hold, and not by what cannot be read. A test feeds it anything.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from reconciler.errors import Rejected
from reconciler.ha.record import LONGEST, Record, Terms
from reconciler.ha.shards.shard import LEASE, WHOLE, Shard, parse

SHARD = "dra-reconciler.io/shard"
"""Annotation: the definition of the shard, empty for the whole fleet. Tells our Leases from others'."""
WRITE = "dra-reconciler.io/write-seconds"
WAIT = "dra-reconciler.io/wait-seconds"
MOST_WAIT = 3 * LONGEST
"""Seconds. A Lease and a write of the longest kind, by the slower of two clocks, are less."""
MOST_TRANSITIONS = 2**31 - 2
"""The field has 32 bits, and grows by one"""
SHOWN = 200
"""Characters of what others wrote that are told"""


def is_ours(raw: object) -> bool:
    """Whether a Lease is of this project: it has our name, or says which shard it is for."""
    metadata = _mapping(_mapping(raw).get("metadata"))
    return metadata.get("name") == LEASE or SHARD in _mapping(metadata.get("annotations"))


def record(raw: Mapping[str, Any], terms: Terms) -> Record:
    """What a Lease says; what it does not say, or absurdly, is taken from `terms` and told in `doubts`."""
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
    """What others wrote, as it is told."""
    try:
        whole = str(text)
    except ValueError:  # a number of thousands of digits
        whole = "a number that is too long"
    return whole if len(whole) <= SHOWN else f"{whole[:SHOWN]}..."


def _shard(text: object, doubts: list[str]) -> Shard:
    """What cannot be read may be anything."""
    if text is None:
        return WHOLE
    try:
        return parse(_text(text, otherwise="?"))
    except Rejected as exc:
        doubts.append(f"{SHARD}: {shown(exc)}; taken for the whole fleet")
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
    # A lease or a write of no length would end the wait for its holder at once.
    if isfinite(seconds) and 0 <= seconds <= most and (seconds > 0 or name == WAIT):
        return seconds
    doubts.append(f"{name}: {shown(found)} is not within {most:g} seconds; {otherwise:g} are assumed")
    return otherwise


def _transitions(found: object, doubts: list[str]) -> int:
    if found is None:
        return 0
    if isinstance(found, int) and 0 <= found <= MOST_TRANSITIONS:
        return found
    doubts.append(f"leaseTransitions: {shown(found)} is no number of them; counted afresh")
    return 0


def _text(found: object, otherwise: str = "") -> str:
    return found if isinstance(found, str) else otherwise


def _mapping(found: object) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}
