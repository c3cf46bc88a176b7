"""Server-side apply: which manager owns which fields, where two disagree, and which fields go.

Owners are kept beside the objects, and only of objects that were applied. Between two applies, whatever
changed belongs to somebody else, as all fields do of an object that was made otherwise. Objects do not show
their owners: `metadata.managedFields` stays empty.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.api.validation.bodies import Refusal, bad_request, copy, decode_json, not_implemented
from reconciler.api.validation.fields import Field
from reconciler.api.validation.kinds import GroupVersion, Object
from reconciler.embedded.routing import Target
from reconciler.embedded.schemas import LIST, MAP, VERSION, fields_of, known, model_of_kind
from reconciler.embedded.store import Record

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
_DEFAULTS = {"protocol": "TCP"}
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_UNOWNED = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "generateName")


class Entry(NamedTuple):
    """The step of a path into a list: the entry with some values at the fields that tell entries apart."""

    names: tuple[str, ...]
    values: tuple[Any, ...]


Path = tuple[str | Entry, ...]
Leaves = dict[Path, Any]


def leaves(value: Any, kind: str, path: Path = (), holder: str = "") -> Iterator[tuple[Path, Any]]:
    """Path and value of each field that is owned as a whole. `holder` is the type that has the field."""
    short, name = VERSION.sub("", kind, count=1), path[-1] if path else ""
    if isinstance(value, dict) and value and short not in ATOMIC:
        is_map = MAP.fullmatch(kind)
        if is_map and name in ATOMIC_MAPS:
            yield path, value
            return
        fields = fields_of(kind) or {}
        for key, inner in value.items():
            of = is_map["of"] if is_map else fields.get(key, "object")
            yield from leaves(inner, of, (*path, key), short)
    elif isinstance(value, list) and value and holder in MAPS and (name in KEYS or name in SETS):
        match = LIST.fullmatch(kind)
        for one in value:
            entry = entry_of(str(name), one)
            if isinstance(one, dict):
                yield from leaves(one, match["of"] if match else "object", (*path, entry))
            else:
                yield (*path, entry), one
    else:
        yield path, value


def entry_of(name: str, one: Any) -> Entry:
    """The step to an entry of a list."""
    if name in SETS:
        return Entry((), (one,))
    known_names = KEYS[name]
    names = next((names for names in known_names if names[0] in (one or ())), None)
    if names is None:
        why = f'associative list with keys has an element that omits key field "{known_names[0][0]}"'
        raise Refusal(500, "", f"failed to create typed patch object: .{name}: {why}")
    return Entry(names, tuple(one.get(key, _DEFAULTS.get(key)) for key in names))


class _Owned(Struct):
    """Who owns the fields of one object."""

    uid: str
    served: GroupVersion
    live: Leaves
    """The fields after the last apply"""
    managers: Mapping[str, set[Path]]


OTHERS = "before-first-apply"
"""The manager of what was written in other ways"""


class Applied(NamedTuple):
    """An object after an apply, and who owns which of its fields then."""

    object: Object
    managers: Mapping[str, set[Path]]


class Applier:
    """Applies configurations, and remembers who applied what."""

    def __init__(self) -> None:
        self._owned: dict[tuple[str, str], _Owned] = {}

    def checked(self, target: Target, config: Any, *, newer: bool) -> Object:
        """A configuration that can be applied. Raises a Refusal."""
        model = model_of_kind(target.served, target.kind)
        if not model:
            raise not_implemented(
                f"server-side apply of {target.kind.kind} in {target.served} is not supported here: the "
                "types of its fields are not known; use kubectl apply without --server-side"
            )
        if not isinstance(config, dict):
            raise bad_request("expected an object")
        found = known(config, model, newer=newer)
        if found.wrong:
            fields = ", ".join(
                f".{why.split(chr(34))[1]}: field not declared in schema" for why in found.wrong
            )
            where = f"{target.namespace}/{target.name}; {target.served}, Kind={target.kind.kind}"
            raise Refusal(500, "", f"failed to create typed patch object ({where}): {fields}")
        if Field(config)["metadata"]["managedFields"].items():
            raise bad_request("metadata.managedFields must be nil")
        body: Object = found.body
        return body

    def merged(self, target: Target, shown: Object, config: Object, *, manager: str, force: bool) -> Applied:
        """The object with the configuration applied. Raises a 409 where another manager disagrees."""
        now, wanted = _of(target, shown), _wanted(target, config)
        owned = self._at(target, shown, now)
        changed = {path for path in now.keys() | owned.live.keys() if now.get(path) != owned.live.get(path)}
        managers = {name: paths - changed for name, paths in owned.managers.items()}
        mine = managers.pop(manager, set())
        managers[OTHERS] = managers.get(OTHERS, set()) | (changed & now.keys())
        parents = {path[:end] for path in now for end in range(1, len(path))}
        # An empty map or list says nothing about what is in it.
        placed = {path: value for path, value in wanted.items() if value or path not in parents}
        disputed = {path for path, value in placed.items() if path in now and now[path] != value}
        conflicts = [
            (name, path) for name, paths in managers.items() for path in sorted(disputed & paths, key=str)
        ]
        if conflicts and not force:
            raise _conflict(target, conflicts)
        managers = {name: paths - disputed for name, paths in managers.items()}
        result = copy(shown)
        for path, value in placed.items():
            _put(result, path, value)
        needed = set(wanted).union(*managers.values())
        kept = {path[:end] for path in needed for end in range(len(path) + 1)}
        for path in mine - kept:
            _remove(result, next(path[:end] for end in range(len(path) + 1) if path[:end] not in kept))
        for key in ("uid", "resourceVersion", "name", "namespace"):
            if key in (config.get("metadata") or {}):
                result["metadata"][key] = config["metadata"][key]
        return Applied(result, {**managers, manager: set(wanted)})

    def settle(self, target: Target, managers: Mapping[str, set[Path]], after: Record) -> None:
        """Remember who owns the fields of an object that was applied."""
        live = _of(target, target.kind.downgrade(after.object, target.served))
        uid = after.object["metadata"]["uid"]
        known_managers = {name: paths & live.keys() for name, paths in managers.items()}
        self._owned[target.kind.plural, target.key] = _Owned(uid, target.served, live, known_managers)

    def created(self, target: Target, config: Object, manager: str, after: Record) -> None:
        """Remember who owns the fields of an object that an apply created."""
        self.settle(target, {manager: set(_wanted(target, config))}, after)

    def _at(self, target: Target, shown: Object, now: Leaves) -> _Owned:
        owned = self._owned.get((target.kind.plural, target.key))
        uid = shown["metadata"]["uid"]
        if owned is None or owned.uid != uid:
            # kubectl takes over what it applied without --server-side.
            before = set(_wanted(target, _last_applied(shown))) & now.keys()
            return _Owned(uid, target.served, now, {"kubectl": before, OTHERS: now.keys() - before})
        if owned.served != target.served:
            raise not_implemented(
                f"server-side apply in {target.served} after one in {owned.served} is not supported here; "
                f"apply it in {owned.served}"
            )
        return owned


def _last_applied(shown: Object) -> Object:
    annotation = shown["metadata"].get("annotations", {}).get(_LAST_APPLIED, "{}")
    try:
        found: Object = decode_json(annotation.encode())
    except Refusal:
        return {}
    return found


def _of(target: Target, obj: Object) -> Leaves:
    """The owned fields of an object in the target's version."""
    model = model_of_kind(target.served, target.kind)
    unowned = {("metadata", key) for key in _UNOWNED} | {("kind",), ("apiVersion",), ()}
    return {path: value for path, value in leaves(obj, model) if path not in unowned}


