"""ResourceClaim, ResourceClaimTemplate and DeviceClass, resource.k8s.io/v1. Source: docs/rules/claims.md."""

from typing import Any, Literal

from pydantic import Field

from reconciler.objects.meta import ApiObject, DeviceID
from reconciler.objects.model import Bool, Map, Model, Str, Tuple
from reconciler.objects.nodeselector import NodeSelector
from reconciler.objects.quantity import Quantity
from reconciler.objects.requests import (
    DeviceClaim,
    DeviceConfig,
    DeviceSelector,
    DeviceToleration,
    OpaqueConfig,
)

FINALIZER = "resource.kubernetes.io/delete-protection"

ALLOCATED_AT = "dra-reconciler.io/allocated-at"
"""The annotation of claims that we allocated: the timestamp of that allocation, and a fingerprint of its
devices. It tells ours from those that others wrote later; see `reconciler.objects.marking`."""
TIERS = "dra-reconciler.io/joint-allocation-tiers"
"""Annotation of a claim: the tier that each of its alignments got, in order"""


class DeviceClassSpec(Model):
    """Which devices belong to a class, and how they are configured."""

    selectors: Tuple[DeviceSelector] = ()
    config: Tuple[DeviceConfig] = ()
    extended_resource_name: Str | None = None


class DeviceClass(ApiObject):
    """A named kind of device."""

    kind: Literal["DeviceClass"] = "DeviceClass"
    spec: DeviceClassSpec = DeviceClassSpec()


class AllocatedDevice(Model):
    """One device given to one request."""

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
    """Configuration handed on to the driver, and where it came from."""

    source: Literal["FromClass", "FromClaim"]
    requests: Tuple[Str] = ()
    opaque: OpaqueConfig | None = None


class DeviceAllocation(Model):
    """The devices of a claim and their configuration."""

    results: Tuple[AllocatedDevice] = ()
    config: Tuple[AllocatedConfig] = ()


class Allocation(Model):
    """What a claim holds, and on which nodes that can be used."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Str | None = None


class ConsumerReference(Model):
    """Who may use an allocated claim."""

    api_group: Str = ""
    resource: Str
    name: Str
    uid: Str


class ResourceClaimStatus(Model):
    """What was decided for a claim."""

    allocation: Allocation | None = None
    reserved_for: Tuple[ConsumerReference] = ()
    devices: Tuple[dict[str, Any]] = ()


class ResourceClaimSpec(Model):
    """What a claim asks for; immutable on the server."""

    devices: DeviceClaim = DeviceClaim()


class ResourceClaim(ApiObject):
    """A request for devices, and the answer."""

    kind: Literal["ResourceClaim"] = "ResourceClaim"
    spec: ResourceClaimSpec
    status: ResourceClaimStatus = ResourceClaimStatus()

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
    """What each claim made from the template looks like."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: ResourceClaimSpec


class ResourceClaimTemplate(ApiObject):
    """A pattern from which one claim a pod is made."""

    kind: Literal["ResourceClaimTemplate"] = "ResourceClaimTemplate"
    spec: ResourceClaimTemplateSpec
