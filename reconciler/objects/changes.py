"""What a watch tells: one kind replaced as a whole, or one object changed, removed or refused."""

from dataclasses import dataclass

from reconciler.objects.meta import ApiObject, ObjectKey


@dataclass(frozen=True, slots=True)
class Refused:
    """An object that cannot be read. Whatever was known under its key no longer holds."""

    kind: str
    key: ObjectKey
    reason: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A complete listing: what is neither in `objects` nor in `refused` does not exist."""

    kind: str
    objects: tuple[ApiObject, ...]
    refused: tuple[Refused, ...]
    afresh: bool = False
    """The server was set back since: versions known from before say nothing about which object is newer"""


@dataclass(frozen=True, slots=True)
class Changed:
    """An object was added or modified. May arrive twice."""

    kind: str
    object: ApiObject


@dataclass(frozen=True, slots=True)
class Removed:
    """An object is gone."""

    kind: str
    key: ObjectKey


Change = Replaced | Changed | Removed | Refused
