"""Converts placement policies, and what they know of pods, to JSON and back. Nothing for first fit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.domains import Crowd
from kernels.types import Amounts
from reconciler.allocation.placement.preferences import PodPreferences
from reconciler.allocation.policies.demand import NO_DEMAND, read_demand
from reconciler.allocation.policies.policy import UNKNOWN_CORES, PodRoom, Preferences
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


Order = tuple[str, ...]

_COLUMNS = ("untolerated", "matching", "near")


def write_preferences(preferences: Preferences | None, order: Order) -> Json | None:
    """What a pod prefers among the nodes in this order; None if nothing counted."""
    if not isinstance(preferences, PodPreferences):
        return None
    entry: Json = {"first": preferences.first, "withFirstFit": preferences.with_first_fit}
    for name in _COLUMNS:
        column = getattr(preferences, name)
        if column is not None:
            entry[name] = _by_name(column, order)
    if preferences.spreadable is not None:
        entry["spreadable"] = sorted(_by_name(preferences.spreadable, order))
        entry["crowds"] = [
            {
                "counts": _by_name(crowd.counts, order),
                "codes": _by_name(crowd.codes, order),
                "allowance": crowd.allowance,
            }
            for crowd in preferences.crowds
        ]
    return entry


def read_preferences(raw: Json, order: Order) -> PodPreferences:
    """The preferences for the nodes in this order."""
    columns = {name: _column(raw[name], order) for name in _COLUMNS if name in raw}
    crowds = tuple(
        Crowd(_column(one["counts"], order), _column(one["codes"], order).astype(np.int32), one["allowance"])
        for one in raw.get("crowds", ())
    )
    spreadable = None
    if "spreadable" in raw:
        spreadable = _column(dict.fromkeys(raw["spreadable"], 1), order) > 0
    return PodPreferences(
        first=raw["first"],
        with_first_fit=raw["withFirstFit"],
        crowds=crowds,
        spreadable=spreadable,
        **columns,
    )


def _by_name(column: np.ndarray, order: Order) -> dict[str, int]:
    return {name: int(amount) for name, amount in zip(order, column.tolist(), strict=True) if amount}


def _column(by_name: Mapping[str, int], order: Order) -> Amounts:
    return np.array([by_name.get(name, 0) for name in order], dtype=np.int64)
