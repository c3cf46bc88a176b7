"""Object metadata, and the keys of objects, pools and devices."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.dataclasses import dataclass

from reconciler.api.objects.model import LEAN, Bool, Int, Map, Model, Str, Tuple, kept


class ObjectKey(NamedTuple):
    """Namespace and name of an object; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str, namespace: str = "default") -> "ObjectKey":
        """That of `NAMESPACE/NAME`, or of `NAME` in `namespace`."""
        before, _, name = text.rpartition("/")
        return cls(before or namespace, name)


class PoolID(NamedTuple):
    """A pool of devices. The name alone does not identify it: two drivers may use one name."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    """A device, as an allocation result names it."""

    driver: str
    pool: str
    device: str

    @property
    def pool_id(self) -> PoolID:
        return PoolID(self.driver, self.pool)

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


def time_of(text: str) -> datetime | None:
    """A time with its zone. None if it cannot be read, or has no zone: the API always writes one."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


class OwnerReference(Model):
    """An owner of an object."""

    api_version: Str = ""
    kind: Str = ""
    name: Str = ""
    uid: Str = ""
    controller: Bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=LEAN)
class ObjectMeta:
    """The fields of `metadata` that we read. Every node has them, so they have no dict."""

    name: Str = Field(min_length=1)
    namespace: Str = ""
    uid: Str = ""
    resource_version: Str = ""
    generation: Int | None = None
    labels: Map[Str] = Field(default_factory=dict)
    annotations: Map[Str] = Field(default_factory=dict)
    finalizers: Tuple[Str] = ()
    owner_references: Tuple[OwnerReference] = ()
    creation_timestamp: Str | None = None
    deletion_timestamp: Str | None = None

    @model_serializer(mode="wrap")
    def _without_what_is_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value or value is False}

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same fields but for some, as with a `Model`."""
        return replace(self, **update)

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    @property
    def created(self) -> datetime | None:
        """The time of creation, with its zone. None if it is missing or cannot be read."""
        return time_of(self.creation_timestamp) if self.creation_timestamp else None


def is_same_version_aside(one: ObjectMeta, other: ObjectMeta) -> bool:
    """Whether all fields but the version are equal."""
    return one == replace(other, resource_version=one.resource_version)


class ApiObject(Model):
    """Anything with metadata."""

    metadata: ObjectMeta

    @kept
    def key(self) -> ObjectKey:
        """Cached: it is read a dozen times for each allocation."""
        metadata = self.metadata
        return ObjectKey(metadata.namespace, metadata.name)

    def replacing(self, part: str, **fields: object) -> Self:
        """The same with other fields in its `metadata`, `spec` or `status`."""
        return self.model_copy(update={part: getattr(self, part).model_copy(update=fields)})
