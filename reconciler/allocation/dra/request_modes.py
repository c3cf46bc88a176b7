"""In which modes a request would share devices. Source: KEP-5981 (AFF-1 to AFF-5); a preview of 1.38."""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.types import Codes, Mask, Rows
from reconciler.allocation.dra.request_options import RequestOption
from reconciler.api.objects.semantics import SHARING_AFFINITY
from reconciler.state.devices.affinity import CLEAN, Mode, affinity_kinds, mode_of
from reconciler.state.devices.occupancy import Occupancy
from reconciler.state.devices.snapshot import Snapshot, View


class RequestModes(Struct, frozen=True):
    """The modes of n devices for one request option."""

    kind: Codes
    """(n,) position in `modes`; -1 for devices that may be shared in any mode"""
    modes: tuple[Mode | str, ...]
    """The mode that the request asks for, or why none can be told"""

    def of(self, view: View) -> "RequestModes":
        """The same for the devices of a view."""
        return replace(self, kind=view.of(self.kind))

    def mode(self, at: int) -> Mode | str | None:
        """The mode in which the device at a position would be shared; None for any."""
        kind = int(self.kind[at])
        return self.modes[kind] if kind >= 0 else None

    @property
    def told(self) -> Mask:
        """(n,) devices for which the request asks for a mode, or needs none."""
        told = [isinstance(mode, tuple) for mode in self.modes]
        return np.array([*told, True], dtype=np.bool_)[self.kind]

    def fit(self, lock: Codes, occupancy: Occupancy, rows: Rows | slice = slice(None)) -> Mask:
        """(m,) of some rows: no holder has locked the device to another mode.

        lock (m,)  what `Occupancy.lock` has of them
        """
        wanted = [occupancy.locks.find(mode) for mode in self.modes]
        kind = self.kind[rows]
        same = lock == np.array([*wanted, CLEAN], dtype=np.int32)[kind]
        return self.told[rows] & ((kind < 0) | (lock == CLEAN) | same)


def request_modes(option: RequestOption, snapshot: Snapshot, matching: Mask) -> RequestModes | None:
    """The modes of the devices in a mask (D,); None if all may be shared in any mode."""
    kinds = affinity_kinds(snapshot.fleet) if snapshot.rules.has(SHARING_AFFINITY) else None
    if kinds is None or not snapshot.rules.sharing or not (matching & (kinds.of >= 0)).any():
        return None
    modes = [
        mode_of(extractors, tuple([text for of, text in option.key.config if of in ("", driver)]))
        for extractors, driver in zip(kinds.extractors, kinds.drivers, strict=True)
    ]
    return RequestModes(np.where(matching, kinds.of, -1).astype(np.int32), tuple(modes))
