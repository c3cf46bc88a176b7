"""Pods that already hold devices, from their annotations. A restart rebuilds its state from them."""

from collections.abc import Mapping

from msgspec import Struct

from reconciler.api.koordinator import annotations
from reconciler.api.koordinator.annotations import Hint
from reconciler.api.objects.core import Pod
from reconciler.api.objects.pinning import pinned
from reconciler.errors import Malformed
from reconciler.state.koordinator.holdings import Allocation, recorded


class Holder(Struct, frozen=True):
    """The allocation of a pod, its node, and its hints."""

    node: str
    allocation: Allocation
    hints: Mapping[str, Hint]


def holder(pod: Pod) -> Holder | None:
    """The devices that a pod holds, or None. Raises Malformed if its result annotation is invalid.

    A pod that is not bound yet holds devices of the node that it is pinned to. An invalid hint excludes no
    other pod: the pod was not admitted because of it.
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
