"""The kinds that are watched, with their paths and versions on a server."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from reconciler.api.objects import storage
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.kinds import KINDS

PAGE = 500
"""Objects per page of a listing, as in kubectl."""


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
    """Objects per page of a listing. Large objects need small pages: decoding a page blocks the loop."""
    singly: bool = field(default=False, compare=False)
    """Whether each object of a listing is passed on as soon as it is read: a fleet has thousands, they take
    long to apply, and no object depends on the others"""
    only: ObjectKey | None = None
    """The only object to read of this kind; None for all"""

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """The plural with its group, as kubectl accepts it: two groups may have the same plural."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def root(self) -> str:
        """The path of the group and version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def everywhere(self) -> str:
        """The path of all objects to read: in all namespaces, or in that of `only`."""
        if self.only is not None:
            return self.within(self.only.namespace)
        return f"{self.root}/{self.plural}"

    @property
    def selection(self) -> Sequence[tuple[str, str]]:
        """The query that limits listings and watches to `only`."""
        return [("fieldSelector", f"metadata.name={self.only.name}")] if self.only is not None else []

    def within(self, namespace: str) -> str:
        """The path of the objects in one namespace, or of all objects of a cluster-scoped kind."""
        if self.namespaced:
            return f"{self.root}/namespaces/{namespace}/{self.plural}"
        return f"{self.root}/{self.plural}"

    def path(self, key: ObjectKey, subresource: str = "") -> str:
        """The path of one object, or of a subresource such as its status."""
        path = f"{self.within(key.namespace)}/{key.name}"
        return f"{path}/{subresource}" if subresource else path


_PAGES = {"Node": 100, "ResourceSlice": 50}
"""A slice holds up to 128 devices: fifty of them take as long to decode as five hundred claims."""
_SINGLY = frozenset(_PAGES)
"""See `Resource.singly`"""


def resource_of(name: str, version: str = "", *, only: ObjectKey | None = None) -> Resource:
    """A kind that is read, by the name of its model; in its best version if none is given."""
    kind = KINDS[name]
    return Resource(
        name,
        kind.group,
        version or kind.versions[0],
        kind.plural,
        namespaced=kind.namespaced,
        page=_PAGES.get(name, PAGE),
        singly=name in _SINGLY,
        only=only,
    )


NODE = resource_of("Node")
POD = resource_of("Pod")
NAMESPACE = resource_of("Namespace")
TEMPLATE = resource_of("ResourceClaimTemplate")
"""Never read or changed: only made, where that is wanted"""
BUDGET = resource_of("PodDisruptionBudget")
"""Read only where pods may have to leave"""
STORAGE = tuple(map(resource_of, storage.STORAGE))
"""Kinds that decide where pods with volumes can run"""

ON_DEMAND = ("Namespace", "PodGroup", "CompositePodGroup", "CoschedulingPodGroup", *storage.STORAGE)
"""Kinds that are listed and watched only from the moment when a pod needs them"""


def config_map(key: ObjectKey) -> Resource:
    """One ConfigMap and no other."""
    return resource_of("ConfigMap", only=key)


class Served(Struct, frozen=True):
    """The kinds that a server serves, each in the version to use."""

    resources: Mapping[str, Resource]

    def __iter__(self) -> Iterator[Resource]:
        return iter(self.resources.values())

    def __getitem__(self, kind: str) -> Resource:
        return self.resources[kind]

    def __contains__(self, kind: str) -> bool:
        """Whether the server serves the kind; it may not serve DeviceTaintRule."""
        return kind in self.resources