def _wanted(target: Target, config: Object) -> Leaves:
    """The fields that a configuration can set at an endpoint: status only at its own."""
    is_status = target.subresource == "status"
    found = _of(target, config)
    if not target.kind.has_status:
        return found
    return {path: value for path, value in found.items() if (path[0] == "status") is is_status}


def _put(holder: Any, path: Path, value: Any) -> None:
    for at, step in enumerate(path):
        is_last = at == len(path) - 1
        if isinstance(step, Entry):
            if not step.names:
                if step.values[0] not in holder:
                    holder.append(step.values[0])
                return
            found = next((one for one in holder if entry_at(one, step.names) == step), None)
            if found is None:
                pairs = zip(step.names, step.values, strict=True)
                holder.append(found := {name: value for name, value in pairs if value is not None})
            holder = found
        elif is_last:
            holder[step] = value
        else:
            empty: Any = [] if isinstance(path[at + 1], Entry) else {}
            inner = holder.get(step)
            if not isinstance(inner, type(empty)):
                inner = holder[step] = empty
            holder = inner


def entry_at(one: Any, names: tuple[str, ...]) -> Entry:
    """The step to an entry by given fields."""
    return Entry(names, tuple(one.get(key, _DEFAULTS.get(key)) for key in names))


def _remove(holder: Any, path: Path) -> None:
    step, rest = path[0], path[1:]
    if isinstance(step, Entry):
        for one in list(holder):
            if (one == step.values[0]) if not step.names else (entry_at(one, step.names) == step):
                if rest:
                    _remove(one, rest)
                if not rest or one == {}:
                    holder.remove(one)
    elif step in holder:
        if rest:
            _remove(holder[step], rest)
        if not rest or holder[step] in ({}, []):
            del holder[step]


def _conflict(target: Target, conflicts: list[tuple[str, Path]]) -> Refusal:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{name}" using {target.served}',
            "field": _text(path),
        }
        for name, path in conflicts
    ]
    many = "conflict" if len(causes) == 1 else "conflicts"
    text = ", ".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    message = f"Apply failed with {len(causes)} {many}: {text}"
    return Refusal(409, "Conflict", message, details={"causes": causes})


def _text(path: Path) -> str:
    parts = []
    for step in path:
        if isinstance(step, str):
            parts.append(f".{step}")
        else:
            pairs = ",".join(f'{name}="{value}"' for name, value in zip(step.names, step.values, strict=True))
            parts.append(f"[{pairs}]" if step.names else f'[="{step.values[0]}"]')
    return "".join(parts)
