"""What a change of the store may affect."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID


class Delta(Struct, frozen=True):
    """The affected objects. Only what depends on them is decided again."""

    claims: frozenset[ObjectKey] = frozenset()
    pods: frozenset[ObjectKey] = frozenset()
    freed: frozenset[PoolID] = frozenset()
    """Pools with a device that became free"""
    classes: frozenset[str] = frozenset()
    supply: bool = False
    """Whether devices or nodes changed"""
    devices: frozenset[DeviceID] = frozenset()
    """Devices whose holders changed"""
    shares: frozenset[ObjectKey] = frozenset()
    """Claims whose devices may take something else of their nodes now (NAR-1)"""
    allocated: frozenset[ObjectKey] = frozenset()
    """Claims that were not known to be allocated on the server"""

    def __or__(self, other: "Delta") -> "Delta":
        if other is self or other is NOTHING:
            return self
        return other if self is NOTHING else Delta.of((self, other))

    @staticmethod
    def of(parts: Sequence["Delta"]) -> "Delta":
        """The union of many deltas. Joining them one by one with `|` would take quadratic time."""
        return Delta(
            claims=frozenset().union(*[part.claims for part in parts]),
            pods=frozenset().union(*[part.pods for part in parts]),
            freed=frozenset().union(*[part.freed for part in parts]),
            classes=frozenset().union(*[part.classes for part in parts]),
            supply=any(part.supply for part in parts),
            devices=frozenset().union(*[part.devices for part in parts]),
            shares=frozenset().union(*[part.shares for part in parts]),
            allocated=frozenset().union(*[part.allocated for part in parts]),
        )


NOTHING = Delta()
SUPPLY = Delta(supply=True)
