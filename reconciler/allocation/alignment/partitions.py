"""Claims decided with some requests kept to partitions: which partition on which node, the best first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kernels.types import Mask
from reconciler.allocation.alignment.preferences import exact, partition_preference, table_of
from reconciler.allocation.alignment.tables import Laid, lay
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import read_claims
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot.snapshot import Snapshot

MAX_TRIES = 256
"""Partitions tried for one question; each is a search of its own."""

Only = Mapping[tuple[int, str], frozenset[int]]
"""(position of the claim, request) -> rows of the fleet that it is kept to"""
Ask = Callable[[Only, Iterable[str] | None], Granted | Unsatisfied]
"""Asks the allocator, with requests kept to devices, on some nodes"""


@dataclass(frozen=True, slots=True)
class Kept:
    """A request that is to get a partition."""

    at: tuple[int, str]
    """Position of the claim, request"""
    size: int
    """Devices that it asks for"""
    honored: bool
    """Nothing but a partition will do"""
    laid: Laid
    levels: tuple[np.ndarray, ...]
    """Partitions that will do, by score, the highest first"""
    whole: Mask
    """(L, P) partitions of which the request could get every device"""
    name: str
    """For messages"""

    def nodes(self, world: Snapshot) -> Mask:
        """(nodes,) in the topology's order: where a partition that will do is whole."""
        topology = world.topology
        picks = np.concatenate([*self.levels, np.zeros(0, dtype=np.intp)])
        codes = self.laid.node[self.whole[:, picks].any(axis=1)]
        if (codes < 0).any():
            return np.ones(len(topology.order), dtype=np.bool_)
        return np.isin(topology.order_codes, codes)


def kept_requests(claims: Sequence[ResourceClaim], world: Snapshot) -> tuple[Kept, ...]:
    """The requests of claims that partition tables concern. Raises Malformed."""
    found = []
    for at, claim in enumerate(claims):
        preference = partition_preference(claim)
        named = set(preference.requests) if preference is not None else set()
        for request in claim.spec.devices.requests:
            asked = exact(request)
            known = world.classes.get(asked.device_class_name) if asked is not None else None
            meant = preference if preference is not None and (not named or request.name in named) else None
            table = table_of(known) if known is not None else None
            if asked is None or table is None or known is None:
                if meant is not None and request.name in named:
                    why = f"request {request.name} is for no class with a PartitionTable"
                    raise Malformed(f"claim {claim.key}", "dra-reconciler.io/partition", why)
                continue
            subject = f"claim {claim.key}, request {request.name}"
            laid = lay(table, world.fleet, f"class {known.key.name}")
            free = _free(claim, request.name, world)
            if free is not None:
                honored = table.policy == "Honor" or meant is not None
                levels = tuple(laid.levels(asked.wanted, meant))
                here, wanted = (at, request.name), asked.wanted
                found.append(Kept(here, wanted, honored, laid, levels, laid.whole(free), subject))
    return tuple(found)


def _free(claim: ResourceClaim, request: str, world: Snapshot) -> Mask | None:
    """(D,) what a request could get; None where the claim cannot be read, which the allocator will say."""
    try:
        asked = read_claims([claim], world.classes, world.rules)
    except Fatal:
        return None
    (ask,) = next(slot.options for slot in asked.slots if slot.options[0].request == request)
    return available(ask, world).mask


def decide_kept(
    kept: Sequence[Kept], nodes: Iterable[str] | None, world: Snapshot, ask: Ask
) -> Granted | Unsatisfied:
    """The first node, in order of names, where every request has a partition, or may go without one.

    On a node the partitions with the highest score come first; of those equal in score the ones that leave
    most. A request that merely prefers partitions goes without on a node only when none does there.
    """
    hard = [one for one in kept if one.honored]
    tries, last = 0, None
    for node in _order(kept, nodes, world):
        for only in _options(kept, node, world):
            tries += 1
            if tries > MAX_TRIES:
                return _gave_up(last, kept)
            outcome = ask(only, (node,))
            if isinstance(outcome, Granted):
                return outcome
            last = outcome
    if not hard:
        return ask({}, nodes)
    plain = ask({}, nodes)
    if isinstance(plain, Unsatisfied):
        return plain
    names = ", ".join(one.name for one in hard)
    listed = all(any(map(len, one.levels)) for one in hard)
    problem = "no partition is whole" if listed else "no partition of that size and bandwidth is listed"
    claims = tuple(plan.claim for plan in plain.plans)
    return Unsatisfied(claims, Reason.PARTITION, f"{names}: there are devices enough, but {problem}")


def _gave_up(last: Unsatisfied | None, kept: Sequence[Kept]) -> Unsatisfied:
    assert last is not None
    message = f"{kept[0].name}: gave up after {MAX_TRIES} partitions"
    return Unsatisfied(last.claims, Reason.GAVE_UP, message)


def _order(kept: Sequence[Kept], nodes: Iterable[str] | None, world: Snapshot) -> Iterator[str]:
    """The nodes to look at, found for all at once: all that must have a partition could, or one that may."""
    topology = world.topology
    hard = [one.nodes(world) for one in kept if one.honored]
    possible = np.logical_and.reduce(hard) if hard else np.logical_or.reduce([k.nodes(world) for k in kept])
    if nodes is not None:
        chosen = set(nodes)
        possible &= np.array([name in chosen for name in topology.order], dtype=np.bool_)
    return (topology.order[at] for at in np.flatnonzero(possible).tolist())


def _options(kept: Sequence[Kept], node: str, world: Snapshot) -> Iterator[Only]:
    """Ways to give partitions of one node to all requests, the best first, no device twice."""

    def extend(number: int, only: dict[tuple[int, str], frozenset[int]]) -> Iterator[Only]:
        if number == len(kept):
            if only:
                yield dict(only)
            return
        one, any_at_all = kept[number], False
        taken = frozenset().union(*only.values()) if only else frozenset()
        for devices in _partitions(one, node, world):
            if not devices & taken:
                any_at_all = True
                yield from extend(number + 1, {**only, one.at: devices})
        if not one.honored and (not any_at_all or number):
            yield from extend(number + 1, only)

    return extend(0, {})


def _partitions(one: Kept, node: str, world: Snapshot) -> Iterator[frozenset[int]]:
    """The partitions of a request on a node that are whole, the best first."""
    code = world.fleet.words.nodes.find(node)
    pools = np.flatnonzero((one.laid.node == code) | (one.laid.node < 0)).tolist()
    for level in one.levels:
        for pool in pools:
            picks = level[one.whole[pool, level]]
            if len(picks):
                for partition in one.laid.ranked(picks, one.whole[pool]).tolist():
                    yield one.laid.devices(pool, partition, world.fleet)
