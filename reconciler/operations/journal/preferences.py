"""Converts what a pod prefers to JSON and back: the raw sums, by name of node. Zeros are left out."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from kernels.domains import Crowd
from kernels.types import Amounts
from reconciler.allocation.placement.preferences import PodPreferences
from reconciler.allocation.policies.policy import Preferences

Json = dict[str, Any]
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
