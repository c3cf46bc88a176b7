"""The known storage objects, by name and by what other objects refer to.

In-tree disks count as volumes of the CSI drivers that replaced them.

Source: VOL-5; package csi-translation-lib.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from reconciler.api.objects import storage
from reconciler.api.objects.changes import Change, versions
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ApiObject, ObjectKey
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

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
        self.claims: dict[ObjectKey, storage.PersistentVolumeClaim] = {}
        self.volumes: dict[str, storage.PersistentVolume] = {}
        self.classes: dict[str, storage.StorageClass] = {}
        self.csi_nodes: dict[str, storage.CSINode] = {}
        self.drivers: dict[str, storage.CSIDriver] = {}
        self.capacities: dict[ObjectKey, storage.CSIStorageCapacity] = {}
        self.attachments: dict[str, storage.VolumeAttachment] = {}
        self.claims_of: dict[str, set[ObjectKey]] = defaultdict(set)
        """Volume -> the claims that name it"""
        self.volumes_of: dict[str, dict[str, storage.PersistentVolume]] = defaultdict(dict)
        """Class -> its volumes by name"""
        self.capacities_of: dict[str, dict[ObjectKey, storage.CSIStorageCapacity]] = defaultdict(dict)
        """Class -> its capacities"""
        self.attached_to: dict[str, dict[str, storage.VolumeAttachment]] = defaultdict(dict)
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
        return tuple(thing for kind in storage.STORAGE for thing in self._shelf(kind).values())

    def note(self, change: Change) -> list[tuple[ApiObject | None, ApiObject | None]]:
        """Apply a change; return the relevant differences as (before, after) of each object."""
        if change.kind not in storage.STORAGE:
            return []
        kind = change.kind
        pairs = [
            self._drop(kind, key) if thing is None else self._put(kind, thing)
            for key, thing in versions(change, ApiObject, (one.key for one in self._shelf(kind).values()))
        ]
        found = [(before, after) for before, after in pairs if _relevant(before) != _relevant(after)]
        self.serial += bool(found)
        return found

    def claim_of(self, pod: Pod, volume: storage.Volume) -> storage.PersistentVolumeClaim | None:
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

    def _from_template(
        self, pod: Pod, volume: storage.Volume, name: str
    ) -> storage.PersistentVolumeClaim | None:
        assert volume.ephemeral is not None
        template = volume.ephemeral.volume_claim_template
        spec = dict(template.get("spec") or {})
        spec.setdefault("storageClassName", self.default_class() or None)
        owner = {"kind": "Pod", "name": pod.key.name, "uid": pod.metadata.uid, "controller": True}
        metadata = {**(template.get("metadata") or {}), "name": name, "namespace": pod.key.namespace}
        raw = {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": spec}
        return storage.PersistentVolumeClaim.model_validate(raw)

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
            case storage.PersistentVolumeClaim():
                self.claims_of[thing.spec.volume_name].add(thing.key)
            case storage.PersistentVolume():
                self.volumes_of[thing.storage_class][thing.key.name] = thing
                self.volumes_serial[thing.storage_class] += 1
            case storage.CSIStorageCapacity():
                self.capacities_of[thing.storage_class_name][thing.key] = thing
                self.capacities_serial[thing.storage_class_name] += 1
            case storage.VolumeAttachment():
                self.attached_to[thing.spec.node_name][thing.key.name] = thing
                self.nodes_of[thing.spec.source.persistent_volume_name or ""].add(thing.spec.node_name)
        return before, thing

    def _drop(self, kind: str, key: ObjectKey) -> tuple[ApiObject | None, ApiObject | None]:
        before = self._shelf(kind).pop(_at(kind, key), None)
        match before:
            case storage.PersistentVolumeClaim():
                _discard(self.claims_of, before.spec.volume_name, key)
            case storage.PersistentVolume():
                del self.volumes_of[before.storage_class][key.name]
                self.volumes_serial[before.storage_class] += 1
            case storage.CSIStorageCapacity():
                del self.capacities_of[before.storage_class_name][key]
                self.capacities_serial[before.storage_class_name] += 1
            case storage.VolumeAttachment():
                self._drop_attachment(before)
        return before, None

    def _drop_attachment(self, gone: storage.VolumeAttachment) -> None:
        node, name = gone.spec.node_name, gone.spec.source.persistent_volume_name or ""
        del self.attached_to[node][gone.key.name]
        if not any(one.spec.source.persistent_volume_name == name for one in self.attached_to[node].values()):
            _discard(self.nodes_of, name, node)
        if not self.attached_to[node]:
            del self.attached_to[node]


def claim_name(pod: Pod, volume: storage.Volume) -> str | None:
    """The name of the claim behind a volume of a pod; None for other volumes."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.key.name}-{volume.name}" if volume.ephemeral is not None else None


def claims_named(pod: Pod) -> Iterator[tuple[storage.Volume, ObjectKey]]:
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


MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
"""The annotation of a CSINode that names the plugins whose disks a CSI driver serves there"""
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
SEPARATOR = "__"
"""Between the zones in a label of a volume in several zones"""


class VolumeID(NamedTuple):
    """What is attached to a node."""

    driver: str
    handle: str


class Plugin(NamedTuple):
    """An in-tree plugin."""

    name: str
    driver: str
    topology_key: str = ""
    """Replaces the label of the zone in the node affinity of a volume; empty: it stays"""


AWS = Plugin("kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone")
GCE = Plugin("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone")
AZURE = Plugin("kubernetes.io/azure-disk", "disk.csi.azure.com")
CINDER = Plugin("kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone")
PORTWORX = Plugin("kubernetes.io/portworx-volume", "pxd.portworx.com")
DRIVER_OF = {plugin.name: plugin.driver for plugin in (AWS, GCE, AZURE, CINDER, PORTWORX)}
"""Provisioner of a class -> its CSI driver. Kubernetes counts the disks of these plugins as CSI volumes"""
UNCOUNTED = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""Provisioners whose volumes are not counted, although CSI drivers replaced them"""


def plugin_of(source: storage.InTreeSource) -> Plugin | None:
    """The plugin of a disk; None for other volumes."""
    if source.gce_persistent_disk is not None:
        return GCE
    if source.aws_elastic_block_store is not None:
        return AWS
    if source.cinder is not None:
        return CINDER
    if source.azure_disk is not None:
        return AZURE
    return PORTWORX if source.portworx_volume is not None else None


def inline_id(volume: storage.Volume) -> VolumeID | None:
    """What a disk that a pod names itself attaches; None for other volumes."""
    plugin = plugin_of(volume)
    return None if plugin is None else VolumeID(plugin.driver, _handle(volume, ""))


def volume_id(volume: storage.PersistentVolume) -> VolumeID | None:
    """What a PersistentVolume attaches; None for other storage than CSI volumes and in-tree disks."""
    if (csi := volume.spec.csi) is not None:
        return VolumeID(csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
    plugin = plugin_of(volume.spec)
    if plugin is None:
        return None
    labels = volume.metadata.labels
    handle = _handle(volume.spec, labels.get(BETA_ZONE) or labels.get(ZONE) or "")
    return VolumeID(plugin.driver, handle) if handle else None


def migrated(node: storage.CSINode, plugin: Plugin) -> bool:
    """Whether a CSI driver serves the disks of a plugin on a node."""
    return plugin.name in node.metadata.annotations.get(MIGRATED, "").split(",")


def translated_affinity(volume: storage.PersistentVolume, plugin: Plugin) -> NodeSelector | None:
    """The node affinity of an in-tree disk where a CSI driver serves it; None if it has none."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if not plugin.topology_key:
        return required
    terms = () if required is None else required.node_selector_terms
    keys = {one.key for term in terms for one in term.match_expressions}
    labels = volume.metadata.labels
    old = ZONE not in keys and (BETA_ZONE in keys or (ZONE not in labels and BETA_ZONE in labels))
    zone = BETA_ZONE if old else ZONE
    renamed = {BETA_REGION: REGION} if old else {}
    in_terms = any(one.key == zone and one.values for term in terms for one in term.match_expressions)
    if in_terms:
        renamed[zone] = plugin.topology_key
    found = [
        tuple(one.model_copy(update={"key": renamed.get(one.key, one.key)}) for one in term.match_expressions)
        for term in terms
    ]
    zones = sorted({one.strip() for one in labels.get(zone, "").split(SEPARATOR)} - {""})
    if not in_terms and zones:
        added = NodeSelectorRequirement(key=plugin.topology_key, operator="In", values=tuple(zones))
        found = [(*expressions, added) for expressions in found or [()]]
    elif required is None:
        return None
    fields = [term.match_fields for term in terms] or [()]
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(match_expressions=expressions, match_fields=named)
            for expressions, named in zip(found, fields, strict=False)
        )
    )


def _handle(source: storage.InTreeSource, zones: str) -> str:
    """The handle of a disk for its CSI driver; empty if the driver could not use it."""
    if (gce := source.gce_persistent_disk) is not None:
        found = zones.split(SEPARATOR)
        if len(found) > 1:
            regions = {zone.rpartition("-")[0] for zone in found}
            region = regions.pop() if len(regions) == 1 else ""
            return f"projects/UNSPECIFIED/regions/{region}/disks/{gce.pd_name}" if region else ""
        return f"projects/UNSPECIFIED/zones/{zones or 'UNSPECIFIED'}/disks/{gce.pd_name}"
    if (aws := source.aws_elastic_block_store) is not None:
        return aws.volume_id.rpartition("/")[2] if aws.volume_id.startswith("aws://") else aws.volume_id
    if (azure := source.azure_disk) is not None:
        return azure.disk_uri if (azure.kind or "managed").lower() == "managed" else ""
    by_id = source.cinder or source.portworx_volume
    return by_id.volume_id if by_id is not None else ""
