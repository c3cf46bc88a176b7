"""What a change of the picture may have made different."""

from collections.abc import Sequence

from reconciler.api.objects.meta import DeviceID, ObjectKey, PoolID
from reconciler.api.objects.value import value


@value()
class Delta:
    """The objects concerned, so that only what depends on them is decided again."""

    claims: frozenset[ObjectKey] = frozenset()
    pods: frozenset[ObjectKey] = frozenset()
    freed: frozenset[PoolID] = frozenset()
    """Pools in which a device is free that was not"""
    classes: frozenset[str] = frozenset()
    supply: bool = False
    """Whether devices or nodes changed"""
    devices: frozenset[DeviceID] = frozenset()
    """Devices that are held by others than before"""

    def __or__(self, other: "Delta") -> "Delta":
        return Delta(
            claims=self.claims | other.claims,
            pods=self.pods | other.pods,
            freed=self.freed | other.freed,
            classes=self.classes | other.classes,
            supply=self.supply or other.supply,
            devices=self.devices | other.devices,
        )

    @staticmethod
    def of(parts: Sequence["Delta"]) -> "Delta":
        """All that any of them touched. One by one, with `|`, would take the square of their number."""
        return Delta(
            claims=frozenset().union(*[part.claims for part in parts]),
            pods=frozenset().union(*[part.pods for part in parts]),
            freed=frozenset().union(*[part.freed for part in parts]),
            classes=frozenset().union(*[part.classes for part in parts]),
            supply=any(part.supply for part in parts),
            devices=frozenset().union(*[part.devices for part in parts]),
        )


NOTHING = Delta()
