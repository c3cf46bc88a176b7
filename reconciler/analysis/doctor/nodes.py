"""Checks node names and node selectors of slices and devices. Source: SL-2, DEV-7, RES-13, NM-1, NM-2."""

from collections.abc import Iterator

from reconciler.analysis.doctor import findings
from reconciler.analysis.doctor.findings import Finding
from reconciler.analysis.doctor.input import DoctorInput
from reconciler.api.manifests.bundle import Entry
from reconciler.api.objects.core import Node
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from reconciler.api.objects.slices import ResourceSlice
from reconciler.errors import Rejected

_OPERATORS = {name.lower(): name for name in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")}

Place = tuple[Entry, str, str | None, NodeSelector | None]
"""Slice, path before `nodeName` or `nodeSelector`, and these two"""


def no_selection(data: DoctorInput) -> Iterator[Finding]:
    """Slices without a node selection; devices without one in a slice with perDeviceNodeSelection."""
    for entry, source in data.of(ResourceSlice):
        spec = source.spec
        placed = spec.node_name or spec.all_nodes or spec.per_device_node_selection
        if not placed and spec.node_selector is None:
            hint = "" if spec.devices or not spec.shared_counters else "; slices of counters need one too"
            yield findings.NO_NODE_SELECTION.finding(entry, "spec", f"has no node selection{hint}")
        for index, device in enumerate(spec.devices if spec.per_device_node_selection else ()):
            if not (device.node_name or device.all_nodes) and device.node_selector is None:
                what = f"device {device.name} has no node selection; perDeviceNodeSelection requires one"
                yield findings.NO_NODE_SELECTION.finding(entry, f"spec.devices[{index}]", what)


def bad_selector(data: DoctorInput) -> Iterator[Finding]:
    """Invalid requirements of node selectors."""
    for entry, path, _, selector in _places(data):
        for term_at, term in enumerate(selector.node_selector_terms if selector else ()):
            where = f"{path}nodeSelector.nodeSelectorTerms[{term_at}]"
            for number, one in enumerate(term.match_expressions):
                alone = NodeSelectorTerm(match_expressions=(one,))
                yield from _unreadable(entry, f"{where}.matchExpressions[{number}]", one, alone)
            for number, one in enumerate(term.match_fields):
                alone = NodeSelectorTerm(match_fields=(one,))
                yield from _unreadable(entry, f"{where}.matchFields[{number}]", one, alone)


def _unreadable(
    entry: Entry, path: str, one: NodeSelectorRequirement, alone: NodeSelectorTerm
) -> Iterator[Finding]:
    try:
        NodeSelector(node_selector_terms=(alone,)).check()
    except Rejected as exc:
        meant = _OPERATORS.get(one.operator.lower())
        wrong = meant != one.operator
        hint = f"; did you mean {meant}?" if wrong and meant else ""
        yield findings.BAD_NODE_SELECTOR.finding(entry, f"{path}.operator" if wrong else path, f"{exc}{hint}")


def several_terms(data: DoctorInput) -> Iterator[Finding]:
    """Selectors that a claim cannot carry (SL-2, RES-13). A claim carries the node for `bindsToNode`."""
    for entry, source in data.of(ResourceSlice):
        spec = source.spec
        selectors = [("spec", spec.node_selector)]
        if spec.per_device_node_selection:
            selectors += [
                (f"spec.devices[{index}]", device.node_selector)
                for index, device in enumerate(spec.devices)
                if not device.binds_to_node
            ]
        for path, selector in selectors:
            count = len(selector.node_selector_terms) if selector is not None else 0
            if count > 1:
                what = f"has {count} terms; a claim can carry 1"
                yield findings.SEVERAL_TERMS.finding(entry, f"{path}.nodeSelector.nodeSelectorTerms", what)


def matches_no_node(data: DoctorInput) -> Iterator[Finding]:
    """Node names and selectors that match no Node. Only if the input has Nodes."""
    labels = {node.key.name: node.metadata.labels for _, node in data.of(Node)}
    if not labels:
        return
    for entry, path, name, selector in _places(data):
        if name and name not in labels:
            yield findings.MATCHES_NO_NODE.finding(entry, f"{path}nodeName", f"node {name} does not exist")
        elif selector is not None and not _matches_any(selector, labels):
            what = f"matches 0 of {len(labels)} nodes"
            yield findings.MATCHES_NO_NODE.finding(entry, f"{path}nodeSelector", what)


def _matches_any(selector: NodeSelector, labels: dict[str, dict[str, str]]) -> bool:
    try:
        return any(selector.matches(name, of_node) for name, of_node in labels.items())
    except Rejected:  # another check reports it
        return True


def _places(data: DoctorInput) -> Iterator[Place]:
    for entry, source in data.of(ResourceSlice):
        spec = source.spec
        yield entry, "spec.", spec.node_name, spec.node_selector
        for index, device in enumerate(spec.devices if spec.per_device_node_selection else ()):
            yield entry, f"spec.devices[{index}].", device.node_name, device.node_selector
