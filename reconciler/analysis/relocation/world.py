"""The state that a question about room starts from: store, nodes with their pods, PodGroups, budgets."""

from collections.abc import Callable, Iterable

from msgspec import Struct

from reconciler.allocation.placement.placing import Placement
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.core import Node, PodDisruptionBudget
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import Semantics
from reconciler.state.nodes.room import demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.nominations import NOBODY, Nominee
from reconciler.state.pods.groups import PodGroups
from reconciler.state.pods.placed import node_of
from reconciler.state.store import Store
from reconciler.state.trial import Trial


class World(Struct, frozen=True, eq=False):
    """Questions change store and nodes in trials only, and undo it."""

    store: Store
    nodes: Nodes
    groups: PodGroups
    budgets: tuple[PodDisruptionBudget, ...] = ()
    supposed: bool = False
    """Whether nodes without a Node object may be used"""
    own: frozenset[Nominee] = NOBODY
    """Those for whom is asked: what is nominated for others is held"""

    def trial(self) -> Trial:
        """A trial on this state."""
        return Trial(self.store, self.nodes, supposed=self.supposed, own=self.own)

    def placement(self) -> Placement:
        """Which nodes may be used."""
        return Placement(self.nodes, supposed=self.supposed)


def world_of(
    objects: Iterable[ApiObject],
    rules: Semantics,
    *,
    supposed: Iterable[Node] = (),
    may_suppose: bool = False,
    on_wanted: Callable[[str], None] | None = None,
) -> World:
    """The state of these objects. `supposed` are nodes that only slices name; `may_suppose` says whether they
    may be used; `on_wanted` is that of `Nodes`.
    """
    store, nodes, groups = Store(rules), Nodes(on_wanted=on_wanted), PodGroups()
    budgets: dict[object, PodDisruptionBudget] = {}
    for one in objects:
        change = Changed(type(one).__name__, one)
        store.apply(change)
        nodes.note(change)
        groups.note(change)
        if isinstance(one, PodDisruptionBudget):
            budgets[one.key] = one
    for node in supposed:
        store.apply(Changed("Node", node))
        nodes.suppose(node)
    for pod in store.pods.values():
        nodes.residents.nominate(pod.key, pod if not pod.spec.node_name else None)
        nodes.host(pod.key, pod, node_of(pod, store), demand(pod))
    return World(store, nodes, groups, tuple(budgets.values()), may_suppose)
