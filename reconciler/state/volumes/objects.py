"""The known storage objects, by name and by what other objects refer to."""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, TypeVar

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import Pod, Volume
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.storage import (
    STORAGE,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

V = TypeVar("V")

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class StorageObjects:
    """The newest version of every object."""

    def __init__(self, *, complete: bool) -> None:
        """`complete`: objects that are not put do not exist, and no control plane makes claims for ephemeral
        volumes. They are read from the templates of pods then.
        """
        self._complete = complete
        self.serial = 0
        """Number of relevant changes so far"""
        self.claims: dict[ObjectKey, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[ObjectKey, CSIStorageCapacity] = {}
        self.attachments: dict[str, VolumeAttachment] = {}
        self.claims_of: dict[str, set[ObjectKey]] = defaultdict(set)
        """Volume -> the claims that name it"""
        self.volumes_of: dict[str, dict[str, PersistentVolume]] = defaultdict(dict)
        """Class -> its volumes by name"""
        self.capacities_of: dict[str, dict[ObjectKey, CSIStorageCapacity]] = defaultdict(dict)
        """Class -> its capacities"""
        self.attached_to: dict[str, dict[str, VolumeAttachment]] = defaultdict(dict)
        """Node -> attachments by name"""
        self.nodes_of: dict[str, set[str]] = defaultdict(set)
        """Volume -> nodes that an attachment names"""
        self.volumes_serial: dict[str, int] = defaultdict(int)
        """Class -> number of changes of its volumes so far"""
        self.capacities_serial: dict[str, int] = defaultdict(int)
        """Class -> number of changes of its capacities so far"""

    @property
    def known(self) -> tuple[ApiObject, ...]:
        """All objects."""
        return tuple(thing for kind in STORAGE for thing in self._shelf(kind).values())

    def note(self, change: Change) -> list[tuple[ApiObject | None, ApiObject | None]]:
        """Apply a change; return the relevant differences as (before, after) of each object."""
        if change.kind not in STORAGE:
            return []
        match change:
            case Changed(object=thing):
                pairs = [self._put(change.kind, thing)]
            case Removed(key=key) | Refused(key=key):
                pairs = [self._drop(change.kind, key)]
            case Replaced(objects=objects):
                listed = {thing.key for thing in objects}
                gone = [key for key in self._keys(change.kind) if key not in listed]
                pairs = [self._drop(change.kind, key) for key in gone]
                pairs += [self._put(change.kind, thing) for thing in objects]
        found = [(before, after) for before, after in pairs if _relevant(before) != _relevant(after)]
        self.serial += bool(found)
        return found

    def claim_of(self, pod: Pod, volume: Volume) -> PersistentVolumeClaim | None:
        """The claim of a volume of a pod; None if it has none, or if it does not exist."""
        name = claim_name(pod, volume)
        if name is None:
            return None
        found = self.claims.get(ObjectKey(pod.key.namespace, name))
        if found is None and self._complete and volume.ephemeral is not None:
            return self._from_template(pod, volume, name)
        return found

    def default_class(self) -> str:
        """The class of new claims that name none; empty if there is none."""
        found = [
            (one.metadata.creation_timestamp or "", one.key.name)
            for one in self.classes.values()
            if one.metadata.annotations.get(DEFAULT_CLASS) == "true"
        ]
        newest = max((stamp for stamp, _ in found), default="")
        return min((name for stamp, name in found if stamp == newest), default="")

    def _from_template(self, pod: Pod, volume: Volume, name: str) -> PersistentVolumeClaim | None:
        assert volume.ephemeral is not None
        template = volume.ephemeral.volume_claim_template
        spec = dict(template.get("spec") or {})
        spec.setdefault("storageClassName", self.default_class() or None)
        owner = {"kind": "Pod", "name": pod.key.name, "uid": pod.metadata.uid, "controller": True}
        metadata = {**(template.get("metadata") or {}), "name": name, "namespace": pod.key.namespace}
        raw = {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": spec}
        return PersistentVolumeClaim.model_validate(raw)

    def _keys(self, kind: str) -> list[ObjectKey]:
        return [thing.key for thing in self._shelf(kind).values()]

    def _shelf(self, kind: str) -> dict[Any, Any]:
        shelves: dict[str, dict[Any, Any]] = {
            "PersistentVolume": self.volumes,
            "PersistentVolumeClaim": self.claims,
            "StorageClass": self.classes,
            "CSINode": self.csi_nodes,
            "CSIDriver": self.drivers,
            "CSIStorageCapacity": self.capacities,
            "VolumeAttachment": self.attachments,
        }
        return shelves[kind]

    def _put(self, kind: str, thing: ApiObject) -> tuple[ApiObject | None, ApiObject | None]:
        shelf, at = self._shelf(kind), _at(kind, thing.key)
        before = shelf.get(at)
        if before is not None and _relevant(before) == _relevant(thing):
            shelf[at] = thing
            return before, thing
        self._drop(kind, thing.key)
        shelf[at] = thing
        match thing:
            case PersistentVolumeClaim():
                self.claims_of[thing.spec.volume_name].add(thing.key)
            case PersistentVolume():
                self.volumes_of[thing.storage_class][thing.key.name] = thing
                self.volumes_serial[thing.storage_class] += 1
            case CSIStorageCapacity():
                self.capacities_of[thing.storage_class_name][thing.key] = thing
                self.capacities_serial[thing.storage_class_name] += 1
            case VolumeAttachment():
                self.attached_to[thing.spec.node_name][thing.key.name] = thing
                self.nodes_of[thing.spec.source.persistent_volume_name or ""].add(thing.spec.node_name)
        return before, thing

    def _drop(self, kind: str, key: ObjectKey) -> tuple[ApiObject | None, ApiObject | None]:
        before = self._shelf(kind).pop(_at(kind, key), None)
        match before:
            case PersistentVolumeClaim():
                _discard(self.claims_of, before.spec.volume_name, key)
            case PersistentVolume():
                del self.volumes_of[before.storage_class][key.name]
                self.volumes_serial[before.storage_class] += 1
            case CSIStorageCapacity():
                del self.capacities_of[before.storage_class_name][key]
                self.capacities_serial[before.storage_class_name] += 1
            case VolumeAttachment():
                self._drop_attachment(before)
        return before, None

    def _drop_attachment(self, gone: VolumeAttachment) -> None:
        node, name = gone.spec.node_name, gone.spec.source.persistent_volume_name or ""
        del self.attached_to[node][gone.key.name]
        if not any(one.spec.source.persistent_volume_name == name for one in self.attached_to[node].values()):
            _discard(self.nodes_of, name, node)
        if not self.attached_to[node]:
            del self.attached_to[node]


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The name of the claim behind a volume of a pod; None for other volumes."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.key.name}-{volume.name}" if volume.ephemeral is not None else None


def claims_named(pod: Pod) -> Iterator[tuple[Volume, ObjectKey]]:
    """The volumes of a pod that have a claim, with its key."""
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is not None:
            yield volume, ObjectKey(pod.key.namespace, name)


def _at(kind: str, key: ObjectKey) -> ObjectKey | str:
    return key if kind in ("PersistentVolumeClaim", "CSIStorageCapacity") else key.name


def _discard(index: dict[str, set[V]], key: str, value: V) -> None:
    index[key].discard(value)
    if not index[key]:
        del index[key]


def _relevant(thing: ApiObject | None) -> tuple[object, ...]:
    """What of an object decides where pods may run, instead of what changes with every event."""
    if thing is None:
        return ()
    metadata = thing.metadata
    meta = (metadata.uid, metadata.labels, metadata.annotations, metadata.owner_references)
    rest = [getattr(thing, name) for name in _fields(type(thing))]
    return (type(thing).__name__, meta, metadata.deletion_timestamp is None, *rest)


@lru_cache
def _fields(model: type[ApiObject]) -> tuple[str, ...]:
    return tuple(name for name in model.model_fields if name not in ("metadata", "kind"))
