"""The partition table of a class over the pools of a fleet, and which partitions are available."""

import numpy as np
from msgspec import Struct

from kernels.distinct import distinct
from kernels.partitions import rank_by_remaining, remaining_sets
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.alignment.preferences import MAX_MEMBERS, PartitionPreference, Table
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.errors import Malformed
from reconciler.state.caches import Cache
from reconciler.state.devices.encoding.recent import OfObjects
from reconciler.state.devices.pools.fleet import Fleet

UNDECLARED = -1
KEPT = 256
"""Layouts that are cached for one fleet."""


class TableLayout(Struct, frozen=True):
    """P partitions of M devices over the L pools of a fleet that have any of these devices."""

    members: Mask
    """(P, M) which devices each partition has"""
    sizes: Amounts
    """(P,)"""
    scores: Amounts
    """(P,)"""
    bandwidth: Amounts
    """(P,) -1 where a partition declares none"""
    rows: Rows
    """(L, M) row of each device in the fleet, -1 where the pool does not have it"""
    node: Codes
    """(L,) the fleet's code of the one node that the pool's devices belong to, else -1"""
    names: tuple[str, ...]
    """(M,)"""
    pools: tuple[PoolID, ...]
    """(L,)"""

    def whole(self, free: Mask) -> Mask:
        """(L, P) the partitions whose devices are all free. `free` is (D,)."""
        whole: Mask = self.missing(free) == 0
        return whole

    def missing(self, free: Mask) -> Codes:
        """(L, P) how many devices of each partition are not free or do not exist."""
        taken = ~free[self.rows] | (self.rows < 0)
        missing: Codes = taken.astype(np.int32) @ self.members.T.astype(np.int32)
        return missing

    def levels(self, size: int, preference: PartitionPreference | None) -> list[Rows]:
        """Acceptable partitions of a size, by score, the highest first. Restricted: the highest only."""
        of_size = np.flatnonzero(self.sizes == size)
        scores = distinct(self.scores[of_size])[::-1]
        if preference is not None and preference.allocate_policy == "Restricted":
            scores = scores[:1]
        asked = (
            preference.bandwidth.integer
            if preference is not None and preference.bandwidth is not None
            else UNDECLARED
        )
        wide = of_size[self.bandwidth[of_size] >= asked]
        return [wide[self.scores[wide] == score] for score in scores]

    def ranked(self, picks: Rows, whole: Mask) -> Rows:
        """`picks`, those that leave the most first; equal ones as listed.

        The most: the largest remaining partition, its bandwidth, then how many of each size remain.
        `whole` (P,) are the partitions of one pool with all devices free.
        """
        left = remaining_sets(self.members, whole, picks)
        ranks = rank_by_remaining(left, self.sizes, np.maximum(self.bandwidth, 0))
        return picks[np.argsort(ranks, kind="stable")]

    def devices(self, pool: int, partition: int, fleet: Fleet) -> frozenset[int]:
        """The rows of a partition's devices in one of the L pools, in all overlapping generations."""
        names = [self.names[at] for at in np.flatnonzero(self.members[partition]).tolist()]
        driver, of_pool = self.pools[pool]
        return frozenset(row for name in names for row in fleet.rows_of(DeviceID(driver, of_pool, name)))


_LAYOUTS: Cache[Fleet, OfObjects[Table, TableLayout]] = Cache(lambda _: OfObjects(KEPT))


def lay_out(table: Table, fleet: Fleet, subject: str) -> TableLayout:
    """The layout of a table over a fleet. Raises Malformed if the table names too many devices."""
    of_fleet = _LAYOUTS.of(fleet)
    return of_fleet.get(table) or of_fleet.put(table, _lay_out(table, fleet, subject))


def _lay_out(table: Table, fleet: Fleet, subject: str) -> TableLayout:
    names = list(dict.fromkeys(name for partition in table.partitions for name in partition.devices))
    if len(names) > MAX_MEMBERS:
        reason = f"lists {len(names)} devices; the limit is {MAX_MEMBERS}"
        raise Malformed(subject, "partitions", reason)
    place = {name: at for at, name in enumerate(names)}
    members = np.zeros((len(table.partitions), len(names)), dtype=np.bool_)
    bandwidth = np.full(len(table.partitions), UNDECLARED, dtype=np.int64)
    for number, partition in enumerate(table.partitions):
        members[number, [place[name] for name in partition.devices]] = True
        if partition.bandwidth is not None:
            bandwidth[number] = partition.bandwidth.integer
    pools, rows = _rows(names, fleet)
    return TableLayout(
        members=members,
        sizes=members.sum(axis=1, dtype=np.int64),
        scores=np.array([partition.score for partition in table.partitions], dtype=np.int64),
        bandwidth=bandwidth,
        rows=rows,
        node=_nodes(rows, fleet),
        names=tuple(names),
        pools=pools,
    )


def _rows(names: list[str], fleet: Fleet) -> tuple[tuple[PoolID, ...], Rows]:
    """(L,) and (L, M). A device of several generations has the row of the last one."""
    pools, found = [], []
    for pool in fleet.pools:
        of_pool = [fleet.rows_of(DeviceID(*pool.id, name)) for name in names]
        if any(of_pool):
            pools.append(pool.id)
            found.append([rows[-1] if rows else -1 for rows in of_pool])
    return tuple(pools), np.array(found, dtype=np.intp).reshape(len(found), len(names))


def _nodes(rows: Rows, fleet: Fleet) -> Codes:
    codes = np.where(rows >= 0, fleet.codes["node"][rows], -1)
    known = codes.max(axis=1, initial=-1)
    same = ((codes == known[:, None]) | (rows < 0)).all(axis=1)
    alone: Codes = np.where(same, known, -1).astype(np.int32)
    return alone
