"""DeviceTaintRule: taints that an administrator puts on devices. Source: TNT-7."""

from typing import Literal

from reconciler.objects.meta import ApiObject, DeviceID
from reconciler.objects.model import Model, Str
from reconciler.objects.slices import DeviceTaint


class DeviceTaintSelector(Model):
    """Names that a device must have; an absent one matches any."""

    driver: Str | None = None
    pool: Str | None = None
    device: Str | None = None

    def matches(self, device: DeviceID) -> bool:
        """Whether every name that is given is the device's."""
        wanted = (self.driver, self.pool, self.device)
        return all(want is None or want == name for want, name in zip(wanted, device, strict=True))


class DeviceTaintRuleSpec(Model):
    """Which devices, which taint. Without a selector the rule matches nothing, as documented upstream."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint


class DeviceTaintRule(ApiObject):
    """A taint for every device that a selector matches."""

    kind: Literal["DeviceTaintRule"] = "DeviceTaintRule"
    spec: DeviceTaintRuleSpec
