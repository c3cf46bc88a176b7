"""Served kinds: their names, their versions, and the rules for writes."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct, field

from reconciler.api.validation.fields import Cause
from reconciler.api.validation.strategic_merge import METADATA, Schema

Object = dict[str, Any]
"""One API object as plain JSON, without `kind` and `apiVersion`: these depend on the served version."""
VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class GroupVersion(NamedTuple):
    """An API group at one version, such as resource.k8s.io/v1."""

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_custom(self) -> bool:
        """Whether the group is not part of Kubernetes: its kinds are custom resources."""
        is_own = self.group.endswith(".k8s.io") and not self.group.endswith(".x-k8s.io")
        return "." in self.group and not is_own


class Column(NamedTuple):
    """One column of the table that kubectl prints."""

    name: str
    cell: Callable[[Object, datetime], Any]
    type: str = "string"
    format: str = ""
    priority: int = 0


class Review(Struct, frozen=True):
    """One write to validate."""

    new: Object
    old: Object | None
    served: GroupVersion
    """The version that the client used."""
    subresource: str
    namespace_labels: Mapping[str, str]


class Conversion(NamedTuple):
    """Conversion between a served version and the stored one. Both functions return a new object."""

    up: Callable[[Object], Object]
    """From the served version to the stored one."""
    down: Callable[[Object], Object]


def _unchanged(_obj: Object) -> None:
    """No change."""


def _no_defaults(_obj: Object, _now: datetime) -> None:
    """No defaults."""


def _no_rules(_review: Review) -> list[Cause]:
    """No rules: every write is valid."""
    return []


class ServedKind(Struct, frozen=True, eq=False):
    """A kind of object with everything needed to serve it."""

    kind: str
    plural: str
    singular: str
    served: tuple[GroupVersion, ...]
    """In order of preference. The first is the stored version; `conversions` converts the others."""
    description: str = ""
    """One sentence for `kubectl explain`."""
    namespaced: bool = True
    categories: tuple[str, ...] = ()
    """Groups of kinds that kubectl lists together, such as `all`."""
    short_names: tuple[str, ...] = ()
    has_status: bool = False
    counts_generations: bool = False
    """Whether metadata.generation counts the changes of spec."""
    label_names: bool = False
    """Whether names are DNS labels rather than DNS subdomains."""
    unconditional: bool = True
    """Whether an update may omit resourceVersion."""
    returns_deleted: bool = False
    """Whether DELETE returns the object instead of a Status."""
    strategic: Schema = field(default_factory=lambda: {"metadata": METADATA})
    """Merge keys for strategic merge patches. Custom resources do not support these patches."""
    selectable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field selector label to path in the stored object, besides metadata.name and metadata.namespace."""
    columns: tuple[Column, ...] = ()
    defaults: Callable[[Object, datetime], None] = _no_defaults
    on_create: Callable[[Object], None] = _unchanged
    """Changes a new object, before its defaults"""
    validate: Callable[[Review], list[Cause]] = _no_rules
    conversions: Mapping[GroupVersion, Conversion] = field(default_factory=dict)

    @property
    def stored(self) -> GroupVersion:
        """The stored version."""
        return self.served[0]

    @property
    def group(self) -> str:
        """The group shown in errors."""
        return self.served[0].group

    def upgrade(self, obj: Object, served: GroupVersion) -> Object:
        """Convert `obj` from `served` to the stored version."""
        conversion = self.conversions.get(served)
        return conversion.up(obj) if conversion else obj

    def downgrade(self, obj: Object, served: GroupVersion) -> Object:
        """Convert the stored `obj` to `served`."""
        conversion = self.conversions.get(served)
        return conversion.down(obj) if conversion else obj
