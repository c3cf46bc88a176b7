"""Nodes with pods, and what placement says about another pod."""

from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Pod
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.nodes.room import demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.store import Store
from tests.tools.small_fleet import Object


class PlacedPods:
    """Nodes and pods, and what placement says."""

    def __init__(self, *objects: Object, wanted: list[str] | None = None, volumes: bool = True) -> None:
        self.store = Store(Semantics())
        self.nodes = Nodes(on_wanted=None if wanted is None else wanted.append, volumes=volumes)
        self.placement = Placement(self.nodes, supposed=False)
        for one in objects:
            self.put(one)

    def put(self, raw: Object) -> None:
        thing = read(raw)
        change = Changed(raw["kind"], thing)
        self.store.apply(change)
        self.nodes.note(change)
        if isinstance(thing, Pod):
            self.nodes.residents.nominate(thing.key, None if thing.spec.node_name else thing)
            self.nodes.host(thing.key, thing, thing.spec.node_name, demand(thing))

    def left_out(self, raw: Object) -> str:
        return self.placement.left_out(as_pod(raw), (), self.store.snapshot())

    def against(self, raw: Object, node: str) -> list[str]:
        return self.placement.against(as_pod(raw), node, self.store.snapshot())

    def nodes_for(self, raw: Object) -> list[str]:
        found = self.placement.for_pod(as_pod(raw), (), self.store.snapshot()).nodes
        return [node.key.name for node in self.nodes.known] if found is None else list(found)


def as_pod(raw: Object) -> Pod:
    found = read(raw)
    assert isinstance(found, Pod)
    return found
