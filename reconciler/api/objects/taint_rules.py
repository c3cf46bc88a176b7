"""DeviceTaintRule: taints that an administrator adds to devices. Source: TNT-7."""

from typing import Literal

from reconciler.api.objects.meta import ApiObject, DeviceID
from reconciler.api.objects.model import Model, Str
from reconciler.api.objects.slices import DeviceTaint


class DeviceTaintSelector(Model):
    """Driver, pool and name that a device must have; an absent one matches any."""

    driver: Str | None = None
    pool: Str | None = None
    device: Str | None = None

    def matches(self, device: DeviceID) -> bool:
        """Whether the device has all names of this selector."""
        wanted = (self.driver, self.pool, self.device)
        return all(want is None or want == name for want, name in zip(wanted, device, strict=True))


class DeviceTaintRuleSpec(Model):
    """Devices and their taint. Without a selector the rule matches nothing, as Kubernetes documents."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint


class DeviceTaintRule(ApiObject):
    """A rule that taints every device that its selector matches."""

    kind: Literal["DeviceTaintRule"] = "DeviceTaintRule"
    spec: DeviceTaintRuleSpec
