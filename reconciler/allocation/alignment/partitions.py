"""Decides claims with requests that get partitions: which partition on which node, the best first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.exclusion import rank_by_remaining, remaining_sets
from kernels.groups import distinct
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.alignment import preferences
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import read_claims
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import DeviceID, PoolID
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.errors import Malformed
from reconciler.state.caches import Cache, OfObjects
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot

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

    def levels(self, size: int, preference: preferences.PartitionPreference | None) -> list[Rows]:
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


_LAYOUTS: Cache[Fleet, OfObjects[preferences.Table, TableLayout]] = Cache(lambda _: OfObjects(KEPT))


def lay_out(table: preferences.Table, fleet: Fleet, subject: str) -> TableLayout:
    """The layout of a table over a fleet. Raises Malformed if the table names too many devices."""
    return _LAYOUTS.of(fleet).of(table, lambda: _lay_out(table, fleet, subject))


def _lay_out(table: preferences.Table, fleet: Fleet, subject: str) -> TableLayout:
    names = list(dict.fromkeys(name for partition in table.partitions for name in partition.devices))
    if len(names) > preferences.MAX_MEMBERS:
        reason = f"lists {len(names)} devices; the limit is {preferences.MAX_MEMBERS}"
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


MAX_TRIES = 256
"""Partitions tried for one decision. Each is a search of its own."""

Only = Mapping[tuple[int, str], frozenset[int]]
"""(position of the claim, request) -> rows of the fleet that the request may use"""
Allocate = Callable[[Only, Iterable[str] | None], Granted | Unsatisfied]
"""Calls the allocator with requests restricted to devices, on some nodes"""
InOrder = Callable[[Mask], Iterable[int]]
"""The places of some nodes (N,), the preferred first"""


class PartitionedRequest(Struct, frozen=True):
    """A request that gets a partition."""

    at: tuple[int, str]
    """Position of the claim, request"""
    size: int
    """Devices that it needs"""
    honored: bool
    """Whether it must have a partition"""
    layout: TableLayout
    levels: tuple[np.ndarray, ...]
    """Acceptable partitions, by score, the highest first"""
    whole: Mask
    """(L, P) partitions whose devices are all available to the request"""
    name: str
    """For messages"""

    def nodes(self, snapshot: Snapshot) -> Mask:
        """(N,) in the topology's order: nodes with an acceptable partition that is available."""
        topology = snapshot.topology
        picks = np.concatenate([*self.levels, np.zeros(0, dtype=np.intp)])
        codes = self.layout.node[self.whole[:, picks].any(axis=1)]
        if (codes < 0).any():
            return np.ones(len(topology.order), dtype=np.bool_)
        return np.isin(topology.order_codes, codes)


def partitioned_requests(
    claims: Sequence[ResourceClaim], snapshot: Snapshot
) -> tuple[PartitionedRequest, ...]:
    """The requests of claims that have a partition table. Raises Malformed."""
    found = []
    for at, claim in enumerate(claims):
        preference = preferences.partition_preference(claim)
        named = set(preference.requests) if preference is not None else set()
        for request in claim.spec.devices.requests:
            exactly = preferences.exact(request)
            known = snapshot.classes.get(exactly.device_class_name) if exactly is not None else None
            own = preference if preference is not None and (not named or request.name in named) else None
            table = preferences.table_of(known) if known is not None else None
            if exactly is None or table is None or known is None:
                if own is not None and request.name in named:
                    why = f"request {request.name} is for no class with a PartitionTable"
                    raise Malformed(f"claim {claim.key}", "dra-reconciler.io/partition", why)
                continue
            subject = f"claim {claim.key}, request {request.name}"
            layout = lay_out(table, snapshot.fleet, f"class {known.key.name}")
            free = _free(claim, request.name, snapshot)
            if free is not None:
                honored = table.policy == "Honor" or own is not None
                levels = tuple(layout.levels(exactly.wanted, own))
                here, wanted = (at, request.name), exactly.wanted
                found.append(
                    PartitionedRequest(here, wanted, honored, layout, levels, layout.whole(free), subject)
                )
    return tuple(found)


def _free(claim: ResourceClaim, request: str, snapshot: Snapshot) -> Mask | None:
    """(D,) devices available to a request; None if the claim is invalid, which the allocator reports."""
    try:
        parsed = read_claims([claim], snapshot.classes, snapshot.rules)
    except Fatal:
        return None
    (option,) = next(slot.options for slot in parsed.slots if slot.options[0].request == request)
    return available(option, snapshot).mask


