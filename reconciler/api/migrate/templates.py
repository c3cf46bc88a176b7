"""The templates of a migration: each name stands for one kind of devices in its namespace."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.api.migrate.pods import Template
from reconciler.api.migrate.shapes import Json, metadata_of
from reconciler.api.objects.claims import ResourceClaimTemplate
from reconciler.api.objects.requests import EXACT_COUNT
from reconciler.api.versions.reading import read
from reconciler.errors import Malformed, Rejected

KIND = "ResourceClaimTemplate"


class Templates:
    """Those that the input has, and those that are made."""

    def __init__(self, raws: Iterable[Mapping[str, Any]]) -> None:
        """Templates of another shape, or whose names are generated, are left out: none of them is named."""
        self._found: dict[tuple[str | None, str], Mapping[str, Any]] = {}
        self._users: dict[tuple[str | None, str], str] = {}
        """For whom each was made"""
        for raw in raws:
            if raw.get("kind") == KIND:
                try:
                    metadata = metadata_of(raw)
                except Malformed:
                    continue
                if name := metadata.get("name"):
                    self._found[metadata.get("namespace"), name] = raw

    @property
    def made(self) -> tuple[Json, ...]:
        """In the order in which they were needed."""
        return tuple(dict(self._found[key]) for key in self._users)

    def need(self, templates: Iterable[Template], namespace: str | None, where: str) -> None:
        """Make those that are not there; none if one has the name of another that is for other devices.

        `where` names the object that needs them. Raises Malformed.
        """
        new: dict[tuple[str | None, str], Json] = {}
        for one in templates:
            key = (namespace, one.name)
            found = self._found.get(key) or new.get(key)
            if found is None:
                new[key] = template_object(one, namespace)
            elif not serves(found, one):
                user = where if key in new else self._users.get(key)
                whose = f"another of {user}" if user else "the one of the input"
                raise Malformed(
                    where,
                    "",
                    f"{KIND} {one.name} must be for {_devices(one)}, but {whose} is not; "
                    "give one of the two another name: that of a resource is in the file of --map",
                )
        self._found.update(new)
        self._users.update(dict.fromkeys(new, where))


def template_object(template: Template, namespace: str | None) -> Json:
    """The ResourceClaimTemplate."""
    metadata = {"name": template.name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": KIND,
        "metadata": metadata,
        "spec": {"spec": template.spec()},
    }


def serves(raw: Mapping[str, Any], template: Template) -> bool:
    """Whether the claims of an object ask for the devices of a template; they may also tolerate taints."""
    try:
        found = read(dict(raw))
    except Rejected:
        return False
    if not isinstance(found, ResourceClaimTemplate) or len(found.spec.spec.devices.requests) != 1:
        return False
    devices = found.spec.spec.devices
    asked = devices.requests[0].exactly
    if asked is None or asked.allocation_mode != EXACT_COUNT or devices.constraints:
        return False
    if asked.admin_access or asked.capacity is not None:
        return False  # devices of others, or a part of one
    selectors = [one.cel.expression if one.cel else None for one in asked.selectors]
    wanted = template.wanted
    return (asked.device_class_name, asked.wanted, selectors) == (
        wanted.device_class,
        template.devices,
        [wanted.selector] if wanted.selector else [],
    )


def _devices(template: Template) -> str:
    wanted = template.wanted
    chosen = f" with {wanted.selector}" if wanted.selector else ""
    return f"{template.devices} of class {wanted.device_class}{chosen}"
