"""Which devices can be used at all: their pool is complete and valid, and a node reaches them.

Everything that counts devices asks here, so that it counts what a decision could give.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from kernels.types import Mask
from reconciler.api.objects.semantics import Semantics
from reconciler.errors import Rejected
from reconciler.state.caches import Cache, derived, share
from reconciler.state.devices.node_reach import NodeReach
from reconciler.state.devices.pool import Pool, Usable, Verdict, unclear_places
from reconciler.state.devices.reach import NodeInfo, Reach
from reconciler.state.devices.snapshot import Topology


class Readiness(Struct, frozen=True):
    """The state of all pools for some nodes."""

    ready: Mask
    """(D,) a node that sees the device's slice can use the pool"""
    usable: Mask
    """(D,) where pools are broken: such a node reaches the device"""
    problems: Mapping[int, str]
    """Position of a pool -> why not all of its devices are ready"""


def readiness(topology: Topology, nodes: Sequence[str] | None = None) -> Readiness:
    """The state of the pools for some nodes; None is all. Only broken pools are asked node by node."""
    return _OF_ALL.of(topology) if nodes is None else _readiness(topology, nodes)


def _readiness(topology: Topology, nodes: Sequence[str]) -> Readiness:
    fleet, rules = topology.fleet, topology.rules
    ready, usable, problems = *np.ones((2, fleet.size), dtype=np.bool_), dict[int, str]()
    for at, pool in enumerate(fleet.pools):
        if not pool.is_ready_everywhere(rules):
            rows = slice(int(fleet.start[at]), int(fleet.start[at + 1]))
            seeing = _seeing(pool, topology, nodes)
            problem = _ask(pool, seeing, rules, ready[rows], usable[rows])
            if problem:
                problems[at] = problem
    ready.setflags(write=False)
    usable.setflags(write=False)
    return Readiness(ready, usable, problems)


_OF_ALL: Cache[Topology, Readiness] = Cache(lambda of: _readiness(of, of.order), on_fork=share)


def _seeing(pool: Pool, topology: Topology, nodes: Sequence[str]) -> Iterator[Reach]:
    """The nodes that may see a pool. A node that slices name is asked even if there is no such node."""
    infos: Iterable[NodeInfo] = (topology.nodes[name] for name in nodes)
    if pool.nodes is not None and not (topology.rules.old and pool.counters.sets):
        named = set(nodes).intersection(pool.nodes) or pool.nodes
        infos = (topology.nodes.get(name) or NodeInfo(name, {}) for name in sorted(named))
    return (Reach(info, topology.fleet.vocabulary) for info in infos)


def _ask(pool: Pool, nodes: Iterable[Reach], rules: Semantics, ready: Mask, usable: Mask) -> str:
    """Write the masks (n,) of a pool. Returns the first problem where not all devices are ready."""
    ready[:] = usable[:] = False
    problems = dict.fromkeys(filter(None, map(unclear_places, pool.blocks)))
    unclear = bool(problems)
    verdicts: dict[tuple[int, ...], Verdict] = {}
    for node in nodes:
        try:
            relevant = tuple(pool.reached_by(node, rules)[0])
        except Rejected as rejected:  # the error of the node (NM-1)
            problems[str(rejected)] = None
            continue
        if not relevant:
            continue
        verdict = verdicts.get(relevant)
        if verdict is None:
            verdict = verdicts[relevant] = pool.verdict(relevant, rules)
            problems[verdict.problem] = None
        for at in verdict.current if verdict.usable is Usable.YES else ():
            rows = slice(pool.offsets.item(at), pool.offsets.item(at + 1))
            usable[rows] |= node.devices(pool.blocks[at])
            ready[rows] = True
    if not verdicts:  # no node sees the pool: it is judged as if one saw all of it
        verdict = pool.verdict(range(len(pool.blocks)), rules)
        problems[verdict.problem] = None
        ready[:] = verdict.usable is Usable.YES
    if unclear:
        ready[:] = usable
    return "" if ready.all() else next(filter(None, problems), "a newer generation is published")


@derived
def offered(topology: Topology) -> Mask:
    """(D,) devices that a node could use if nothing held them. Without any node, all ready ones."""
    state = readiness(topology)
    if not topology.nodes:
        return state.ready
    nodes = None
    if topology.fleet.vocabulary.selector_index.unreadable:  # nodes that need it give nothing (NM-1)
        nodes = [name for name in topology.order if _has_view(name, topology)]
    found = state.usable & NodeReach(topology, nodes).reached()
    found.setflags(write=False)
    return found


def _has_view(name: str, topology: Topology) -> bool:
    try:
        topology.view(name)
    except Rejected:
        return False
    return True
