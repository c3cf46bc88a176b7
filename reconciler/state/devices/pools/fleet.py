"""Every device of every pool as columns, in the order in which first fit tries them. Frozen.

Rows are sorted by driver, pool name, slice name and position in the slice (POOL-9, POOL-14); all
generations are present, since each node judges for itself which one counts (POOL-4).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kernels.index import Inverse
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects.meta import DeviceID
from reconciler.cel.rows import Rows as CelRows
from reconciler.state.caches import Caches
from reconciler.state.devices.encoding.tables import Table
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.exclusion.scopes import Exclusion
from reconciler.state.devices.pools.counters import CounterSetColumns
from reconciler.state.devices.pools.pool import Pool


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Fleet:
    """Columns of D devices; all arrays are read-only. Two fleets are equal only if they are the same."""

    words: Vocabulary
    pools: tuple[Pool, ...]
    start: Rows
    """(pools + 1,) first row of each pool"""
    first_set: Rows
    """(pools + 1,) first counter set of each pool"""
    pool_of: Codes
    """(D,) position in `pools`"""
    devices: Table
    """What the columns below are cut from"""
    codes: Mapping[str, Codes]
    """Column of block.COLUMNS -> (D,); `taints` includes what rules add"""
    cel: CelRows
    anywhere: Mask
    """(D,) reachable from all nodes"""
    shared: Mask
    """(D,) allows multiple allocations"""
    binds: Mask
    """(D,) ties a claim to the node"""
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
    """(S,) the first set of the same pool and generation; they stand and fall together (CTR-6)"""
    set_columns: tuple[CounterSetColumns, ...]
    """what the S rows of `totals` mean"""
    exclusion: Exclusion | None
    """Beside which others devices can be held; None if no device says anything"""
    index: Mapping[tuple[str, str], int]
    """(driver, pool) -> position in `pools`"""
    caches: Caches = field(default_factory=Caches, repr=False)
    """What was derived from the devices, whatever is held"""

    @property
    def size(self) -> int:
        return len(self.pool_of)

    def fork(self) -> "Fleet":
        """The same columns with caches of their own."""
        return replace(self, caches=self.caches.fork())

    @property
    def values_in_use(self) -> int:
        """How many values of the vocabulary its columns hold, absence counted as one."""
        return sum(len(np.unique(column)) for column in self.devices.codes)

    def rows_of(self, device: DeviceID) -> tuple[int, ...]:
        """Rows of the device of that name; none if it is not published, several if generations overlap."""
        at = self.index.get(device[:2])
        if at is None:
            return ()
        first, rows = int(self.start[at]), self.pools[at].rows_of(device.device)
        return (first + rows[0],) if len(rows) == 1 else tuple([first + row for row in rows])

    def id_of(self, row: int) -> DeviceID:
        """The names of the device in a row."""
        at = int(self.pool_of[row])
        pool = self.pools[at]
        return DeviceID(pool.id.driver, pool.id.pool, pool.names[row - int(self.start[at])])
