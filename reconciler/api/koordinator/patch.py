"""The patch that writes a decision to a pod: the annotation, the node, and the removal of our gate."""

from reconciler.api.koordinator.names import ALLOCATED
from reconciler.api.objects.core import GATE, Pod
from reconciler.api.objects.pinning import Operation, pin


def steps(pod: Pod, node: str, text: str) -> list[Operation]:
    """A JSON patch that records devices of a node in a pod. It does not touch unknown fields."""
    return [*_annotation(pod, text), *([] if pod.spec.node_name else pin(pod, node)), *_gate(pod)]


def _annotation(pod: Pod, text: str) -> list[Operation]:
    if not pod.metadata.annotations:
        return [{"op": "add", "path": "/metadata/annotations", "value": {ALLOCATED: text}}]
    return [{"op": "add", "path": f"/metadata/annotations/{_escaped(ALLOCATED)}", "value": text}]


def _gate(pod: Pod) -> list[Operation]:
    places = [number for number, gate in enumerate(pod.spec.scheduling_gates) if gate.name == GATE]
    return [{"op": "remove", "path": f"/spec/schedulingGates/{number}"} for number in reversed(places)]


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
