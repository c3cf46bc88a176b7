"""The labels of namespaces, for selectors of namespaces."""

from collections.abc import Mapping

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import Namespace

KIND = "Namespace"
NAME_LABEL = "kubernetes.io/metadata.name"


class Namespaces:
    """Known namespaces. One that is not known has the label with its name, which the API server sets."""

    def __init__(self) -> None:
        self._known: dict[str, Namespace] = {}

    def fork(self) -> "Namespaces":
        """The same namespaces, changed independently from now on."""
        other = Namespaces()
        other._known = dict(self._known)
        return other

    @property
    def known(self) -> tuple[Namespace, ...]:
        """The newest version of every namespace."""
        return tuple(self._known.values())

    def labels_of(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        found = self._known.get(name)
        return {NAME_LABEL: name} if found is None else found.metadata.labels

    def note(self, change: Change) -> bool:
        """Apply a change of namespaces; return whether labels changed."""
        if change.kind != KIND:
            return False
        match change:
            case Changed(object=Namespace() as one):
                before = self._known.get(one.key.name)
                self._known[one.key.name] = one
                return before is None or before.metadata.labels != one.metadata.labels
            case Removed(key=key) | Refused(key=key):
                return self._known.pop(key.name, None) is not None
            case Replaced(objects=objects):
                listed = {one.key.name: one for one in objects if isinstance(one, Namespace)}
                changed = {name: one.metadata.labels for name, one in listed.items()} != {
                    name: one.metadata.labels for name, one in self._known.items()
                }
                self._known = listed
                return changed
        return False
