"""Pods that hold devices already, as their annotations say: what a restart is rebuilt from."""

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.errors import Malformed
from reconciler.koordinator import annotations
from reconciler.koordinator.annotations import Hint
from reconciler.koordinator.holdings import Allocation, recorded
from reconciler.objects.core import Pod
from reconciler.objects.pinning import pinned


@dataclass(frozen=True, slots=True)
class Holder:
    """What a pod holds, where, and how alone it is to be."""

    node: str
    allocation: Allocation
    hints: Mapping[str, Hint]


def holder(pod: Pod) -> Holder | None:
    """What a pod holds, or None. Raises Malformed if its result annotation cannot be read.

    A pod that is bound to no node yet holds devices of the one it is tied to. A hint that cannot be read
    keeps nobody out: the pod was not admitted because of it.
    """
    subject = f"Pod {pod.key}"
    node = pinned(pod)
    if not node or pod.finished:
        return None
    allocation = recorded(subject, annotations.allocated(subject, pod.metadata.annotations))
    if not allocation:
        return None
    try:
        hints = annotations.hints(subject, pod.metadata.annotations)
    except Malformed:
        hints = {}
    return Holder(node, allocation, hints)
