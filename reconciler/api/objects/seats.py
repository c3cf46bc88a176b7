"""The annotation that records the node of a gang's member, on its claims and on the pod itself.

It is written before any gate of the gang is removed, so that a successor can finish what was begun, or give
it back.
"""

from typing import NamedTuple

from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import ApiObject

SEAT = "dra-reconciler.io/gang-seat"
"""`SOURCE/NAME SIZE NODE`. On a claim: it was allocated for this gang. On a pod: it is to run on this node"""

FENCED = "dra-reconciler.io/fenced"
"""On a claim, for a moment: changes its resourceVersion, so that a late write to it gets a conflict"""


class SeatMark(NamedTuple):
    """What the annotation says."""

    gang: GangKey
    size: int
    """Pods that must run together"""
    node: str

    def __str__(self) -> str:
        return f"{self.gang.source}/{self.gang.name} {self.size} {self.node}"


def seat_mark(thing: ApiObject, gang: GangKey) -> SeatMark | None:
    """The mark on a claim or a pod, if it was set for this gang."""
    name, _, rest = thing.metadata.annotations.get(SEAT, "").partition(" ")
    size, _, node = rest.partition(" ")
    if name != f"{gang.source}/{gang.name}" or not (size.isascii() and size.isdecimal()) or not node:
        return None
    return SeatMark(gang, int(size), node)


def seated_on(pod: Pod) -> str:
    """The node that is recorded on a gated pod for its gang; else empty."""
    if SEAT not in pod.metadata.annotations or not pod.gated:
        return ""
    gang = gang_of(pod)
    mark = seat_mark(pod, gang) if gang is not None else None
    return mark.node if mark is not None else ""
