"""Pods that hold devices already, as their annotations say: what a restart is rebuilt from."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import Malformed
from reconciler.koordinator import annotations
from reconciler.koordinator.annotations import Hint
from reconciler.koordinator.holdings import Allocation, recorded
from reconciler.koordinator.pod import Pod


@dataclass(frozen=True, slots=True)
class Holder:
    """What a pod holds, where, and how alone it is to be."""

    node: str
    allocation: Allocation
    hints: Mapping[str, Hint]


def holder(pod: Pod) -> Holder | None:
    """What a pod holds, or None. Raises Malformed if its result annotation cannot be read.

    A hint that cannot be read keeps nobody out: the pod was not admitted because of it.
    """
    subject = f"Pod {pod.key}"
    if not pod.spec.node_name or pod.finished:
        return None
    allocation = recorded(subject, annotations.allocated(subject, pod.metadata.annotations))
    if not allocation:
        return None
    try:
        hints = annotations.hints(subject, pod.metadata.annotations)
    except Malformed:
        hints = {}
    return Holder(pod.spec.node_name, allocation, hints)