def decide_partitioned(
    partitioned: Sequence[PartitionedRequest],
    nodes: Iterable[str] | None,
    snapshot: Snapshot,
    allocate: Allocate,
    prefer: InOrder | None = None,
) -> Granted | Unsatisfied:
    """The first node, in order of names, where every request has a partition or does not need one.

    On a node, partitions with the highest score come first; of equal scores, those that leave the most. A
    request that only prefers partitions gets other devices on a node only if no partition fits there.
    `prefer` is another order of nodes. If it takes too many tries, the order of names has as many of its own.
    """
    possible = _possible(partitioned, nodes, snapshot)
    found = None if prefer is None else _first(partitioned, prefer(possible), snapshot, allocate)
    if prefer is None or isinstance(found, Unsatisfied):
        found = _first(partitioned, np.flatnonzero(possible).tolist(), snapshot, allocate)
    if found is not None:
        return found
    required = [request for request in partitioned if request.honored]
    plain = allocate({}, nodes)
    if not required or isinstance(plain, Unsatisfied):
        return plain
    names = ", ".join(request.name for request in required)
    listed = all(any(map(len, request.levels)) for request in required)
    problem = (
        "no partition is free as a whole" if listed else "no partition of that size and bandwidth is listed"
    )
    claims = tuple(plan.claim for plan in plain.plans)
    return Unsatisfied(claims, Reason.PARTITION, f"{names}: enough devices are free, but {problem}")


def _first(
    partitioned: Sequence[PartitionedRequest], places: Iterable[int], snapshot: Snapshot, allocate: Allocate
) -> Granted | Unsatisfied | None:
    """The first node, of places in this order; a refusal after too many tries; None if no node fits."""
    tries, last = 0, None
    for place in places:
        node = snapshot.topology.order[place]
        for only in _options(partitioned, node, snapshot):
            tries += 1
            if tries > MAX_TRIES:
                return _gave_up(last, partitioned)
            outcome = allocate(only, (node,))
            if isinstance(outcome, Granted):
                return outcome
            last = outcome
    return None


def _gave_up(last: Unsatisfied | None, partitioned: Sequence[PartitionedRequest]) -> Unsatisfied:
    assert last is not None
    message = f"{partitioned[0].name}: gave up after {MAX_TRIES} partitions"
    return Unsatisfied(last.claims, Reason.GAVE_UP, message)


def _possible(
    partitioned: Sequence[PartitionedRequest], nodes: Iterable[str] | None, snapshot: Snapshot
) -> Mask:
    """(N,) where each request that must have a partition, or else any request, may get one."""
    topology = snapshot.topology
    required = [request.nodes(snapshot) for request in partitioned if request.honored]
    possible: Mask = (
        np.logical_and.reduce(required)
        if required
        else np.logical_or.reduce([k.nodes(snapshot) for k in partitioned])
    )
    if nodes is not None:
        chosen = set(nodes)
        possible &= np.array([name in chosen for name in topology.order], dtype=np.bool_)
    return possible


def _options(partitioned: Sequence[PartitionedRequest], node: str, snapshot: Snapshot) -> Iterator[Only]:
    """Ways to assign partitions of one node to all requests, the best first, no device twice."""

    def extend(number: int, only: dict[tuple[int, str], frozenset[int]]) -> Iterator[Only]:
        if number == len(partitioned):
            if only:
                yield dict(only)
            return
        request, any_at_all = partitioned[number], False
        taken = frozenset().union(*only.values()) if only else frozenset()
        for devices in _partitions(request, node, snapshot):
            if not devices & taken:
                any_at_all = True
                yield from extend(number + 1, {**only, request.at: devices})
        if not request.honored and (not any_at_all or number):
            yield from extend(number + 1, only)

    return extend(0, {})


def _partitions(request: PartitionedRequest, node: str, snapshot: Snapshot) -> Iterator[frozenset[int]]:
    """The available partitions of a node for a request, the best first."""
    code = snapshot.fleet.vocabulary.nodes.find(node)
    pools = np.flatnonzero((request.layout.node == code) | (request.layout.node < 0)).tolist()
    for level in request.levels:
        for pool in pools:
            picks = level[request.whole[pool, level]]
            if len(picks):
                for partition in request.layout.ranked(picks, request.whole[pool]).tolist():
                    yield request.layout.devices(pool, partition, snapshot.fleet)
