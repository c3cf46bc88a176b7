"""Who owns which fields of an object, as `metadata.managedFields` shows it.

The rules are those of Kubernetes' structured-merge-diff. Paths are written as there: "f:" and a field, "k:"
and the keys of an entry of a list, "v:" and an entry of a set.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from reconciler.api.validation.kinds import GroupVersion, Object
from reconciler.embedded.routing import Target
from reconciler.embedded.schemas import LIST, MAP, VERSION, fields_of, model_of_kind

KEYS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
    "devices": (("driver", "device", "pool", "shareID"),),
    "conditions": (("type",),),
    "addresses": (("type",),),
    "ownerReferences": (("uid",),),
    "reservedFor": (("uid",),),
    "hostAliases": (("ip",),),
    "podIPs": (("ip",),),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "healthConditions": (("status", "reason"),),
    "resources": (("resourceID",),),
    "nodeAllocatableResourceClaimStatuses": (("resourceClaimName",),),
    **dict.fromkeys(
        (
            *("allocatedResourcesStatus", "claims", "compositePodGroupTemplates", "containers", "drivers"),
            *("env", "ephemeralContainers", "evictionResponders", "imagePullSecrets", "initContainers"),
            *("mapping", "overhead", "podGroupTemplates", "resourceClaimStatuses", "resourceClaims"),
            *("schedulingGates", "storageHealth", "volumeHealth", "volumes"),
        ),
        (("name",),),
    ),
}
"""List -> the fields that tell its entries apart; the list of a type has those that its entries have."""
MAPS = {
    "ContainerStatus", "Container", "EphemeralContainer", "NodeStatus", "ResourceRequirements", "PodSpec",
    "WorkloadSpec", "CompositePodGroupTemplate", "AllocatedDeviceStatus", "DeviceTaintRuleStatus",
    "NamespaceStatus", "PersistentVolumeClaimStatus", "PodDisruptionBudgetStatus", "PodGroupStatus",
    "PodStatus", "ServiceStatus", "ResourceClaimStatus", "CSINodeSpec", "PodGroupSpec", "PodGroupTemplate",
    "ServiceSpec", "ResourceStatus", "ObjectMeta",
}  # fmt: skip
"""Types whose lists with these names are such lists; the lists of all others are single values"""
SETS = {"finalizers", "podCIDRs", "skipNodeOperations", "volumeLifecycleModes", "bindMountOptions"}
ATOMIC = {
    "ConfigMapKeySelector", "EvictionResponder", "FileKeySelector", "LabelSelector", "LocalObjectReference",
    "NodeSelector", "NodeSelectorTerm", "ObjectFieldSelector", "ObjectReference", "OwnerReference",
    "ResourceFieldSelector", "SecretKeySelector", "SecretReference", "TopologySelectorTerm",
    "TypedLocalObjectReference",
}  # fmt: skip
"""Types that are single values"""
ATOMIC_MAPS = {"nodeSelector", "selector", "allocatedResourceStatuses", "claimRef"}
MOST_UPDATERS, ANCIENT = 10, "ancient-changes"
"""Owners of an object that update, at most, and who has the fields of the oldest ones"""
_DEFAULTS = {"protocol": "TCP"}
_UNOWNED = {
    *("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink"),
    "managedFields",
}
_ALWAYS_THERE = {
    *((), ("f:metadata",), ("f:spec",), ("f:status",)),
    *(("f:spec", f"f:{part}") for part in ("containers", "devices", "pool", "spec", "template")),
}
"""Kubernetes writes them even if they are empty: they are nobody's"""
INNER = object()
"""The value of a node that has nodes in it"""
Path = tuple[str, ...]


class _Type(NamedTuple):
    """How values of a type are owned."""

    name: str
    """Without its version"""
    is_single: bool
    of: str | None
    """The type of the entries of a map or list"""
    is_map: bool
    fields: Mapping[str, str]


@cache
def _type_of(kind: str) -> _Type:
    """Of the kind "" nothing is known; what the library calls "object" is one value."""
    name, a_map, a_list = VERSION.sub("", kind, count=1), MAP.fullmatch(kind), LIST.fullmatch(kind)
    entries = a_map or a_list
    is_single = name in ATOMIC or name == "object"
    return _Type(name, is_single, entries and entries["of"], a_map is not None, fields_of(kind) or {})


