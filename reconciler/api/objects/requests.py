"""The spec of a claim: requests, selectors, tolerations, constraints, configuration.

Source: CLM-1 to CLM-5.
"""

from typing import Any

from pydantic import Field

from reconciler.api.objects.model import Bool, Int, Map, Model, Str, Tuple
from reconciler.api.objects.quantity import INT64_MAX, Quantity

EXACT_COUNT = "ExactCount"
ALL = "All"


class CelSelector(Model):
    """A CEL expression over `device`."""

    expression: Str


class DeviceSelector(Model):
    """A condition on devices. Only CEL is known; None is a selector of an unknown kind."""

    cel: CelSelector | None = None


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


class DeviceSubRequest(Model):
    """A request for devices of one class."""

    name: Str = ""
    device_class_name: Str = ""
    selectors: Tuple[DeviceSelector] = ()
    allocation_mode: Str = EXACT_COUNT
    count: Int = Field(default=1, ge=0, le=INT64_MAX)
    tolerations: Tuple[DeviceToleration] = ()
    capacity: CapacityRequirements | None = None

    @property
    def wanted(self) -> int:
        """How many devices the request needs; the API defaults an absent or zero count to one."""
        return self.count or 1


class ExactDeviceRequest(DeviceSubRequest):
    """A request without alternatives; only here is admin access possible."""

    admin_access: Bool | None = None


class DeviceRequest(Model):
    """One named request: exact, or a list of alternatives; the first that fits is used."""

    name: Str = Field(min_length=1)
    exactly: ExactDeviceRequest | None = None
    first_available: Tuple[DeviceSubRequest] = ()


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


class DeviceConfig(Model):
    """Configuration for some requests of a claim, or for all requests of a class."""

    requests: Tuple[Str] = ()
    opaque: OpaqueConfig | None = None


class DeviceClaim(Model):
    """The `devices` of a claim's spec."""

    requests: Tuple[DeviceRequest] = ()
    constraints: Tuple[DeviceConstraint] = ()
    config: Tuple[DeviceConfig] = ()
