"""ResourceClaim, ResourceClaimTemplate and DeviceClass, resource.k8s.io/v1 (CLM-1 to CLM-5).

The mark identifies our own allocations, also after a restart. It is an annotation of the claim, which
announces the allocation before it is written. If an admission policy announced the claim as it was
created, the mark is in the allocation instead, and no other write is needed. Source:
docs/reference/rules/claims.md.
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, ClassVar, Literal

from pydantic import Field

from reconciler.api.objects.meta import ApiObject, DeviceID
from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple, aliases_of, kept, misplaced
from reconciler.api.objects.quantity import INT64_MAX, Quantity
from reconciler.api.objects.selectors import NodeSelector

EXACT_COUNT = "ExactCount"
ALL = "All"


class CelSelector(Model):
    """A CEL expression over `device`."""

    expression: Str


class DeviceSelector(Model):
    """A condition on devices. Only CEL is known; None is a selector of an unknown kind."""

    cel: CelSelector | None = None
    belongs_elsewhere: ClassVar[Any] = misplaced({"expression": "belongs under `cel`; indent it further"})


class DeviceToleration(Model):
    """The taints that a request tolerates. Source: TNT-2."""

    key: Str = ""
    operator: Str = "Equal"
    value: Str = ""
    effect: Str = ""
    toleration_seconds: Int | None = None


class CapacityRequirements(Model):
    """Amounts that the device must have or provide, per capacity key."""

    requests: Map[Quantity] = Field(default_factory=dict)


class DerivedAttribute(Model):
    """A CEL expression over `device` that gives an attribute of each device, for constraints (CON-12)."""

    name: Str
    expression: Str


class DeviceSubRequest(Model):
    """A request for devices of one class."""

    name: Str = ""
    device_class_name: Str = ""
    selectors: Tuple[DeviceSelector] = ()
    allocation_mode: Str = EXACT_COUNT
    count: Int = Field(default=1, ge=0, le=INT64_MAX)
    tolerations: Tuple[DeviceToleration] = ()
    capacity: CapacityRequirements | None = None
    derived_attributes: Tuple[DerivedAttribute] = ()

    @property
    def wanted(self) -> int:
        """How many devices the request needs; the API defaults an absent or zero count to one."""
        return self.count or 1


class ExactDeviceRequest(DeviceSubRequest):
    """A request without alternatives; only here is admin access possible."""

    admin_access: Bool | None = None


INLINE = tuple(name for name in aliases_of(ExactDeviceRequest) if name != "name")
"""Fields of `exactly` that are in the request itself in v1beta1"""


class DeviceRequest(Model):
    """One named request: exact, or a list of alternatives; the first that fits is used."""

    name: Str = Field(min_length=1)
    exactly: ExactDeviceRequest | None = None
    first_available: Tuple[DeviceSubRequest] = ()
    belongs_elsewhere: ClassVar[Any] = misplaced(
        dict.fromkeys(INLINE, "belongs under `exactly`; only v1beta1 has it directly in a request")
    )


class DeviceConstraint(Model):
    """An attribute whose value all devices of some requests must share, or must not share."""

    requests: Tuple[Str] = ()
    match_attribute: Str | None = None
    distinct_attribute: Str | None = None

    def applies_to(self, request: str, alternative: str) -> bool:
        """Whether a result for `request`, or for `request/alternative`, is constrained (CON-1)."""
        if not self.requests or request in self.requests:
            return True
        return bool(alternative) and f"{request}/{alternative}" in self.requests


OWN_DRIVER = "dra-reconciler.io"
"""The driver of our own opaque configurations, in classes and allocations. Device drivers ignore them."""


class OpaqueConfig(Model):
    """Parameters for a driver; copied, and read only if they are ours."""

    driver: Str = ""
    parameters: Any = None


class ClassConfig(Model):
    """Configuration for all requests of a class."""

    opaque: OpaqueConfig | None = None


class DeviceConfig(ClassConfig):
    """Configuration for some requests of a claim."""

    requests: Tuple[Str] = ()


def opaque_for(
    configs: Iterable["DeviceConfig | AllocatedConfig"], request: str, alternative: str = ""
) -> tuple[tuple[str, str], ...]:
    """Driver and JSON of the opaque parameters of a claim for one of its requests."""
    names = {request, f"{request}/{alternative}" if alternative else request}
    return tuple(
        (one.opaque.driver, json.dumps(one.opaque.parameters, sort_keys=True))
        for one in configs
        if one.opaque is not None and (not one.requests or names & {*one.requests})
    )


class DeviceClaim(Model):
    """The `devices` of a claim's spec."""

    requests: Tuple[DeviceRequest] = ()
    constraints: Tuple[DeviceConstraint] = ()
    config: Tuple[DeviceConfig] = ()


LONGEST_KEY = 1 << 11
"""Bytes of a spec up to which it is its own key; opaque parameters may be of any size"""

FINALIZER = "resource.kubernetes.io/delete-protection"

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a claim that was made from a template: the entry of the `resourceClaims` of its pod."""

ALLOCATED_AT = "dra-reconciler.io/allocated-at"
"""The annotation of claims that we allocate: the timestamp of that allocation, and a fingerprint of its
devices, or that it was announced by an admission policy. It distinguishes our allocations from those that
others write later; see `reconciler.api.objects.claims`."""
TIERS = "dra-reconciler.io/joint-allocation-tiers"
"""Annotation of a claim: the tier that each of its alignments reached, in order"""


MAX_ALLOCATED_CONFIGS = 64
"""Configurations in one allocation (ST-4)"""


SPECIAL_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""Annotation of a claim that kube-scheduler made for the extended resources of a pod: "true" (EXT-4)"""