def _nodes(found: dict[Path, Any], value: Any, kind: str, path: Path, holder: str) -> None:
    """Add path and value of each node. `holder` is the type that has the field."""
    of_kind = _type_of(kind)
    if isinstance(value, dict) and value:
        if not (of_kind.is_single or (of_kind.is_map and path[-1][2:] in ATOMIC_MAPS)):
            found[path] = INNER
            for key, inner in value.items():
                of = of_kind.of or of_kind.fields.get(key, "")
                _nodes(found, inner, of, (*path, f"f:{key}"), of_kind.name)
            return
    elif isinstance(value, list) and value and holder in MAPS:
        name = path[-1][2:]
        if name in KEYS or name in SETS:
            found[path] = INNER
            for one in value:
                _nodes(found, one, of_kind.of or "", (*path, step_to(name, one)), "")
            return
    found[path] = value


def step_to(name: str, one: Any) -> str:
    """The step to an entry of a list."""
    if name not in KEYS or not isinstance(one, dict):
        return f"v:{json.dumps(one)}"
    names = next((names for names in KEYS[name] if names[0] in one), KEYS[name][0])
    keys = {key: one.get(key, _DEFAULTS.get(key)) for key in sorted(names)}
    found = {key: value for key, value in keys.items() if value is not None}
    return f"k:{json.dumps(found, separators=(',', ':'))}"


def nodes_of(target: Target, served: GroupVersion, obj: Object) -> dict[Path, Any]:
    """Path and value of all that can be owned through an endpoint: of its status only at its status."""
    is_status = target.subresource == "status"
    parts = {
        key: value
        for key, value in obj.items()
        if key not in ("kind", "apiVersion")
        and (not target.kind.has_status or (key == "status") is is_status)
    }
    metadata = {key: value for key, value in parts.pop("metadata", {}).items() if key not in _UNOWNED}
    if metadata:
        parts["metadata"] = metadata
    found: dict[Path, Any] = {}
    _nodes(found, parts, model_of_kind(served, target.kind), (), "")
    for path in _ALWAYS_THERE:
        if not path or found.get(path) is INNER:
            del found[path]
    return found


class Owner(NamedTuple):
    """Somebody who writes in one way."""

    manager: str
    subresource: str = ""
    applied: str = ""
    """The version of what is written; empty for Apply, which is one owner in all versions"""

    @property
    def operation(self) -> str:
        """Apply or Update."""
        return "Update" if self.applied else "Apply"


class Owned(NamedTuple):
    """What an owner has."""

    version: str
    """apiVersion of the paths"""
    time: str
    tree: Object
    """As `fieldsV1` has it"""

    @property
    def paths(self) -> set[Path]:
        """All that it has. Raises what comes of trees that are none."""
        return {*_paths(self.tree)}

    def without(self, changes: "Changes") -> "Owned":
        """It, less what somebody else has changed."""
        if any(_may_hold(self.tree, path) for part in changes for path in part):
            return self._replace(tree=tree_of(self.paths - changes.given - changes.gone))
        return self


Owners = dict[Owner, Owned]


def _may_hold(tree: Object, path: Path) -> bool:
    for step in path:
        if step not in tree:
            return False
        tree = tree[step]
    return True


def _holds(tree: Object, path: Path) -> bool:
    """Whether a path is one of those of a tree."""
    for step in path:
        if step not in tree:
            return False
        tree = tree[step]
    return not tree or "." in tree


def owners_of(managed: Iterable[Object]) -> Owners:
    """The owners in `managedFields`."""
    return {
        Owner(
            one.get("manager", ""),
            one.get("subresource", ""),
            one["apiVersion"] if one["operation"] == "Update" else "",
        ): Owned(one["apiVersion"], one.get("time", ""), one["fieldsV1"])
        for one in managed
    }


def _owners_given(managed: Any) -> Owners:
    """The owners in `managedFields` of a client; none if any of it cannot be read."""
    try:
        found = owners_of(managed)
        is_known = all(
            one["operation"] in ("Apply", "Update")
            and one["fieldsType"] == "FieldsV1"
            and all(
                isinstance(one.get(key, ""), str) for key in ("manager", "subresource", "apiVersion", "time")
            )
            for one in managed
        )
        return {
            owner: owned._replace(tree=tree_of(owned.paths - _ALWAYS_THERE))
            for owner, owned in found.items()
            if is_known
        }
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return {}


