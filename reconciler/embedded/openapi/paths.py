"""The operations of served kinds, as far as kubectl reads them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reconciler.api.validation.kinds import GroupVersion, Object
from reconciler.embedded.openapi.schemas import GVK, Served, group_version_kind

_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"


class Operation(NamedTuple):
    """One method of one path."""

    path: str
    method: str
    media: tuple[str, ...]
    """The media types of its body; empty if it has none."""
    notes: Object
    """Extensions: what it does, with which kind."""


def root(version: GroupVersion) -> str:
    """The path of a group and version, without the first slash."""
    return f"apis/{version}" if version.group else f"api/{version.version}"


def operations(served: Iterable[Served]) -> Iterator[Operation]:
    """The operations on collections and objects."""
    for version, kind in served:
        where = "namespaces/{namespace}/" if kind.namespaced else ""
        collection = f"/{root(version)}/{where}{kind.plural}"
        one = f"{collection}/{{name}}"
        patches = _PATCHES if version.is_custom else (*_PATCHES, _STRATEGIC)
        gvk = group_version_kind(version, kind)
        for path, method, action, media in (
            (collection, "get", "list", ()),
            (collection, "post", "post", ("*/*",)),
            (one, "get", "get", ()),
            (one, "put", "put", ("*/*",)),
            (one, "patch", "patch", patches),
        ):
            yield Operation(path, method, media, {"x-kubernetes-action": action, GVK: gvk})
