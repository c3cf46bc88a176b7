"""Converts placement policies, and what they know of pods, to JSON and back. Nothing for first fit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from reconciler.allocation.policies.demand import NO_DEMAND, read_demand
from reconciler.allocation.policies.policy import UNKNOWN_CORES, PodRoom
from reconciler.allocation.policies.selection import PLAIN, Policies

POLICIES = "policies"
"""The type of the entry with the policies of the decisions that follow"""
ROOM = "room"
"""The type of the entry with changes of the free CPU of nodes"""

KEPT = 16
"""Demands that later decisions may name"""

Json = dict[str, Any]


def write_policies(policies: Policies) -> Json:
    """The entry of the policies in use, with their whole demand."""
    return {
        "t": POLICIES,
        "names": [list(pair) for pair in policies.names],
        "seed": policies.seed,
        "digest": policies.demand.digest,
        "demand": policies.demand.to_json(),
    }


class RecordedPolicies:
    """The policies of a journal, by the digest of their demand: a long search may end after a change."""

    def __init__(self) -> None:
        self._known: dict[str, Policies] = {}

    def take(self, raw: Json) -> None:
        """Read an entry of `write_policies`. Raises Malformed."""
        demand = read_demand(raw["demand"], "journal") if raw["digest"] else None
        names = tuple((target, name) for target, name in raw["names"])
        self._known.pop(raw["digest"], None)
        self._known[raw["digest"]] = Policies(names, demand.demand if demand else NO_DEMAND, raw["seed"])
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]

    def of(self, digest: str | None) -> Policies:
        """The policies of a decision; first fit if it names no digest."""
        return PLAIN if digest is None else self._known.get(digest, PLAIN)


class RoomWriter:
    """Writes the free CPU of all nodes once, then only what changed."""

    def __init__(self) -> None:
        self._written: dict[str, int] = {}

    def whole(self) -> Json:
        """The entry with all nodes, for the beginning of a file."""
        return {"t": ROOM, "free": self._written}

    def entry(self, now: Mapping[str, int]) -> Json | None:
        """The entry for thousandths of a CPU that are free, by node; None if nothing changed."""
        changed = {name: cores for name, cores in now.items() if self._written.get(name) != cores}
        self._written = dict(now)
        return {"t": ROOM, "free": changed} if changed else None


class RecordedRoom:
    """The free CPU of nodes, as a journal tells it."""

    def __init__(self) -> None:
        self._free: dict[str, int] = {}

    def take(self, raw: Json) -> None:
        """Read an entry of `RoomWriter`."""
        self._free |= raw["free"]

    def of(self, cores: int | None, order: tuple[str, ...]) -> PodRoom | None:
        """What the policies of a decision knew of its pod."""
        if cores is None:
            return None
        free = [self._free.get(name, UNKNOWN_CORES) for name in order]
        return PodRoom(cores, np.array(free, dtype=np.int64))
