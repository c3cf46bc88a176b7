"""Joins all pools to a fleet apart from the store, so that a thread can do it while the store changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kernels.types import Amounts
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.pools.assembly import Layout, assemble, lay_out
from reconciler.state.devices.pools.pool import Pool
from reconciler.state.devices.pools.reach import NodeInfo
from reconciler.state.devices.snapshot.snapshot import Topology


class Assembled(NamedTuple):
    """The fleet of one moment, with its nodes."""

    topology: Topology
    layout: Layout


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """Everything that a fleet is made of at one moment. Nothing of it changes, but the vocabulary grows."""

    pools: Mapping[PoolID, Pool]
    fresh: frozenset[PoolID]
    """Pools that were built or removed since the previous fleet"""
    previous: Topology | None
    vocabulary: Vocabulary
    matrix: Amounts
    """(P, C) all draws"""
    nodes: Mapping[str, NodeInfo]
    rules: Semantics

    def run(self) -> Assembled:
        """The fleet, without taint rules."""
        layout = lay_out(self.pools, self.fresh, self.previous.fleet if self.previous is not None else None)
        fleet = assemble(layout, (), self.vocabulary, self.matrix)
        return Assembled(
            Topology.of(fleet, self.nodes, self.rules, previous=self.previous, replaced=layout.replaced),
            layout,
        )
