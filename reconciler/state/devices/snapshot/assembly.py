"""Joins all pools to a fleet apart from the store, so that a thread can do it while the store changes."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.inventory import Joinable
from reconciler.state.devices.pools.assembly import Layout, assemble, lay_out
from reconciler.state.devices.pools.reach import NodeInfo
from reconciler.state.devices.snapshot.snapshot import Topology


class Assembled(NamedTuple):
    """The fleet of one moment, with its nodes."""

    topology: Topology
    layout: Layout


class Assembly(Struct, frozen=True, eq=False):
    """Everything that a fleet and its topology are made of at one moment."""

    joinable: Joinable
    previous: Topology | None
    """That of the previous fleet"""
    nodes: Mapping[str, NodeInfo]
    rules: Semantics

    def run(self) -> Assembled:
        """The fleet, without taint rules."""
        pools, fresh, previous, vocabulary, matrix = self.joinable
        layout = lay_out(pools, fresh, previous)
        fleet = assemble(layout, (), vocabulary, matrix)
        topology = Topology.of(
            fleet, self.nodes, self.rules, previous=self.previous, replaced=layout.replaced
        )
        return Assembled(topology, layout)
