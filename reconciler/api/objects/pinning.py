"""Pins a gated pod to one node, and reads the node that a pod is pinned to.

While a pod is gated, the API only allows adding requirements to each node selector term: no term may be
added or removed, and a term that matches no node must stay empty. So the pin goes into every other term.
"""

from typing import Any

from reconciler.api.objects.core import Affinity, NodeAffinity, Pod
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorTerm

FIELD = "metadata.name"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Operation = dict[str, Any]
"""One step of a JSON patch."""


def pin(pod: Pod, node: str) -> list[Operation]:
    """The steps of a JSON patch that restricts a pod to one node. The pod must be able to run there."""
    here: Operation = {"key": FIELD, "operator": "In", "values": [node]}
    path, value = "/spec/affinity", {"nodeAffinity": {_REQUIRED: _only(here)}}
    if pod.spec.affinity is not None:
        path, value = f"{path}/nodeAffinity", {_REQUIRED: _only(here)}
        if pod.spec.affinity.node_affinity is not None:
            path, value = f"{path}/{_REQUIRED}", _only(here)
    selector = required(pod)
    if selector is None:
        return [{"op": "add", "path": path, "value": value}]
    steps: list[Operation] = []
    for number, term in enumerate(selector.node_selector_terms):
        if term.match_fields:
            steps.append(
                {"op": "add", "path": f"{path}/nodeSelectorTerms/{number}/matchFields/-", "value": here}
            )
        elif term.match_expressions:
            steps.append(
                {"op": "add", "path": f"{path}/nodeSelectorTerms/{number}/matchFields", "value": [here]}
            )
    return steps


def pinned(pod: Pod) -> str:
    """The only node on which a pod can run, by its nodeName or its required affinity; else empty."""
    if pod.spec.node_name:
        return pod.spec.node_name
    selector = required(pod)
    terms = [term for term in selector.node_selector_terms if _selects(term)] if selector is not None else []
    names = [_names(term) for term in terms]
    found = {name for some in names if some is not None for name in some}
    return found.pop() if names and None not in names and len(found) == 1 else ""


def unpinned(pod: Pod, node: str) -> Pod:
    """The pod without the requirements that `pin` adds for a node, and bound to no node."""
    selector = required(pod)
    if selector is None:
        return pod.replacing("spec", node_name="")
    terms = [
        term.model_copy(
            update={
                "match_fields": tuple(
                    r
                    for r in term.match_fields
                    if (r.key, r.operator, tuple(r.values)) != (FIELD, "In", (node,))
                )
            }
        )
        for term in selector.node_selector_terms
    ]
    # A pod without an affinity of its own got one term with the pin alone.
    only_pin = len(terms) == 1 and not _selects(terms[0])
    without = None if only_pin else selector.model_copy(update={"node_selector_terms": tuple(terms)})
    node_affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=without)
    affinity = (pod.spec.affinity or Affinity()).model_copy(update={"node_affinity": node_affinity})
    return pod.replacing("spec", node_name="", affinity=affinity)


def required(pod: Pod) -> NodeSelector | None:
    """The required node affinity of a pod."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _only(here: Operation) -> Operation:
    return {"nodeSelectorTerms": [{"matchFields": [here]}]}


def _selects(term: NodeSelectorTerm) -> bool:
    return bool(term.match_expressions or term.match_fields)


def _names(term: NodeSelectorTerm) -> frozenset[str] | None:
    """The names that a term allows; None if it does not restrict them."""
    allowed = [frozenset(r.values) for r in term.match_fields if r.key == FIELD and r.operator == "In"]
    return frozenset.intersection(*allowed) if allowed else None
