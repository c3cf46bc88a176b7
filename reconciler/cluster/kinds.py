"""The kinds we watch, where the server keeps them, and in which version it serves them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.api.objects.meta import ObjectKey

PAGE = 500
"""Objects a page of a listing, as kubectl asks for them."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as one server serves it."""

    kind: str
    group: str
    """Empty for core/v1."""
    version: str
    plural: str
    namespaced: bool
    page: int = field(default=PAGE, compare=False)
    """Objects a page of a listing. Decoding a page holds the loop, so large objects come in small pages."""
    only: ObjectKey | None = None
    """The one object that we want of this kind; None for all"""

    @property
    def api_version(self) -> str:
        """As objects spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def everywhere(self) -> str:
        """The path of all objects that we want, in all namespaces unless it is a single one."""
        if self.only is not None:
            return self.within(self.only.namespace)
        return f"{self.root}/{self.plural}"

    @property
    def selection(self) -> Sequence[tuple[str, str]]:
        """The query by which listings and watches are limited to what we want."""
        return [("fieldSelector", f"metadata.name={self.only.name}")] if self.only is not None else []

    def within(self, namespace: str) -> str:
        """The path of the objects of one namespace, or of all objects of a kind without namespaces."""
        if self.namespaced:
            return f"{self.root}/namespaces/{namespace}/{self.plural}"
        return f"{self.root}/{self.plural}"

    def path(self, key: ObjectKey, subresource: str = "") -> str:
        """The path of one object, or of a part of it such as its status."""
        path = f"{self.within(key.namespace)}/{key.name}"
        return f"{path}/{subresource}" if subresource else path


NODE = Resource("Node", "", "v1", "nodes", namespaced=False)
POD = Resource("Pod", "", "v1", "pods", namespaced=True)


def config_map(key: ObjectKey) -> Resource:
    """One ConfigMap and no other."""
    return Resource("ConfigMap", "", "v1", "configmaps", namespaced=True, only=key)


@dataclass(frozen=True, slots=True)
class Served:
    """The kinds that a server has, each in the version we use with it."""

    resources: Mapping[str, Resource]

    def __iter__(self) -> Iterator[Resource]:
        return iter(self.resources.values())

    def __getitem__(self, kind: str) -> Resource:
        return self.resources[kind]

    def __contains__(self, kind: str) -> bool:
        """Whether the kind exists there; DeviceTaintRule may not."""
        return kind in self.resources
