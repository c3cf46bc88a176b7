"""Rewrites the spec of one pod: requests of its containers for extended resources become claims.

Every container and sidecar gets a claim of its own for each resource. An init container that ends uses the
claims of those that start after it, as it used their devices before; only what they lack is added.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from hashlib import sha256
from typing import Any, NamedTuple

from reconciler.api.migrate.special_claims import ALWAYS, IMPLICIT, MOST, Resources, Wanted, shared_requests
from reconciler.api.objects.core import GATE
from reconciler.api.objects.quantity import NANO, Quantity
from reconciler.api.validation.pods import is_counted
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


LONGEST = 63
_COUNT = re.compile(r"[1-9][0-9]?")
_NATIVE = re.compile(r"([a-z0-9.-]+\.)?kubernetes\.io/")


class Template(NamedTuple):
    """A ResourceClaimTemplate that a pod needs."""

    wanted: Wanted
    devices: int

    @property
    def name(self) -> str:
        """By devices and count, such as `gpu.nvidia.com-2`."""
        return f"{self.wanted.label}-{self.devices}"

    def spec(self) -> Json:
        """The spec of its claims."""
        exactly: Json = {"deviceClassName": self.wanted.device_class}
        if self.wanted.selector:
            exactly["selectors"] = [{"cel": {"expression": self.wanted.selector}}]
        if self.devices > 1:
            exactly["count"] = self.devices
        return {"devices": {"requests": [{"name": "devices", "exactly": exactly}]}}


def template_named(name: str, resources: Resources) -> Template | None:
    """The template that has a name, the other way round than `Template.name`; None for all other names."""
    label, _, count = name.rpartition("-")
    if not label or not _COUNT.fullmatch(count) or int(count) > MOST:
        return None
    return Template(resources.labelled(label), int(count))


class Rewritten(NamedTuple):
    """The new spec of a pod, and what it needs."""

    spec: Json
    templates: tuple[Template, ...]
    unmapped: tuple[str, ...]
    """Extended resources that stand for nothing; their requests stay"""


class _Entry(NamedTuple):
    """A claim of the pod."""

    name: str
    template: Template


def rewrite(
    spec: Mapping[str, Any],
    resources: Resources,
    *,
    gate: bool,
    where: str,
    annotations: Iterable[str] = (),
) -> Rewritten | None:
    """The new spec; None if it requests no extended resource. The given one stays as it is.

    `gate`: also add our scheduling gate, unless the pod has a node. Raises Malformed for requests that cannot
    be rewritten; `where` names the object in its message. `annotations` are the names of those of the pod.
    """
    check_pod_spec(spec, where)
    new: Json = deepcopy(dict(spec))
    inits, mains = new.get("initContainers") or [], new.get("containers") or []
    asked = [_requests(one, resources, where) for one in (*inits, *mains)]
    if not any(asked):
        return None
    _check_whole(asked, resources, annotations, where)
    taken = {one["name"] for one in new.get("resourceClaims") or ()}
    entries: list[_Entry] = []
    names = dict.fromkeys(name for each in asked for name in each)
    unmapped = [name for name in names if resources.wanted(name) is None]
    for resource in names:
        wanted = resources.wanted(resource)
        if wanted is not None:
            counts = [each.get(resource, 0) for each in asked]
            entries += _entries(wanted, counts, inits, mains, taken)
    for container in (*inits, *mains):
        _remove(container, {name for name in names if name not in unmapped})
    if entries:
        added = [{"name": one.name, "resourceClaimTemplateName": one.template.name} for one in entries]
        new["resourceClaims"] = [*(new.get("resourceClaims") or ()), *added]
        if gate and not new.get("nodeName"):
            gates = new.get("schedulingGates") or []
            if not any(one.get("name") == GATE for one in gates):
                new["schedulingGates"] = [*gates, {"name": GATE}]
    return Rewritten(new, tuple(dict.fromkeys(one.template for one in entries)), tuple(unmapped))


def _entries(
    wanted: Wanted, counts: Sequence[int], inits: Sequence[Json], mains: Sequence[Json], taken: set[str]
) -> Iterable[_Entry]:
    """The claims for one resource. Adds them to the containers that use them, and their names to `taken`."""
    containers = [*inits, *mains]
    ending = [at for at, one in enumerate(inits) if one.get("restartPolicy") != ALWAYS]
    made, uses = shared_requests(counts, ending)
    entries: dict[int, _Entry] = {}
    for at, count in made.items():
        user = "init" if at in ending else containers[at]["name"]
        entries[at] = _Entry(_name(f"{user}-{wanted.label}", taken), Template(wanted, count))
    for at, of in uses:
        _use(containers[at], entries[of])
    return entries.values()


def _requests(container: Mapping[str, Any], resources: Resources, where: str) -> dict[str, int]:
    """Extended resource -> devices. Raises Malformed."""
    found = container.get("resources") or {}
    limits, requests = found.get("limits") or {}, found.get("requests") or {}
    made = {}
    for name in dict.fromkeys((*limits, *requests)):
        if not is_extended(name):
            continue
        field = f"container {container.get('name')}: {name}"
        counts = {_count(part[name], where, field) for part in (limits, requests) if name in part}
        if len(counts) > 1:
            raise Malformed(where, field, f"limit {limits[name]} and request {requests[name]} differ")
        if name not in limits and is_counted(name):
            raise Malformed(
                where, field, f"request {requests[name]} has no limit; the API server requires one"
            )
        (count,) = counts
        if count > MOST and resources.wanted(name) is not None:
            raise Malformed(where, field, f"{count} devices; a claim has at most {MOST}")
        made[name] = count
    return made


SHARES = re.compile("mem|core|percent|ratio|priorit|tile|slice|share")
"""Parts of the names of resources that say how much of a device a pod gets, such as nvidia.com/gpumem"""
CHOOSES = re.compile(
    r"[^/]+/(no)?use-.+"
    r"|scheduling\.koordinator\.sh/(device-allocate-hint|device-joint-allocate|gpu-partition-spec)"
)
"""Annotations by which a pod chooses among devices, such as nvidia.com/use-gputype"""


def _check_whole(
    asked: Iterable[Mapping[str, int]], resources: Resources, annotations: Iterable[str], where: str
) -> None:
    """Raise Malformed if a claim for whole devices of the class would give the pod more than it asks for."""
    names = dict.fromkeys(name for each in asked for name, count in each.items() if count)
    whole = {name.rpartition("/")[0]: name for name in names if resources.wanted(name) is not None}
    for name in names:
        domain, _, what = name.rpartition("/")
        if domain in whole and resources.wanted(name) is None and SHARES.search(what):
            raise Malformed(
                where,
                name,
                f"asks for a share of {whole[domain]}, and a claim would be for whole devices; write the "
                "claim by hand, with capacity of a device that can be shared, or remove this resource",
            )
    for name in annotations if whole else ():
        if CHOOSES.fullmatch(name):
            raise Malformed(
                where,
                f"metadata.annotations[{name}]",
                "chooses among devices, and a claim would not; write the claim by hand, with a selector, "
                "or remove the annotation",
            )


def is_extended(resource: str) -> bool:
    """Whether a resource is extended: of a domain that is not Kubernetes' own, or of a class."""
    if resource.startswith(IMPLICIT):
        return True
    return "/" in resource and not resource.startswith("requests.") and not _NATIVE.match(resource)


