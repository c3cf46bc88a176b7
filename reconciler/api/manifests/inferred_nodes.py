"""The nodes of manifests: described by Node objects, named in slices, or assumed. All objects with them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.api.manifests.bundle import Bundle, storage_of, with_own_uid
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Namespace, Node, Pod
from reconciler.api.objects.gangs import GROUPS
from reconciler.api.objects.meta import ApiObject, ObjectMeta
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from reconciler.api.objects.slices import DeviceTaintRule, ResourceSlice
from reconciler.errors import Rejected

HOSTNAME = "kubernetes.io/hostname"
ASSUMED = "(assumed)"
"""The name of the assumed node. No real node can have it."""


class InferredNodes(Struct, frozen=True):
    """All nodes for a decision, and which of them are not in the input."""

    nodes: tuple[Node, ...]
    named: tuple[str, ...]
    """Nodes without a Node object that a slice, a device or a Device object names"""
    assumed: Node | None
    """The assumed node; it is also in `nodes`"""
    unmatched: tuple[NodeSelector, ...]
    """Selectors of slices and devices that match no node"""
    gone: tuple[str, ...] = ()
    """Nodes that something names, but none of the Node objects is"""

    @property
    def described(self) -> tuple[Node, ...]:
        """The nodes that have a Node object."""
        names = {*self.named, ASSUMED}
        return tuple(node for node in self.nodes if node.key.name not in names)

    @property
    def supposed(self) -> tuple[Node, ...]:
        """The nodes that have no Node object."""
        names = {*self.named, ASSUMED}
        return tuple(node for node in self.nodes if node.key.name in names)


def infer_nodes(
    described: Sequence[Node],
    slices: Iterable[ResourceSlice],
    machines: Iterable[str] = (),
    *,
    are_new: bool = False,
) -> InferredNodes:
    """The described nodes, and one for selectors that match none of them; without any, one for each name.

    As for kube-scheduler, what names another node than the described ones is left from a node that is gone,
    unless the slices `are_new`. `machines` are nodes that objects of plugins name.
    """
    slices = tuple(slices)
    known = {node.key.name for node in described}
    others = tuple(dict.fromkeys(name for name in (*_names(slices), *machines) if name not in known))
    named, gone = (others, ()) if are_new or not described else ((), others)
    nodes = (*described, *(_node(name, {}) for name in named))
    missed = [selector for selector in dict.fromkeys(_selectors(slices)) if not _reaches(selector, nodes)]
    if not missed and nodes:
        return InferredNodes(nodes, named, None, (), gone)
    assumed, unmatched = _assume(missed)
    if nodes and len(unmatched) == len(missed):
        return InferredNodes(nodes, named, None, tuple(unmatched), gone)
    return InferredNodes((*nodes, assumed), named, assumed, tuple(unmatched), gone)


def _names(slices: Iterable[ResourceSlice]) -> Iterator[str]:
    for source in slices:
        if source.spec.node_name:
            yield source.spec.node_name
        elif source.spec.per_device_node_selection:
            yield from (device.node_name for device in source.spec.devices if device.node_name)


def _selectors(slices: Iterable[ResourceSlice]) -> Iterator[NodeSelector]:
    for source in slices:
        if source.spec.node_selector is not None:
            yield source.spec.node_selector
        elif source.spec.per_device_node_selection:
            for device in source.spec.devices:
                if device.node_selector is not None:
                    yield device.node_selector


def _node(name: str, labels: Mapping[str, str]) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={HOSTNAME: name, **labels}))


def _reaches(selector: NodeSelector, nodes: Iterable[Node]) -> bool:
    """Whether a selector matches any node. True for an invalid one, which the decision reports."""
    try:
        selector.check()
        return any(selector.matches(node.key.name, node.metadata.labels) for node in nodes)
    except Rejected:
        return True


def _assume(selectors: Iterable[NodeSelector]) -> tuple[Node, list[NodeSelector]]:
    """A node that matches as many selectors as possible, in their order; and those it does not match."""
    node = _node(ASSUMED, {})
    met: list[NodeSelector] = []
    unmet: list[NodeSelector] = []
    for selector in selectors:
        for term in selector.node_selector_terms:
            wider = _with_labels_for(term, node)
            if wider is not None and all(_reaches(one, [wider]) for one in [*met, selector]):
                node = wider
                met.append(selector)
                break
        else:
            unmet.append(selector)
    return node, unmet


def _with_labels_for(term: NodeSelectorTerm, node: Node) -> Node | None:
    """The node with the labels that a term requires added. None if its own labels contradict the term."""
    labels = dict(node.metadata.labels)
    for key in dict.fromkeys(requirement.key for requirement in term.match_expressions):
        on_key = [requirement for requirement in term.match_expressions if requirement.key == key]
        options = [labels[key]] if key in labels else [None, *_values(on_key)]
        for value in options:
            trial = {key: value} if value is not None else {}
            if all(requirement.holds(trial) for requirement in on_key):
                labels.update(trial)
                break
        else:
            return None
    return _node(ASSUMED, labels)


def _values(requirements: Iterable[NodeSelectorRequirement]) -> Iterator[str]:
    """Values that may meet the requirements on one key, the most likely first."""
    for requirement in requirements:
        match requirement.operator:
            case "In":
                yield from requirement.values
            case "Exists":
                yield "true"
            case "Gt":
                yield str(int(requirement.values[0]) + 1)
            case "Lt":
                yield str(int(requirement.values[0]) - 1)


def supply_of(bundle: Bundle) -> list[ApiObject]:
    """The objects of manifests but for nodes, claims and pods, in the order in which a store needs them."""
    kinds = (*GROUPS, Namespace, DeviceClass, DeviceTaintRule, ResourceSlice)
    return [*storage_of(bundle), *(one for kind in kinds for one in bundle.of(kind))]


def bundle_objects(bundle: Bundle) -> Iterator[ApiObject]:
    """All of them, with the nodes that the slices imply and a unique uid for each claim."""
    yield from supply_of(bundle)
    yield from infer_nodes(bundle.of(Node), bundle.of(ResourceSlice)).nodes
    yield from map(with_own_uid, bundle.of(ResourceClaim))
    yield from bundle.of(Pod)
