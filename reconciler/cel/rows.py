"""Devices as dictionary-encoded columns: the input of selectors."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconciler.cel.device import DeviceView
from reconciler.cel.values import Value


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of all devices. `values` only grows, so cached answers per value stay valid."""

    codes: NDArray[np.int32]
    """(D,) index into values; -1 if the device does not have the attribute."""
    values: Sequence[Value]
    """Distinct typed values."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The data of D devices that selectors read."""

    size: int
    driver: Column
    attributes: Mapping[tuple[str, str], Column]
    """By domain and id; ids without a domain are under the driver (CEL-3)."""
    capacity: Mapping[tuple[str, str], Column]
    shared: NDArray[np.bool_]
    """(D,) allowMultipleAllocations."""
    unreadable: NDArray[np.bool_]
    """(D,) no expression can be evaluated on this device (CEL-6)."""
    version: Hashable
    """Equal versions mean equal rows."""

    def device(self, row: int) -> DeviceView:
        """One device, as input of the plain evaluator."""
        return DeviceView(
            driver=self.driver.values[self.driver.codes[row]],
            attributes=_nested(self.attributes, row),
            capacity=_nested(self.capacity, row),
            shared=bool(self.shared[row]),
            unreadable=UNREADABLE if self.unreadable[row] else "",
        )


UNREADABLE = "the device has an invalid attribute, such as a version that is not a semantic version"


@dataclass(frozen=True, slots=True)
class Masks:
    """The answers of one selector by device. Read-only and disjoint."""

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
