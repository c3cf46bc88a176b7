"""Decides claims with requests that get partitions: which partition on which node, the best first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Mask
from reconciler.allocation.alignment.preferences import exact, partition_preference, table_of
from reconciler.allocation.alignment.tables import TableLayout, lay_out
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import read_claims
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot.snapshot import Snapshot

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
        preference = partition_preference(claim)
        named = set(preference.requests) if preference is not None else set()
        for request in claim.spec.devices.requests:
            exactly = exact(request)
            known = snapshot.classes.get(exactly.device_class_name) if exactly is not None else None
            own = preference if preference is not None and (not named or request.name in named) else None
            table = table_of(known) if known is not None else None
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
    if not required:
        return allocate({}, nodes)
    plain = allocate({}, nodes)
    if isinstance(plain, Unsatisfied):
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
