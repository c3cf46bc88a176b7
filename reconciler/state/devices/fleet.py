"""All devices of all pools as columns, in first-fit order. Frozen.

Rows are sorted by driver, pool name, slice name and position in the slice (POOL-9, POOL-14). All generations
are present, since the current generation may differ between nodes (POOL-4).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict

from kernels.groups import Inverse, distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.cel.rows import Rows as CelRows
from reconciler.state.caches import Caches
from reconciler.state.devices.counters import CounterSetColumns
from reconciler.state.devices.encoding.block import COLUMNS, FLAGS
from reconciler.state.devices.encoding.tables import DeviceColumns
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.exclusion import Exclusion
from reconciler.state.devices.pool import Pool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Fleet:
    """Columns of D devices. All arrays are read-only. Fleets compare by identity."""

    vocabulary: Vocabulary
    pools: tuple[Pool, ...]
    start: Rows
    """(pools + 1,) first row of each pool"""
    first_set: Rows
    """(pools + 1,) first counter set of each pool"""
    pool_of: Codes
    """(D,) position in `pools`"""
    devices: DeviceColumns
    """The columns below are some of these; fleets share those that are equal"""
    codes: Mapping[str, Codes]
    """Column of block.COLUMNS -> (D,); `taints` includes what rules add"""
    cel: CelRows
    anywhere: Mask
    """(D,) reachable from all nodes"""
    shared: Mask
    """(D,) allows multiple allocations"""
    binds: Mask
    """(D,) binds a claim to the node"""
    sets: Codes
    """(D, K) row of `totals`, -1 for none"""
    draws: Codes
    """(D, K) row of `table`, -1 for none"""
    table: Amounts
    """(P, C) distinct draws, in the unit of each set's counter"""
    totals: Amounts
    """(S, C) what each counter set publishes"""
    by_set: Inverse
    """counter set -> devices that draw from it"""
    set_group: Codes
    """(S,) the first set of the same pool and generation; one over-committed set disables all (CTR-6)"""
    set_columns: tuple[CounterSetColumns, ...]
    """Names and units of the S rows of `totals`"""
    exclusion: Exclusion | None
    """Which devices can be held together; None if no device restricts that"""
    index: Mapping[tuple[str, str], int]
    """(driver, pool) -> position in `pools`"""
    caches: Caches = field(default_factory=Caches, repr=False)
    """Values derived from the devices; they do not depend on the holds"""

    @property
    def size(self) -> int:
        return len(self.pool_of)

    def fork(self) -> "Fleet":
        """The same columns with separate caches."""
        return replace(self, caches=self.caches.fork())

    @property
    def values_in_use(self) -> int:
        """Number of vocabulary values in the columns; a missing value counts as one."""
        return sum(len(distinct(column)) for column in self.devices.codes)

    def pool(self, pool: PoolID) -> Pool | None:
        """A pool by name; None if it has no slices."""
        at = self.index.get(pool)
        return self.pools[at] if at is not None else None

    def rows_of(self, device: DeviceID) -> tuple[int, ...]:
        """The rows of a device: none if it is not published, several if generations overlap."""
        at = self.index.get(device[:2])
        if at is None:
            return ()
        first, rows = self.start.item(at), self.pools[at].positions.get(device[2], ())
        return (first + rows[0],) if len(rows) == 1 else tuple([first + row for row in rows])

    def id_of(self, row: int) -> DeviceID:
        """The names of the device in a row."""
        at = int(self.pool_of[row])
        pool = self.pools[at]
        return DeviceID(pool.id.driver, pool.id.pool, pool.names[row - int(self.start[at])])


class Flags(TypedDict):
    """The flags that decisions read, as fields of `Fleet`."""

    anywhere: Mask
    shared: Mask
    binds: Mask


def coded(devices: DeviceColumns) -> dict[str, Codes]:
    """`Fleet.codes`."""
    return dict(zip(COLUMNS, devices.codes, strict=False))


def flagged(devices: DeviceColumns) -> Flags:
    """The flags of a fleet."""
    named = dict(zip(FLAGS, devices.flags, strict=True))
    return Flags(anywhere=named["anywhere"], shared=named["shared"], binds=named["binds"])
