"""Objects into a picture all at once, as if each had just come from a watch."""

from collections.abc import Iterable
from typing import Protocol

from reconciler.api.objects.changes import Change, Changed
from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.semantics import Semantics
from reconciler.state.store import Store


class Picture(Protocol):
    """What takes changes in, one after another."""

    def apply(self, change: Change, /) -> object:
        """Take one change in."""


def load(picture: Picture, objects: Iterable[ApiObject]) -> None:
    """Add objects to a picture in order; one with the kind and name of another replaces it."""
    for thing in objects:
        picture.apply(Changed(type(thing).__name__, thing))


def store_of(objects: Iterable[ApiObject], rules: Semantics) -> Store:
    """A store that has only these objects."""
    store = Store(rules)
    load(store, objects)
    return store
