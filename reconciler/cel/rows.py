"""Devices as dictionary-encoded columns: what a selector runs over."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.cel.device import DeviceView
from reconciler.cel.values import Value


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of all devices. `values` is only ever appended to, so answers per value stay true."""

    codes: NDArray[np.int32]
    """(D,) index into values; -1 where the device does not have it."""
    values: Sequence[Value]
    """Distinct typed values."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What selectors can see of D devices."""

    size: int
    driver: Column
    attributes: Mapping[tuple[str, str], Column]
    """By domain and id; ids written without a domain are filed under the driver (CEL-3)."""
    capacity: Mapping[tuple[str, str], Column]
    shared: NDArray[np.bool_]
    """(D,) allowMultipleAllocations."""
    unreadable: NDArray[np.bool_]
    """(D,) no expression can be evaluated on this device (CEL-6)."""
    version: Hashable
    """Equal versions mean equal rows."""

    def device(self, row: int) -> DeviceView:
        """One device in the form that the plain evaluator takes."""
        return DeviceView(
            driver=self.driver.values[self.driver.codes[row]],
            attributes=_nested(self.attributes, row),
            capacity=_nested(self.capacity, row),
            shared=bool(self.shared[row]),
            unreadable=UNREADABLE if self.unreadable[row] else "",
        )


UNREADABLE = "the device has an attribute that no expression can read, such as a version that is no semver"


@dataclass(frozen=True, slots=True)
class Masks:
    """The answers of one selector, a row a device. Read-only and disjoint."""

    true: NDArray[np.bool_]
    """(D,) the device is selected."""
    error: NDArray[np.bool_]
    """(D,) the evaluation fails on the device."""


def _nested(columns: Mapping[tuple[str, str], Column], row: int) -> dict[str, dict[str, Value]]:
    found: dict[str, dict[str, Value]] = {}
    for (domain, name), column in columns.items():
        code = column.codes[row]
        if code >= 0:
            found.setdefault(domain, {})[name] = column.values[code]
    return found
