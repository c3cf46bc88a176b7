"""What is asked: how many pods of some sets fit together, if some holders and nodes were gone."""

from msgspec import Struct

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.meta import ObjectKey

UNLIKE_PODS = "fit "
"""No pod on a server has such a name"""


class PodSet(Struct, frozen=True):
    """A number of equal pods."""

    name: str
    """Unique in its question"""
    count: int
    least: int
    """If fewer fit, none is placed"""
    pod: Pod
    """One of them; it names no node, and its name starts with `UNLIKE_PODS`"""
    claims: tuple[ResourceClaim, ...]
    """Made from templates for this pod, in its order; each pod has its own"""
    named: tuple[ObjectKey, ...] = ()
    """Existing claims that all pods of the set use"""
    tiers: tuple[Tier, ...] = ()
    """What all pods of the set share, the tightest first"""


class FitQuestion(Struct, frozen=True):
    """Sets of pods, placed in this order; each keeps what it takes."""

    sets: tuple[PodSet, ...]
    without: frozenset[ObjectKey] = frozenset()
    """Claims that are assumed to hold nothing, and pods that are assumed to be gone"""
    without_nodes: frozenset[str] = frozenset()
    """Nodes that are assumed to be gone, with their devices"""
