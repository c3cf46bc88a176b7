"""Sources of volumes, of pods and of PersistentVolumes: the fields that decide where a volume can be used.

Source: core/v1, VolumeSource and PersistentVolumeSource.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from reconciler.api.objects.model import Bool, Model, Str, Tuple


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