def _count(value: object, where: str, field: str) -> int:
    try:
        nanos = Quantity.parse(str(value)).nanos
    except ValueError as exc:
        raise Malformed(where, field, f"{value!r} is not a quantity") from exc
    if nanos < 0 or nanos % NANO:
        raise Malformed(where, field, f"{value} is not a whole number of devices")
    return nanos // NANO


def _use(container: Json, entry: _Entry) -> None:
    found = container.setdefault("resources", {})
    found["claims"] = [*(found.get("claims") or ()), {"name": entry.name}]


def _remove(container: Json, names: Iterable[str]) -> None:
    """Remove limits and requests. With either left, kube-scheduler would make a claim of its own."""
    found = container.get("resources") or {}
    for part in ("limits", "requests"):
        if part in found:
            found[part] = {name: value for name, value in (found[part] or {}).items() if name not in names}
            if not found[part]:
                del found[part]
    if "resources" in container and not found:
        del container["resources"]


def _name(text: str, taken: set[str]) -> str:
    """A DNS label that no other claim of the pod has."""
    label = re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")
    if len(label) > LONGEST:
        label = f"{label[: LONGEST - 9].rstrip('-')}-{sha256(text.encode()).hexdigest()[:8]}"
    name, number = label, 1
    while name in taken:
        number += 1
        name = f"{label[: LONGEST - 4]}-{number}"
    taken.add(name)
    return name
