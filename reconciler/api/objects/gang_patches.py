"""Patches of a gang's members: record the node of a pod, take that back, and remove the gate (GANG-23)."""

from typing import Any

from reconciler.api.objects.core import GATE, Pod
from reconciler.api.objects.pinning import Operation, pin
from reconciler.api.objects.seats import SEAT, SeatMark


def record(mark: SeatMark) -> dict[str, Any]:
    """The merge patch that records the node of a gated pod."""
    return {"metadata": {"annotations": {SEAT: str(mark)}}}


def take_back() -> dict[str, Any]:
    """The merge patch that removes what `record` wrote."""
    return {"metadata": {"annotations": {SEAT: None}}}


def release(pod: Pod) -> dict[str, Any]:
    """The merge patch that removes our gate; other gates stay."""
    return {"spec": {"schedulingGates": _other_gates(pod) or None}}


def release_on(pod: Pod, node: str) -> list[Operation]:
    """The steps of a JSON patch that restricts a pod to a node and removes our gate."""
    gates: Operation = {"op": "add", "path": "/spec/schedulingGates", "value": _other_gates(pod)}
    return [*([] if pod.spec.node_name else pin(pod, node)), gates]


def _other_gates(pod: Pod) -> list[Any]:
    return [gate.to_json() for gate in pod.spec.scheduling_gates if gate.name != GATE]
