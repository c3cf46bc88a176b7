"""Object metadata and the names by which objects are known."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, Self

from pydantic import Field

from reconciler.objects.model import Bool, Int, Map, Model, Str, Tuple


class ObjectKey(NamedTuple):
    """A namespaced object; `namespace` is empty for cluster-scoped kinds."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class PoolID(NamedTuple):
    """A pool of devices. The name alone does not identify it: two drivers may use one name."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    """A device, by the names that an allocation result gives."""

    driver: str
    pool: str
    device: str

    @property
    def pool_id(self) -> PoolID:
        return PoolID(self.driver, self.pool)

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class OwnerReference(Model):
    """Who owns an object."""

    api_version: Str = ""
    kind: Str = ""
    name: Str = ""
    uid: Str = ""
    controller: Bool | None = None


class ObjectMeta(Model):
    """What we read of `metadata`."""

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

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


class ApiObject(Model):
    """Anything with metadata."""

    metadata: ObjectMeta

    @cached_property
    def key(self) -> ObjectKey:
        """Asked for a dozen times while a claim is served."""
        return self.metadata.key

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's, which would take the old key along to an object of another name."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("key", None)
        return copied
