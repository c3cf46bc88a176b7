"""Which pods belong to which gang, updated pod by pod."""

from collections.abc import Iterable, Set

from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import ObjectKey


class GangRoster:
    """The members of gangs. Whether a PodGroup exists, and is a gang, is known elsewhere."""

    def __init__(self) -> None:
        self._gang: dict[ObjectKey, GangKey] = {}
        self._members: dict[GangKey, set[ObjectKey]] = {}
        self._gated: dict[GangKey, set[ObjectKey]] = {}
        self.changes = 0
        """Changes of pods of gangs so far"""

    @property
    def known(self) -> Set[GangKey]:
        """All gangs that some pod names."""
        return self._members.keys()

    def members(self, gang: GangKey) -> Set[ObjectKey]:
        """All existing pods of a gang, gated or not."""
        return self._members.get(gang, frozenset())

    def waits(self, gang: GangKey) -> bool:
        """Whether a gang has gated members."""
        return gang in self._gated

    def of(self, pods: Iterable[ObjectKey]) -> set[GangKey]:
        """The gangs with gated members that have one of these pods."""
        return {gang for pod in pods if (gang := self._gang.get(pod)) is not None and gang in self._gated}

    def note(self, key: ObjectKey, pod: Pod | None) -> set[GangKey]:
        """Update a pod. Returns the gangs that have another answer now, perhaps."""
        before = self._gang.pop(key, None)
        concerned = self.of_one(before)
        if before is not None:
            _discard(self._members, before, key)
            _discard(self._gated, before, key)
        gang = gang_of(pod) if pod is not None else None
        if before is not None or gang is not None:
            self.changes += 1
        if pod is not None and gang is not None:
            self._gang[key] = gang
            self._members.setdefault(gang, set()).add(key)
            if pod.gated:
                self._gated.setdefault(gang, set()).add(key)
        return concerned | self.of_one(gang)

    def of_one(self, gang: GangKey | None) -> set[GangKey]:
        """A gang, if it has gated members."""
        return {gang} if gang is not None and gang in self._gated else set()


def _discard(sets: dict[GangKey, set[ObjectKey]], gang: GangKey, key: ObjectKey) -> None:
    found = sets.get(gang)
    if found is not None:
        found.discard(key)
        if not found:
            del sets[gang]
