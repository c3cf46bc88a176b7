"""One device as an expression sees it."""

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.api.objects.quantity import Quantity
from reconciler.cel.values import Value


class DeviceView(Struct, frozen=True):
    """A device with attributes and capacity by domain and id. No domain is empty."""

    driver: str
    attributes: Mapping[str, dict[str, Value]] = field(default_factory=dict)
    """Values are int, bool, str, Semver, or tuples of one of them."""
    capacity: Mapping[str, dict[str, Quantity]] = field(default_factory=dict)
    shared: bool = False
    """allowMultipleAllocations."""
    unreadable: str = ""
    """Why no expression can be evaluated on this device (CEL-6); empty if it can."""
