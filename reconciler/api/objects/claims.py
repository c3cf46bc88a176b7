"""ResourceClaim, ResourceClaimTemplate, DeviceClass (resource.k8s.io/v1): docs/reference/rules/claims.md."""

from hashlib import sha256
from typing import Any, ClassVar, Literal

from pydantic import Field

from reconciler.api.objects.meta import ApiObject, DeviceID
from reconciler.api.objects.model import Bool, Map, Model, Str, Tuple, blank, kept, text_of
from reconciler.api.objects.node_selector import NodeSelector
from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.requests import (
    DeviceClaim,
    DeviceConfig,
    DeviceSelector,
    DeviceToleration,
    OpaqueConfig,
)

LONGEST_KEY = 1 << 11
"""Bytes of a spec up to which it is its own key; opaque parameters may be of any size"""

FINALIZER = "resource.kubernetes.io/delete-protection"

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a claim that was made from a template: the entry of the `resourceClaims` of its pod."""

ALLOCATED_AT = "dra-reconciler.io/allocated-at"
"""The annotation of claims that we allocate: the timestamp of that allocation, and a fingerprint of its
devices, or that it was announced by an admission policy. It distinguishes our allocations from those that
others write later; see `reconciler.api.objects.marking`."""
TIERS = "dra-reconciler.io/joint-allocation-tiers"
"""Annotation of a claim: the tier that each of its alignments reached, in order"""


MAX_ALLOCATED_CONFIGS = 64
"""Configurations in one allocation (ST-4)"""


class DeviceClassSpec(Model):
    """The devices of a class, and their configuration."""

    selectors: Tuple[DeviceSelector] = ()
    config: Tuple[DeviceConfig] = ()
    extended_resource_name: Str | None = None


class DeviceClass(ApiObject):
    """A named class of devices."""

    kind: Literal["DeviceClass"] = "DeviceClass"
    spec: DeviceClassSpec = blank(DeviceClassSpec)


class AllocatedDevice(Model):
    """One device that is allocated to one request."""

    request: Str
    driver: Str
    pool: Str
    device: Str
    admin_access: Bool | None = None
    tolerations: Tuple[DeviceToleration] = ()
    binding_conditions: Tuple[Str] = ()
    binding_failure_conditions: Tuple[Str] = ()
    share_id: Str | None = Field(default=None, alias="shareID")
    consumed_capacity: Map[Quantity] = Field(default_factory=dict)
    skip_node_operations: Tuple[Str] = ()

    @property
    def id(self) -> DeviceID:
        return DeviceID(self.driver, self.pool, self.device)


class AllocatedConfig(Model):
    """Configuration for the driver, and its source."""

    source: Literal["FromClass", "FromClaim"]
    requests: Tuple[Str] = ()
    opaque: OpaqueConfig | None = None


class DeviceAllocation(Model):
    """The devices of a claim and their configuration."""

    results: Tuple[AllocatedDevice] = ()
    config: Tuple[AllocatedConfig] = ()


class Allocation(Model):
    """The devices that are allocated to a claim, and the nodes that can use them."""

    devices: DeviceAllocation = blank(DeviceAllocation)
    node_selector: NodeSelector | None = None
    allocation_timestamp: Str | None = None


class ConsumerReference(Model):
    """A consumer that an allocated claim is reserved for."""

    api_group: Str = ""
    resource: Str
    name: Str
    uid: Str


class ResourceClaimStatus(Model):
    """The allocation of a claim, and its consumers."""

    allocation: Allocation | None = None
    reserved_for: Tuple[ConsumerReference] = ()
    devices: Tuple[dict[str, Any]] = ()


class ResourceClaimSpec(Model):
    """The requests of a claim; immutable on the server."""

    devices: DeviceClaim = blank(DeviceClaim)

    @kept
    def key(self) -> bytes | None:
        """Equal for equal specs. None for text that is not Unicode: too rare to be told apart.

        Cached: claims of one template share their spec.
        """
        try:
            text = text_of(self)
        except ValueError:
            return None
        return text if len(text) <= LONGEST_KEY else sha256(text).digest()

    KEPT: ClassVar[tuple[str, ...]] = ("key",)


class ResourceClaim(ApiObject):
    """A request for devices, and their allocation."""

    kind: Literal["ResourceClaim"] = "ResourceClaim"
    spec: ResourceClaimSpec
    status: ResourceClaimStatus = blank(ResourceClaimStatus)

    @property
    def allocation(self) -> Allocation | None:
        return self.status.allocation

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None


class TemplateMetadata(Model):
    """Labels and annotations for the claims made from a template."""

    labels: Map[Str] = Field(default_factory=dict)
    annotations: Map[Str] = Field(default_factory=dict)


class ResourceClaimTemplateSpec(Model):
    """Metadata and spec of each claim that is made from the template."""

    metadata: TemplateMetadata = blank(TemplateMetadata)
    spec: ResourceClaimSpec


class ResourceClaimTemplate(ApiObject):
    """A template: one claim is made from it for each pod."""

    kind: Literal["ResourceClaimTemplate"] = "ResourceClaimTemplate"
    spec: ResourceClaimTemplateSpec