class DeviceClassSpec(Model):
    """The devices of a class, and their configuration."""

    selectors: Tuple[DeviceSelector] = ()
    config: Tuple[ClassConfig] = ()
    extended_resource_name: Str | None = None


class DeviceClass(ApiObject):
    """A named class of devices."""

    kind: Literal["DeviceClass"] = "DeviceClass"
    spec: DeviceClassSpec = Field(default_factory=DeviceClassSpec)


class ConsumedCounters(Model):
    """What one result draws from a counter set (SCC-3)."""

    counter_set: Str
    counters: Map[Quantity] = Field(default_factory=dict)


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
    consumed_counters: Tuple[ConsumedCounters] = ()
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

    devices: DeviceAllocation = Field(default_factory=DeviceAllocation)
    node_selector: NodeSelector | None = None
    allocation_timestamp: Str | None = None

    @property
    def held(self) -> tuple[DeviceID, ...]:
        """Its devices. Admin access holds none (AS-1): others may use them meanwhile."""
        return tuple(result.id for result in self.devices.results if not result.admin_access)


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

    devices: DeviceClaim = Field(default_factory=DeviceClaim)
    belongs_elsewhere: ClassVar[Any] = misplaced(
        {"spec": "belongs in a ResourceClaimTemplate; in a claim, move it up"}
    )

    @kept
    def key(self) -> bytes | None:
        """Equal for equal specs. None for text that is not Unicode: too rare to be told apart.

        Cached: claims of one template share their spec.
        """
        try:
            text = self.__pydantic_serializer__.to_json(self)
        except ValueError:
            return None
        return text if len(text) <= LONGEST_KEY else sha256(text).digest()


class ResourceClaim(ApiObject):
    """A request for devices, and their allocation."""

    kind: Literal["ResourceClaim"] = "ResourceClaim"
    spec: ResourceClaimSpec = Field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = Field(default_factory=ResourceClaimStatus)

    @property
    def allocation(self) -> Allocation | None:
        return self.status.allocation

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_special(self) -> bool:
        """Whether kube-scheduler made it for extended resources, or would."""
        return SPECIAL_CLAIM in self.metadata.annotations


class TemplateMetadata(Model):
    """Labels and annotations for the claims made from a template."""

    labels: Map[Str] = Field(default_factory=dict)
    annotations: Map[Str] = Field(default_factory=dict)


class ResourceClaimTemplateSpec(Model):
    """Metadata and spec of each claim that is made from the template."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata)
    spec: ResourceClaimSpec = Field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(ApiObject):
    """A template: one claim is made from it for each pod."""

    kind: Literal["ResourceClaimTemplate"] = "ResourceClaimTemplate"
    spec: ResourceClaimTemplateSpec = Field(default_factory=ResourceClaimTemplateSpec)


ANNOUNCED = "announced"
"""The value of the annotation that `deploy/admission/announce-claims.yaml` writes"""
_SIGNATURE = "allocatedAt"
"""The field of our opaque parameters that has the mark"""


def mark(stamp: str, allocation: Allocation) -> str:
    """The timestamp of the allocation, and a fingerprint of its devices."""
    return f"{stamp} {_fingerprint(allocation)}"


def signed(allocation: Allocation, stamp: str) -> Allocation:
    """The allocation with its mark in a configuration of ours, which drivers ignore."""
    parameters = {_SIGNATURE: mark(stamp, allocation)}
    own = AllocatedConfig(source="FromClaim", opaque=OpaqueConfig(driver=OWN_DRIVER, parameters=parameters))
    config = (*allocation.devices.config, own)
    return allocation.model_copy(update={"devices": allocation.devices.model_copy(update={"config": config})})


def is_announced(claim: ResourceClaim) -> bool:
    """Whether an admission policy added the finalizer and announced our allocation."""
    metadata = claim.metadata
    return FINALIZER in metadata.finalizers and metadata.annotations.get(ALLOCATED_AT) == ANNOUNCED


def is_ours(claim: ResourceClaim) -> bool:
    """Whether the allocation of a claim is the one that we wrote.

    Servers before 1.36 drop the timestamp of an allocation. Then the devices are compared: an allocation
    by another allocator counts as ours if it has the same devices.
    """
    allocation, marked = claim.allocation, claim.metadata.annotations.get(ALLOCATED_AT)
    if allocation is not None and marked == ANNOUNCED:
        marked = _signature(allocation)
    if allocation is None or not marked:
        return False
    stamp, _, devices = marked.partition(" ")
    if allocation.allocation_timestamp is not None:
        return stamp == allocation.allocation_timestamp
    return devices == _fingerprint(allocation)


def _signature(allocation: Allocation) -> str:
    """The mark in an allocation; empty if there is none."""
    for config in reversed(allocation.devices.config):
        if config.opaque is not None and config.opaque.driver == OWN_DRIVER:
            parameters = config.opaque.parameters
            found = parameters.get(_SIGNATURE) if isinstance(parameters, dict) else None
            if isinstance(found, str):
                return found
    return ""


def _fingerprint(allocation: Allocation) -> str:
    """A hash of what every server keeps: which request got which device."""
    text = "\n".join(
        f"{result.request} {result.driver} {result.pool} {result.device}"
        for result in allocation.devices.results
    )
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
