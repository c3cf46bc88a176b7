"""What a served kind is: its names, its versions, and the rules that apply when one is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from reconciler.embedded.fields import Cause

Object = dict[str, Any]
"""One API object as plain JSON without `kind` and `apiVersion`: they belong to the version it is shown in."""
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class GroupVersion(NamedTuple):
    """An API group at one version, such as resource.k8s.io/v1."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Column(NamedTuple):
    """One column of the table that kubectl prints."""

    name: str
    cell: Callable[[Object, datetime], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Review:
    """One write, ready to be judged."""

    new: Object
    old: Object | None
    served: GroupVersion
    """The version it was written through."""
    subresource: str
    namespace_labels: Mapping[str, str]


class Conversion(NamedTuple):
    """How one version differs from the stored one. Both functions return a new object."""

    up: Callable[[Object], Object]
    """This version to the stored one."""
    down: Callable[[Object], Object]


def _no_defaults(_obj: Object, _now: datetime) -> None:
    """Nothing to fill in."""


def _no_rules(_review: Review) -> list[Cause]:
    """Everything is accepted."""
    return []


@dataclass(frozen=True, slots=True, eq=False)
class ServedKind:
    """A kind of object and everything the server must know to serve it."""

    kind: str
    plural: str
    singular: str
    served: tuple[GroupVersion, ...]
    """Preferred first. The first is the stored one; the others are converted where `conversions` says so."""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    has_status: bool = False
    counts_generations: bool = False
    """Whether metadata.generation counts the changes of spec."""
    label_names: bool = False
    """Whether names are DNS labels rather than DNS subdomains."""
    unconditional: bool = True
    """Whether an update may come without a resourceVersion."""
    returns_deleted: bool = False
    """Whether a deletion answers with the object rather than with a Status."""
    strategic: Mapping[str, Any] | None = None
    """Merge keys for strategic merge patches; None where such patches are not understood."""
    selectable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field selector label to its path in the stored object, beyond metadata.name and metadata.namespace."""
    columns: tuple[Column, ...] = ()
    defaults: Callable[[Object, datetime], None] = _no_defaults
    validate: Callable[[Review], list[Cause]] = _no_rules
    conversions: Mapping[GroupVersion, Conversion] = field(default_factory=dict)

    @property
    def stored(self) -> GroupVersion:
        """The version whose shape is kept."""
        return self.served[0]

    @property
    def group(self) -> str:
        """The group that errors name."""
        return self.served[0].group

    def upgrade(self, obj: Object, served: GroupVersion) -> Object:
        """`obj` as written in `served`, in the stored shape."""
        conversion = self.conversions.get(served)
        return conversion.up(obj) if conversion else obj

    def downgrade(self, obj: Object, served: GroupVersion) -> Object:
        """The stored `obj` as readers of `served` see it."""
        conversion = self.conversions.get(served)
        return conversion.down(obj) if conversion else obj
