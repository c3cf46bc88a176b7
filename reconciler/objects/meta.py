"""Object metadata and the names by which objects are known."""

from typing import NamedTuple

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

    @property
    def key(self) -> ObjectKey:
        return self.metadata.key
