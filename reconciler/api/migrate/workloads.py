"""Rewrites pods and what makes pods, and adds the templates that they need."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from reconciler.api.migrate.pods import Json, Template, metadata_of, rewrite, subject
from reconciler.api.migrate.special_claims import Resources
from reconciler.api.objects.claims import EXACT_COUNT, ResourceClaimTemplate
from reconciler.api.versions.kinds import KINDS
from reconciler.api.versions.reading import is_ours, read
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
        "apiVersion": KINDS[KIND].in_shape[0],
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


_TEMPLATE = ("spec", "template", "spec")
POD_SPECS: Mapping[tuple[str, str], Sequence[str]] = {
    ("", "Pod"): ("spec",),
    ("", "PodTemplate"): ("template", "spec"),
    ("", "ReplicationController"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", *_TEMPLATE),
    ("jobset.x-k8s.io", "JobSet"): ("spec", "replicatedJobs", "*", "template", *_TEMPLATE),
}
"""API group and kind -> where its pod specs are; `*` stands for each entry of a list"""


def is_used(raw: Mapping[str, Any]) -> bool:
    """Whether an object is read or rewritten."""
    return is_ours(raw) or (_group(raw), str(raw.get("kind"))) in POD_SPECS


def _group(raw: Mapping[str, Any]) -> str:
    return str(raw.get("apiVersion") or "").rpartition("/")[0]


class Change(NamedTuple):
    """One object of the input."""

    before: Json
    after: Json
    unmapped: tuple[str, ...] = ()
    problem: Malformed | None = None
    """Why it could not be rewritten; then it stays as it is"""

    @property
    def changed(self) -> bool:
        return self.before != self.after


class Migration(NamedTuple):
    """All objects, in the order of the input, and new templates, one for each namespace that needs it."""

    changes: tuple[Change, ...]
    templates: tuple[Json, ...]


def migrate(
    raws: Iterable[Mapping[str, Any]],
    resources: Resources,
    *,
    gate: bool = True,
    ahead: Iterable[Template] = (),
    namespace: str | None = None,
) -> Migration:
    """Rewrite all objects; other kinds stay. Templates that the input has already are not added again.

    `ahead`: templates that are made in a namespace whether or not an object needs them. Raises Malformed if
    their names are those of others.
    """
    objects = [dict(one) for one in raws]
    there = Templates(objects)
    changes: list[Change] = []
    for before in objects:
        try:
            changes.append(_change(before, resources, there, gate=gate))
        except Malformed as exc:
            changes.append(Change(before, before, problem=exc))
    there.need(ahead, namespace, "--templates")
    return Migration(tuple(changes), there.made)


def _change(raw: Json, resources: Resources, there: Templates, *, gate: bool) -> Change:
    if raw.get("kind") == KIND:
        metadata_of(raw)
    after, templates, unmapped = _rewritten(raw, resources, gate=gate)
    if templates:
        there.need(templates, metadata_of(raw).get("namespace"), subject(raw))
    return Change(raw, after, tuple(dict.fromkeys(unmapped)))


def _rewritten(raw: Json, resources: Resources, *, gate: bool) -> tuple[Json, list[Template], list[str]]:
    path = POD_SPECS.get((_group(raw), str(raw.get("kind"))))
    templates: list[Template] = []
    unmapped: list[str] = []
    if path is None:
        return raw, templates, unmapped
    new = deepcopy(raw)
    metadata_of(raw)
    where = subject(raw)
    for at, owner in _owners(new, path[:-1], where):
        spec = owner.get(path[-1])
        annotations = metadata_of({**raw, "metadata": owner.get("metadata")}).get("annotations")
        for field, value in ((path[-1], spec), ("metadata.annotations", annotations)):
            if not isinstance(value, dict | None):
                raise Malformed(where, f"{at}.{field}".lstrip("."), "must be an object")
        found = None
        if spec is not None:
            found = rewrite(spec, resources, gate=gate, where=where, annotations=map(str, annotations or ()))
        if found is not None:
            owner[path[-1]] = found.spec
            templates += found.templates
            unmapped += found.unmapped
    return new, templates, unmapped


def _owners(node: Any, path: Sequence[str], where: str, at: str = "") -> Iterator[tuple[str, Json]]:
    """The maps at a path, each with its field; places that are missing are left out. Raises Malformed."""
    if node is None:
        return
    if path and path[0] == "*":
        if not isinstance(node, list):
            raise Malformed(where, at, "must be a list")
        for number, one in enumerate(node):
            yield from _owners(one, path[1:], where, f"{at}[{number}]")
        return
    if not isinstance(node, dict):
        raise Malformed(where, at, "must be an object")
    if path:
        yield from _owners(node.get(path[0]), path[1:], where, f"{at}.{path[0]}".lstrip("."))
    else:
        yield at, node
