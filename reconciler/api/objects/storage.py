"""What decides where a pod with volumes can run: the volumes of pods, and the storage objects of core/v1 and
storage.k8s.io/v1.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from reconciler.api.objects.meta import ApiObject
from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple
from reconciler.api.objects.quantity import ZERO, Quantity
from reconciler.api.objects.selectors import LabelSelector, NodeSelector

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The node for which kube-scheduler wants a volume to be made"""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"

Resources = Map[Quantity]
"""Amounts by resource: `cpu`, `memory`, `example.com/nic`"""


class GcePersistentDisk(Model):
    """A disk of Google Compute Engine."""

    pd_name: Str = ""
    read_only: Bool = False


class AwsElasticBlockStore(Model):
    """A volume of Amazon EBS."""

    volume_id: Str = Field(default="", alias="volumeID")


class AzureDisk(Model):
    """A data disk of Azure."""

    disk_uri: Str = Field(default="", alias="diskURI")
    kind: Str | None = None


class VolumeByID(Model):
    """A volume of Cinder or Portworx."""

    volume_id: Str = Field(default="", alias="volumeID")


class Iscsi(Model):
    """An iSCSI target."""

    iqn: Str = ""
    read_only: Bool = False


class Rbd(Model):
    """An image of Ceph RBD."""

    monitors: Tuple[Str] = ()
    pool: Str = "rbd"
    image: Str = ""
    read_only: Bool = False


class InTreeSource(Model):
    """The disk of a plugin that was part of Kubernetes and is a CSI driver today; at most one is set."""

    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: VolumeByID | None = None
    portworx_volume: VolumeByID | None = None


class ClaimVolumeSource(Model):
    """A PersistentVolumeClaim by its name."""

    claim_name: Str = ""


class EphemeralVolumeSource(Model):
    """A claim that is made for the pod alone."""

    volume_claim_template: dict[str, Any] = Field(default_factory=dict)
    """Metadata and spec of the PersistentVolumeClaim"""


class Volume(InTreeSource):
    """A volume of a pod."""

    name: Str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None


_DECIDING = frozenset(
    {
        "persistentVolumeClaim",
        "ephemeral",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "azureDisk",
        "cinder",
        "portworxVolume",
        "iscsi",
        "rbd",
    }
)


def _deciding(value: Any) -> Any:
    """Without volumes that every node can provide, such as tokens and config maps: most volumes are."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        return value
    return [one for one in value if not isinstance(one, Mapping) or not _DECIDING.isdisjoint(one)]


Volumes = Annotated[tuple[Volume, ...], BeforeValidator(_deciding)]
"""Volumes of a pod, as far as they may decide where it runs"""


class VolumeResources(Model):
    """The size that a claim requests."""

    requests: Resources = Field(default_factory=dict)


class PersistentVolumeClaimSpec(Model):
    """What a claim asks of its volume."""

    storage_class_name: Str | None = None
    volume_name: Str = ""
    access_modes: Tuple[Str] = ()
    volume_mode: Str | None = None
    volume_attributes_class_name: Str | None = None
    selector: LabelSelector | None = None
    resources: VolumeResources = Field(default_factory=VolumeResources)


class PersistentVolumeClaimStatus(Model):
    """The phase of a claim."""

    phase: Str = ""


class PersistentVolumeClaim(ApiObject):
    """A claim of a volume."""

    kind: Literal["PersistentVolumeClaim"] = "PersistentVolumeClaim"
    spec: PersistentVolumeClaimSpec = Field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = Field(default_factory=PersistentVolumeClaimStatus)

    @property
    def storage_class(self) -> str:
        """The name of its class; empty for none. The old annotation comes first."""
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storage_class_name or "")

    @property
    def bound(self) -> bool:
        """Whether it has its volume for good."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def requested(self) -> Quantity | None:
        """The size; None if it names none."""
        return self.spec.resources.requests.get("storage")


class ClaimReference(Model):
    """The claim of a volume."""

    namespace: Str = ""
    name: Str = ""
    uid: Str = ""


class VolumeNodeAffinity(Model):
    """The nodes that can use a volume."""

    required: NodeSelector | None = None


class CSIVolumeSource(Model):
    """A volume of a CSI driver."""

    driver: Str = ""
    volume_handle: Str = ""