def only_times_differ(given: Any, managed: list[Object]) -> bool:
    """Whether `managedFields` that a write gives have no other news: no reason for a new version."""
    found, before = (
        {owner: owned._replace(time="") for owner, owned in owners.items()}
        for owners in (_owners_given(given), _owners_given(managed))
    )
    return found == before


def _paths(tree: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    if path and (not tree or "." in tree):
        yield path
    for step, inner in tree.items():
        if step != ".":
            if step[:2] not in ("f:", "k:", "v:"):
                raise ValueError(f"{step!r} is not a step of a path")
            yield from _paths(inner, (*path, step))


def managed_fields(owners: Owners) -> list[Object]:
    """The owners as `managedFields` shows them, without those that have nothing."""
    found = [
        {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owned.version,
            **({"time": owned.time} if owned.time else {}),
            "fieldsType": "FieldsV1",
            "fieldsV1": owned.tree,
            **({"subresource": owner.subresource} if owner.subresource else {}),
        }
        for owner, owned in owners.items()
        if owned.tree
    ]
    return sorted(found, key=lambda one: (one["operation"], one.get("time", ""), one["manager"]))


def tree_of(paths: Collection[Path]) -> Object:
    """Paths as `fieldsV1` has them."""
    root: Object = {}
    for path in sorted(paths):
        node = root
        for at, step in enumerate(path):
            if at and path[:at] in paths:
                node.setdefault(".", {})
            node = node.setdefault(step, {})
    return root


class Changes(NamedTuple):
    """What a write changes."""

    given: set[Path]
    """What is new or has another value"""
    gone: set[Path]


def changes_of(target: Target, old: Object, new: Object) -> Callable[[str], Changes]:
    """Compares two objects of the stored version, in any version."""
    differing = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    parts = [{key: value for key, value in one.items() if key in differing} for one in (old, new)]

    @cache
    def compared(version: str) -> Changes:
        group, _, of = version.rpartition("/")
        served = GroupVersion(group, of)
        was, now = (nodes_of(target, served, target.kind.downgrade(one, served)) for one in parts)
        given = {path for path, value in now.items() if path not in was or was[path] != value}
        return Changes(given, was.keys() - now.keys())

    return compared


def after_create(target: Target, owner: Owner, new: Object, moment: str) -> list[Object]:
    """`managedFields` of an object of the stored version that was created without apply."""
    found = nodes_of(target, target.served, target.kind.downgrade(new, target.served))
    return managed_fields({owner: Owned(str(target.served), moment, tree_of(found))})


def after_update(
    target: Target, owner: Owner, given: Any, old: Object, new: Object, moment: str
) -> list[Object]:
    """`managedFields` after a write that is no apply, from those that it gives, or else the present ones.

    Whoever empties them ends them: fields have owners again after the next apply.
    """
    if given in ([], [{}]):
        return []
    managed = old["metadata"].get("managedFields", [])
    owners = owners_of(managed) if given == managed else _owners_given(given) or owners_of(managed)
    if not owners:
        return []
    version = str(target.served)
    changed = changes_of(target, old, new)
    mine = owners.pop(owner, Owned(version, "", {}))
    owners = {other: owned.without(changed(owned.version)) for other, owned in owners.items()}
    given, gone = changed(version)
    if given and not gone and all(_holds(mine.tree, path) for path in given):
        owners[owner] = mine._replace(time=moment)  # as a renewal of a Lease
    else:
        time = moment if given else mine.time
        owners[owner] = Owned(mine.version, time, tree_of((mine.paths - gone) | given))
    return managed_fields(_capped({one: owned for one, owned in owners.items() if owned.tree}))


def _capped(owners: Owners) -> Owners:
    """The owners; beyond `MOST_UPDATERS` that update, the oldest of a version become one."""
    updaters = sorted((one for one in owners if one.applied), key=lambda one: (owners[one].time, one.manager))
    first: dict[str, Owner] = {}
    excess = len(updaters) - MOST_UPDATERS
    for one in updaters:
        if excess <= 0:
            break
        oldest, ancient = first.setdefault(one.applied, one), Owner(ANCIENT, applied=one.applied)
        if one not in (oldest, ancient):
            kept = owners.pop(ancient, None) or owners.pop(oldest)
            mine = owners.pop(one)
            owners[ancient] = mine._replace(tree=tree_of(kept.paths | mine.paths))
            excess -= 1
    return owners


def prefixes(paths: Iterable[Path]) -> set[Path]:
    """The paths, and those of all that holds them."""
    return {path[:end] for path in paths for end in range(len(path) + 1)}
