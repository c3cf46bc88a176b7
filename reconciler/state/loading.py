"""Load objects into a store as if each had come from a watch."""

from collections.abc import Iterable
from typing import Protocol

from reconciler.api.objects.changes import Change, Changed
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import Semantics
from reconciler.state.store import Store


class AppliesChanges(Protocol):
    """Accepts changes one by one."""

    def apply(self, change: Change, /) -> object:
        """Apply one change."""


def load(target: AppliesChanges, objects: Iterable[ApiObject]) -> None:
    """Add objects in order. An object replaces an earlier one of the same kind and name."""
    for thing in objects:
        target.apply(Changed(type(thing).__name__, thing))


def store_of(objects: Iterable[ApiObject], rules: Semantics) -> Store:
    """A store with only these objects."""
    store = Store(rules)
    load(store, objects)
    return store
