"""In-tree disks as volumes of the CSI drivers that replaced them.

Source: VOL-5; package csi-translation-lib.
"""

from typing import NamedTuple

from reconciler.api.objects.core import InTreeSource, Volume
from reconciler.api.objects.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from reconciler.api.objects.storage import CSINode, PersistentVolume

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


def plugin_of(source: InTreeSource) -> Plugin | None:
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


def inline_id(volume: Volume) -> VolumeID | None:
    """What a disk that a pod names itself attaches; None for other volumes."""
    plugin = plugin_of(volume)
    return None if plugin is None else VolumeID(plugin.driver, _handle(volume, ""))


def volume_id(volume: PersistentVolume) -> VolumeID | None:
    """What a PersistentVolume attaches; None for other storage than CSI volumes and in-tree disks."""
    if (csi := volume.spec.csi) is not None:
        return VolumeID(csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None
    plugin = plugin_of(volume.spec)
    if plugin is None:
        return None
    labels = volume.metadata.labels
    handle = _handle(volume.spec, labels.get(BETA_ZONE) or labels.get(ZONE) or "")
    return VolumeID(plugin.driver, handle) if handle else None


def migrated(node: CSINode, plugin: Plugin) -> bool:
    """Whether a CSI driver serves the disks of a plugin on a node."""
    return plugin.name in node.metadata.annotations.get(MIGRATED, "").split(",")


def translated_affinity(volume: PersistentVolume, plugin: Plugin) -> NodeSelector | None:
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


def _handle(source: InTreeSource, zones: str) -> str:
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
