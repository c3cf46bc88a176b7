"""Checks the parts of manifests that are read here, before they are read: input may have any shape."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.errors import Malformed

Json = dict[str, Any]


def subject(raw: Mapping[str, Any]) -> str:
    """Kind and name of an object, for messages. Of any shape."""
    metadata = raw.get("metadata")
    names = metadata if isinstance(metadata, Mapping) else {}
    return f"{raw.get('kind')} {names.get('name') or names.get('generateName') or 'without a name'}"


def metadata_of(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata, whose names are texts. Raises Malformed."""
    where = subject(raw)
    metadata = _map(raw, "metadata", where, "")
    for field in ("name", "generateName", "namespace"):
        if not isinstance(metadata.get(field), str | None):
            raise Malformed(where, f"metadata.{field}", "must be a text")
    return metadata


def check_pod_spec(spec: Mapping[str, Any], where: str) -> None:
    """Raise Malformed for a part of another shape, unless it is never read here."""
    for field in ("initContainers", "containers"):
        for path, container in _maps(spec, field, where, "", named=True):
            resources = _map(container, "resources", where, path)
            inside = f"{path}.resources"
            for part in ("limits", "requests"):
                if not all(isinstance(name, str) for name in _map(resources, part, where, inside)):
                    raise Malformed(where, f"{inside}.{part}", "names of resources must be texts")
            list(_maps(resources, "claims", where, inside))
    list(_maps(spec, "resourceClaims", where, "", named=True))
    list(_maps(spec, "schedulingGates", where, ""))


def _map(owner: Mapping[str, Any], field: str, where: str, path: str) -> Mapping[str, Any]:
    found = owner.get(field)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise Malformed(where, f"{path}.{field}".lstrip("."), "must be an object")
    return found


def _maps(
    owner: Mapping[str, Any], field: str, where: str, path: str, *, named: bool = False
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each entry of a list with its path. `named`: each must have a name."""
    found, at = owner.get(field), f"{path}.{field}".lstrip(".")
    if found is None:
        return
    if not isinstance(found, list):
        raise Malformed(where, at, "must be a list")
    for number, one in enumerate(found):
        entry = f"{at}[{number}]"
        if not isinstance(one, Mapping):
            raise Malformed(where, entry, "must be an object")
        if named and not (isinstance(one.get("name"), str) and one["name"]):
            raise Malformed(where, f"{entry}.name", "must be a text that is not empty")
        yield entry, one
