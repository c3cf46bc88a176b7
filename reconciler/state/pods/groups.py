"""The PodGroups of Kubernetes and of coscheduling."""

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.gangs import CoschedulingPodGroup, GangKey, GangSource, PodGroup
from reconciler.api.objects.meta import ApiObject, ObjectKey

Group = PodGroup | CoschedulingPodGroup

KINDS = {"PodGroup": GangSource.POD_GROUP, "CoschedulingPodGroup": GangSource.COSCHEDULING}
"""Kind of a change -> where the gang is declared"""
KIND_OF = {source: kind for kind, source in KINDS.items()}


class PodGroups:
    """The newest version of every known PodGroup."""

    def __init__(self) -> None:
        self._known: dict[GangKey, Group] = {}

    def fork(self) -> "PodGroups":
        """The same for another thread."""
        other = PodGroups()
        other._known = dict(self._known)
        return other

    def get(self, gang: GangKey) -> Group | None:
        """The PodGroup of a gang."""
        return self._known.get(gang)

    def note(self, change: Change) -> frozenset[GangKey]:
        """Apply a change of PodGroups. Returns the gangs that it concerns."""
        source = KINDS.get(change.kind)
        if source is None:
            return frozenset()
        match change:
            case Changed(object=PodGroup() | CoschedulingPodGroup() as group):
                return self._put(_key(group.key, source), group)
            case Removed(key=key) | Refused(key=key):
                return self._put(_key(key, source), None)
            case Replaced(objects=objects):
                return self._replace(source, objects)
        return frozenset()

    def _replace(self, source: GangSource, objects: tuple[ApiObject, ...]) -> frozenset[GangKey]:
        listed = {
            _key(group.key, source): group
            for group in objects
            if isinstance(group, PodGroup | CoschedulingPodGroup)
        }
        gone = [gang for gang in self._known if gang.source is source and gang not in listed]
        changed = [self._put(gang, None) for gang in gone]
        changed += [self._put(gang, group) for gang, group in listed.items()]
        return frozenset().union(*changed)

    def _put(self, gang: GangKey, group: Group | None) -> frozenset[GangKey]:
        """Only a change of the spec concerns the gang: controllers write the status often."""
        before = self._known.pop(gang, None)
        if group is not None:
            self._known[gang] = group
        same = before is not None and group is not None and before.spec == group.spec
        return frozenset() if same or before is group else frozenset([gang])


def _key(key: ObjectKey, source: GangSource) -> GangKey:
    return GangKey(key.namespace, source, key.name)
