"""Watch events: a kind is replaced as a whole or listed, or one object is changed, removed or rejected."""

import re
from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct

from reconciler.api.objects.meta import ApiObject, ObjectKey


def _spelled(name: str) -> str:
    """`PodAssumed` -> `pod assumed`."""
    return re.sub("(?<=.)(?=[A-Z])", " ", name).lower()


class Recorded(Struct, frozen=True, tag_field="t", tag=_spelled):
    """What a journal can record. In JSON, `t` names the type."""


class Refused(Recorded, frozen=True):
    """An object that cannot be read. Drop what the cache holds under its key."""

    kind: str
    key: ObjectKey
    reason: str


class Replaced(Recorded, frozen=True):
    """A complete list: an object that is neither in `objects` nor in `refused` does not exist."""

    kind: str
    objects: tuple[ApiObject, ...]
    refused: tuple[Refused, ...]
    afresh: bool = False
    """The server was restored to an older state: do not compare resource versions with earlier ones"""
    stating: tuple[tuple[str, str], ...] = ()
    """(name, driver) of slices of other shards whose devices say `compatibleOnlyWith` (GRP-12)"""


class Listed(Struct, frozen=True):
    """A list is complete whose objects all came one by one before, and those that are gone were removed."""

    kind: str


class Changed(Recorded, frozen=True):
    """An object was added or modified. The same change may arrive twice."""

    kind: str
    object: ApiObject


class Removed(Recorded, frozen=True):
    """An object was deleted."""

    kind: str
    key: ObjectKey
    stating: str = ""
    """The driver of a slice that another shard owns and whose devices say `compatibleOnlyWith` (GRP-12)"""


Change = Replaced | Changed | Removed | Refused
Notice = Change | Listed
"""What a watch passes on"""

T = TypeVar("T", bound=ApiObject)


def versions(
    change: Notice, model: type[T] | tuple[type[T], ...], known: Iterable[ObjectKey] = ()
) -> list[tuple[ObjectKey, T | None]]:
    """The objects of some classes in a change, with their newest versions: None for one that is gone or
    cannot be read. `known` are those of the kind so far, of which a list drops some. Pass no list made for
    this call: it is read for lists only, and most changes are of one object.
    """
    match change:
        case Changed(object=thing) if isinstance(thing, model):
            return [(thing.key, thing)]
        case Removed(key=key) | Refused(key=key):
            return [(key, None)]
        case Replaced(objects=objects):
            listed = {thing.key: thing for thing in objects if isinstance(thing, model)}
            gone: list[ObjectKey] = [key for key in known if key not in listed]
            return [*[(key, None) for key in gone], *listed.items()]
    return []
