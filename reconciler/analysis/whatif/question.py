"""What is asked, and of what."""

from dataclasses import dataclass

from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.store import Store


@dataclass(frozen=True, slots=True)
class Unit:
    """Claims that go onto one node together, none of them allocated."""

    name: str
    """For people: `claim default/a`, `pod default/p`"""
    claims: tuple[ResourceClaim, ...]
    pod: Pod | None = None
    """For which they are; says on which nodes"""


@dataclass(frozen=True, slots=True)
class Question:
    """Whether some units would fit, if. Without units: what would be lost, and could be had elsewhere."""

    units: tuple[Unit, ...] = ()
    """One copy of them"""
    count: int | None = None
    """Copies; None asks how many there can be"""
    without: frozenset[ObjectKey] = frozenset()
    """Claims that hold nothing"""
    drained: frozenset[str] = frozenset()
    """Nodes that are gone, with their devices"""


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """What is asked about: a picture of its own, which is used up by the answer."""

    store: Store
    nodes: tuple[Node, ...]
    """Those of the store that have a Node object, with what it does not keep: taints, cordons, room"""
    supposed: tuple[Node, ...] = ()
    """Those of the store that only slices name, or that are made up"""
