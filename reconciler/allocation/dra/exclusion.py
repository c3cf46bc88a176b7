"""Devices that exclude one another, during the search on one node.

The snapshot accounts for held devices. This module adds the devices chosen so far.
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.distinct import distinct
from kernels.exclusion import compatible_with, shares_a_name
from kernels.types import Bits, Codes, Mask
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot.snapshot import Snapshot, View


class ExclusionColumns(Struct, frozen=True):
    """Which of the n devices of a view exclude others, in its s scopes."""

    scopes: Codes
    """(n, K) position among the s scopes, -1 for none"""
    names: Bits
    asks: Bits
    meets: Bits
    bound: Mask
    """(n,) a chosen device may exclude it"""
    used: np.ndarray
    """(s,) the fleet's numbers of the scopes"""


class ExclusionState(Struct, frozen=True):
    """Which devices the held and chosen devices exclude. Immutable."""

    columns: ExclusionColumns
    open: Mask
    """(n,) none of them excludes the device"""
    common: Bits
    """(s, W) names that all of them share, by scope"""

    def after(self, at: int) -> "ExclusionState":
        """The state after the device at position `at` is chosen."""
        columns = self.columns
        if not columns.bound[at]:
            return self
        common = self.common.copy()
        for k, scope in enumerate(columns.scopes[at].tolist()):
            if scope >= 0:
                common[scope] &= columns.names[at, k]
        fine = shares_a_name(common, columns.scopes, columns.names)
        fine &= compatible_with(at, columns.scopes, columns.asks, columns.meets)
        return replace(self, open=self.open & fine, common=common)


def exclusion_columns(view: View) -> ExclusionColumns | None:
    """The columns of a view; None if none of its devices can be excluded."""
    return _COLUMNS.of(view) if view.fleet.exclusion is not None else None


def _columns(view: View) -> ExclusionColumns | None:
    exclusion = view.fleet.exclusion
    assert exclusion is not None
    bound = view.of(exclusion.bound)
    if not bound.any():
        return None
    scopes = view.of(exclusion.scopes)
    used = distinct(scopes[scopes >= 0])
    return ExclusionColumns(
        scopes=np.where(scopes >= 0, np.searchsorted(used, scopes), -1).astype(np.int32),
        names=view.of(exclusion.names),
        asks=view.of(exclusion.asks),
        meets=view.of(exclusion.meets),
        bound=bound,
        used=used.astype(np.intp),
    )


_COLUMNS = Cache(_columns)


def begin_exclusion(
    columns: ExclusionColumns | None, view: View, snapshot: Snapshot
) -> ExclusionState | None:
    """The state before any device is chosen. None if no device can be excluded."""
    occupancy = snapshot.occupancy
    if columns is None or occupancy.open is None or occupancy.common is None:
        return None
    return ExclusionState(columns, view.of(occupancy.open), occupancy.common[columns.used])


def equality_columns(columns: ExclusionColumns) -> np.ndarray:
    """(columns, n) int32. Devices with equal columns exclude, and are excluded by, the same devices."""
    words = [
        np.ascontiguousarray(bits).reshape(len(bits), -1).view(np.int32)
        for bits in (columns.names, columns.asks, columns.meets)
    ]
    return np.concatenate([columns.scopes, *words], axis=1).T
