"""The columns of a new version of a slice from those of the known one. Only devices that differ are read."""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from kernels.types import Rows
from reconciler.api.objects.device_patterns import differing, without_blanks
from reconciler.api.objects.slices import ResourceSlice, ResourceSliceSpec
from reconciler.state.devices.encoding.block import COLUMNS, Block, Encoded, encode
from reconciler.state.devices.encoding.parts import Encoder
from reconciler.state.devices.encoding.tables import covers, places


def update(known: Block, source: ResourceSlice, encoder: Encoder) -> Block | None:
    """The block of a new version of a slice; None if too much differs, so that it must be built.

    It means the same as a built block, but may have columns and draws that no device uses any more.
    """
    before, now = known.slice.spec, source.spec
    if known.exclusive or not _is_alike(before, now):
        return None
    rows = differing(before.devices, now.devices)
    if 2 * len(rows) > len(now.devices):
        return None
    if any(before.devices[row].name != now.devices[row].name for row in rows):
        return None
    if not rows:
        return replace(known, slice=source)
    part = encode(now, [now.devices[row] for row in rows], encoder)
    if not covers(known.header, part.header) or part.drawn.shape[2] > known.drawn.shape[2] or part.exclusive:
        return None
    return _patched(known, source, np.array(rows, dtype=np.intp), part)


def _is_alike(before: ResourceSliceSpec, now: ResourceSliceSpec) -> bool:
    """Whether two specs are equal except for the pool and the devices; these are as many."""
    return len(before.devices) == len(now.devices) and all(
        getattr(before, name) == getattr(now, name) for name in _OF_ALL_DEVICES
    )


_OF_ALL_DEVICES: Sequence[str] = (
    "driver",
    "node_name",
    "node_selector",
    "all_nodes",
    "per_device_node_selection",
    "shared_counters",
    "skip_node_operations",
)


def _patched(known: Block, source: ResourceSlice, rows: Rows, part: Encoded) -> Block:
    table, flags, drawn = known.table.copy(), known.flags.copy(), known.drawn.copy()
    table[len(COLUMNS) :, rows] = -1
    table[np.array(places(part.header, known.header))[:, None], rows] = part.table
    flags[:, rows] = part.flags
    drawn[:, rows] = -1
    drawn[:, rows, : part.drawn.shape[2]] = part.drawn
    binding = part.has_binding_conditions or (
        known.has_binding_conditions
        and any(device.binding_conditions for device in without_blanks(source.spec.devices))
    )
    return replace(known, slice=source, table=table, flags=flags, drawn=drawn, has_binding_conditions=binding)