class PersistentVolumeSpec(InTreeSource):
    """What a volume is, and who may use it where."""

    csi: CSIVolumeSource | None = None
    capacity: Resources = Field(default_factory=dict)
    access_modes: Tuple[Str] = ()
    volume_mode: Str | None = None
    volume_attributes_class_name: Str | None = None
    storage_class_name: Str = ""
    claim_ref: ClaimReference | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(Model):
    """The phase of a volume."""

    phase: Str = ""


class PersistentVolume(ApiObject):
    """A volume."""

    kind: Literal["PersistentVolume"] = "PersistentVolume"
    spec: PersistentVolumeSpec = Field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = Field(default_factory=PersistentVolumeStatus)

    @property
    def storage_class(self) -> str:
        """The name of its class; empty for none. The old annotation comes first."""
        return self.metadata.annotations.get(BETA_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Quantity:
        """Its capacity; zero if it has none."""
        return self.spec.capacity.get("storage", ZERO)

    def belongs_to(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it is bound, or was bound ahead, to a claim."""
        ref = self.spec.claim_ref
        if ref is None or (ref.namespace, ref.name) != claim.key:
            return False
        return not ref.uid or ref.uid == claim.metadata.uid


class TopologyRequirement(Model):
    """Values of a label of nodes."""

    key: Str = ""
    values: Tuple[Str] = ()


class TopologySelectorTerm(Model):
    """Requirements that must all hold. A term without any matches no node."""

    match_label_expressions: Tuple[TopologyRequirement] = ()


class StorageClass(ApiObject):
    """How volumes are made, and when claims are bound."""

    kind: Literal["StorageClass"] = "StorageClass"
    provisioner: Str = ""
    volume_binding_mode: Str | None = None
    allowed_topologies: Tuple[TopologySelectorTerm] = ()


class VolumeNodeResources(Model):
    """How many volumes of a driver a node can attach; None for no limit."""

    count: Int | None = Field(default=None, ge=0)


class CSINodeDriver(Model):
    """A CSI driver on a node."""

    name: Str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Model):
    """The CSI drivers on a node."""

    drivers: Tuple[CSINodeDriver] = ()


class CSINode(ApiObject):
    """What CSI drivers say about a node of the same name."""

    kind: Literal["CSINode"] = "CSINode"
    spec: CSINodeSpec = Field(default_factory=CSINodeSpec)

    def limits(self) -> dict[str, int]:
        """How many volumes of each driver can be attached. A driver that is missing has no limit."""
        return {
            one.name: one.allocatable.count
            for one in self.spec.drivers
            if one.allocatable is not None and one.allocatable.count is not None
        }


class CSIDriverSpec(Model):
    """What a driver asks of kube-scheduler."""

    storage_capacity: Bool | None = None
    prevent_pod_scheduling_if_missing: Bool | None = None


class CSIDriver(ApiObject):
    """A CSI driver."""

    kind: Literal["CSIDriver"] = "CSIDriver"
    spec: CSIDriverSpec = Field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(ApiObject):
    """The room for volumes of a class in a part of the cluster."""

    kind: Literal["CSIStorageCapacity"] = "CSIStorageCapacity"
    storage_class_name: Str = ""
    node_topology: LabelSelector | None = None
    """None: no node can use it"""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None

    @property
    def limit(self) -> Quantity | None:
        """The largest volume that fits; None if nothing is known."""
        return self.maximum_volume_size if self.maximum_volume_size is not None else self.capacity


class AttachmentSource(Model):
    """What is attached."""

    persistent_volume_name: Str | None = None


class VolumeAttachmentSpec(Model):
    """A volume and its node."""

    attacher: Str = ""
    node_name: Str = ""
    source: AttachmentSource = Field(default_factory=AttachmentSource)


class VolumeAttachment(ApiObject):
    """A volume that is attached to a node, or is to be."""

    kind: Literal["VolumeAttachment"] = "VolumeAttachment"
    spec: VolumeAttachmentSpec = Field(default_factory=VolumeAttachmentSpec)


_ALL: tuple[type[ApiObject], ...] = (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)
MODELS: Mapping[str, type[ApiObject]] = {model.__name__: model for model in _ALL}
STORAGE = tuple(MODELS)
"""The kinds, in the order in which they are listed"""
