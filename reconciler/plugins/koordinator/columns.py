"""Codes for labels of devices and virtual functions, so that a selector is evaluated once for each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kernels.exclusion import unused
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.annotations import NO_HINT
from reconciler.plugins.koordinator.holdings import Holdings, excluded_minors
from reconciler.plugins.koordinator.machine import Machine
from reconciler.plugins.koordinator.vocabulary import LIMIT, TYPES, LabelSelector, Shares

MOST_SELECTORS = 128
"""Maximum number of selectors in the cache."""

LabelSet = Mapping[str, str]


class LabelCodes:
    """Codes of collections of label sets, in the order of their first use.

    A device has one label set; its virtual functions have one for each group.
    """

    def __init__(self) -> None:
        self._codes: dict[frozenset[frozenset[tuple[str, str]]], int] = {}
        self._collections: list[tuple[LabelSet, ...]] = []
        self._answers: dict[str, Mask] = {}
        """Selector -> matches; the last used selector is at the end."""

    def code(self, *label_sets: LabelSet) -> int:
        """The code of a collection."""
        key = frozenset(frozenset(labels.items()) for labels in label_sets)
        if key not in self._codes:
            self._codes[key] = len(self._collections)
            self._collections.append(label_sets)
        return self._codes[key]

    def matching(self, selector: LabelSelector) -> Mask:
        """(L,) which collections have a label set that a selector matches.

        Evaluates only collections that are new since the last call.
        """
        key = selector.model_dump_json()
        known = self._answers.pop(key, None)
        if known is None or len(known) < len(self._collections):
            before = known if known is not None else np.zeros(0, dtype=np.bool_)
            new = [any(map(selector.matches, sets)) for sets in self._collections[len(before) :]]
            known = np.concatenate([before, np.array(new, dtype=np.bool_)])
        self._answers[key] = known
        if len(self._answers) > MOST_SELECTORS:
            del self._answers[next(iter(self._answers))]
        return known


RESOURCES: Final = (
    koord.GPU_CORE, koord.GPU_MEMORY, koord.GPU_MEMORY_RATIO, koord.NPU_CORE, koord.NPU_CPU, koord.NPU_DVPP,
    koord.KOORD_RDMA, koord.KOORD_FPGA,
)  # fmt: skip
WIDTH: Final = len(RESOURCES) + 1
"""The last column is the sum of resources that pods cannot request: a device with some of them is usable."""
NOBODY: Final = -1
_COLUMN: Final = {name: column for column, name in enumerate(RESOURCES)}
_NONE: Final = (0,) * WIDTH


class DeviceRows(Struct, frozen=True):
    """Views of the rows of all machines, or of one machine as the only one: its number is 0."""

    owner: Rows
    kind: Codes
    total: Amounts
    free: Amounts
    some: Mask
    reported: Mask
    health: Mask
    label: Codes
    pcie: Rows
    switch: Rows
    numa: Rows
    functions_of: Codes
    free_functions_of: Codes
    held: Mask
    closed: Mask
    labels: LabelCodes
    function_labels: LabelCodes


_TAKEN: Final = (
    "kind", "total", "free", "some", "reported", "health", "label", "functions_of", "free_functions_of",
    "held", "closed",
)  # fmt: skip
"""Columns of which `DeviceRows` is a part"""


class Columns:
    """The rows. `owner` is -1 where a row is not in use."""

    def __init__(self) -> None:
        self.owner: Rows = np.full(0, NOBODY, dtype=np.intp)
        self.kind: Codes = np.zeros(0, dtype=np.int32)
        """Index in `TYPES`."""
        self.minor: Codes = np.zeros(0, dtype=np.int32)
        self.total: Amounts = np.zeros((0, WIDTH), dtype=np.int64)
        """Zero for unhealthy devices."""
        self.free: Amounts = np.zeros((0, WIDTH), dtype=np.int64)
        self.some: Mask = np.zeros(0, dtype=np.bool_)
        """Whether an amount of any resource is free."""
        self.reported: Mask = np.zeros((0, WIDTH), dtype=np.bool_)
        self.health: Mask = np.zeros(0, dtype=np.bool_)
        self.label: Codes = np.zeros(0, dtype=np.int32)
        self.pcie: Rows = np.full(0, NOBODY, dtype=np.intp)
        """The first row of the same type on the same switch: identifies the group in all machines."""
        self.switch: Rows = np.full(0, NOBODY, dtype=np.intp)
        """The first row of any type on the same switch."""
        self.numa: Rows = np.full(0, NOBODY, dtype=np.intp)
        """The first row of any type on the same NUMA node; -1 is a node, too."""
        self.vfs: Codes = np.zeros(0, dtype=np.int32)
        """Free virtual functions."""
        self.functions: Codes = np.zeros(0, dtype=np.int32)
        """All virtual functions."""
        self.functions_of: Codes = np.zeros(0, dtype=np.int32)
        """The labels of the virtual functions, as a code of `function_labels`."""
        self.free_functions_of: Codes = np.zeros(0, dtype=np.int32)
        """The labels of the free virtual functions."""
        self.held: Mask = np.zeros(0, dtype=np.bool_)
        self.closed: Mask = np.zeros(0, dtype=np.bool_)
        """Excluded because a holder requested exclusive use."""
        self.labels = LabelCodes()
        self.function_labels = LabelCodes()
        self._blocks: dict[int, slice] = {}
        self._places: dict[int, dict[tuple[str, int], int]] = {}
        """Machine -> type and minor -> index in the block"""
        self._end = 0

    def every(self) -> DeviceRows:
        """The rows of all machines."""
        return self._rows(slice(None), self.owner, (self.pcie, self.switch, self.numa))

    def part(self, number: int) -> DeviceRows:
        """The rows of one machine."""
        block = self._blocks[number]
        places = (
            np.where(column[block] >= 0, column[block] - block.start, NOBODY)
            for column in (self.pcie, self.switch, self.numa)
        )
        return self._rows(block, np.zeros(block.stop - block.start, dtype=np.intp), places)

    def _rows(self, block: slice, owner: Rows, places: Iterable[Rows]) -> DeviceRows:
        pcie, switch, numa = places
        taken = {name: getattr(self, name)[block] for name in _TAKEN}
        return DeviceRows(
            owner=owner,
            pcie=pcie,
            switch=switch,
            numa=numa,
            labels=self.labels,
            function_labels=self.function_labels,
            **taken,
        )

    def describe(self, number: int, machine: Machine, holdings: Holdings) -> None:
        """Write the rows of a machine; replaces its earlier rows."""
        devices = [
            (code, kind, info)
            for code, kind in enumerate(TYPES)
            for info in machine.devices.get(kind, {}).values()
        ]
        block = self._block(number, len(devices))
        self._places[number] = {(kind, info.minor): place for place, (_, kind, info) in enumerate(devices)}
        switches: dict[tuple[int, str], int] = {}
        places: dict[str | int, int] = {}
        for row, (code, kind, info) in enumerate(devices, block.start):
            capacity = machine.capacity[kind][info.minor]
            self.kind[row], self.minor[row], self.health[row] = code, info.minor, info.health
            self.total[row] = amounts(capacity)
            self.reported[row] = [name in capacity for name in RESOURCES] + [False]
            self.label[row] = self.labels.code(info.labels)
            self.functions[row] = sum(len(group.vfs) for group in info.vf_groups)
            having = (group.labels for group in info.vf_groups if group.vfs)
            self.functions_of[row] = self.function_labels.code(*having)
            where = info.topology
            self.pcie[row] = self.switch[row] = self.numa[row] = NOBODY
            if where is not None:
                self.pcie[row] = switches.setdefault((code, where.pcie_id), row)
                self.switch[row] = places.setdefault(where.pcie_id, row)
                self.numa[row] = places.setdefault(where.node_id, row)
        self.occupy(number, machine, holdings)

    def occupy(
        self,
        number: int,
        machine: Machine,
        holdings: Holdings,
        changed: Iterable[tuple[str, int]] | None = None,
    ) -> None:
        """Update what pods hold of a described machine: of the devices `changed`, or of all."""
        block, places = self._blocks[number], self._places[number]
        found = places.items() if changed is None else [(k, places[k]) for k in changed if k in places]
        rows = np.array([block.start + place for _, place in found], dtype=np.intp)
        used = []
        for (kind, minor), place in found:
            used.append(listed(holdings.used.get(kind, {}).get(minor)))
            row = block.start + place
            self.held[row] = holdings.is_held(kind, minor)
            if groups := machine.devices[kind][minor].vf_groups:
                counts = [sum(not holdings.vf_taken(kind, minor, vf.bus_id) for vf in g.vfs) for g in groups]
                self.vfs[row] = sum(counts)
                having = (group.labels for group, count in zip(groups, counts, strict=True) if count)
                self.free_functions_of[row] = self.function_labels.code(*having)
            elif changed is None:
                self.vfs[row], self.free_functions_of[row] = 0, self.functions_of[row]
        free = unused(self.total[rows], np.array(used, dtype=np.int64).reshape(len(rows), WIDTH))
        self.free[rows], self.some[rows] = free, (free > 0).any(axis=1)
        if holdings.alone or changed is None or self.closed[block].any():
            closed = {kind: excluded_minors(kind, NO_HINT, machine, holdings, ()) for kind in TYPES}
            self.closed[block] = [minor in closed[kind] for kind, minor in places]

    def forget(self, number: int) -> None:
        """Free the rows of a machine."""
        block = self._blocks.pop(number)
        del self._places[number]
        self.owner[block] = NOBODY

    def _block(self, number: int, rows: int) -> slice:
        block = self._blocks.get(number)
        if block is None or block.stop - block.start != rows:
            if block is not None:
                self.forget(number)
            if self._end + rows > len(self.owner):
                self._make_room(rows)
            block = slice(self._end, self._end + rows)
            self._end += rows
        self._blocks[number] = block
        self.owner[block] = number
        return block

    def _make_room(self, rows: int) -> None:
        """Move used rows together, and allocate twice the rows in use."""
        kept = np.flatnonzero(self.owner[: self._end] != NOBODY)
        size = 2 * (len(kept) + rows)
        moved = np.full(self._end + 1, NOBODY, dtype=np.intp)
        moved[kept] = np.arange(len(kept))
        for name, array in vars(self).items():
            if isinstance(array, np.ndarray):
                setattr(self, name, _resized(array[kept], size, NOBODY if name == "owner" else 0))
        for column in (self.pcie, self.switch, self.numa):
            column[: len(kept)] = moved[column[: len(kept)]]
        self._end = len(kept)
        # A block stays together, so the new place of its first row is enough.
        self._blocks = {
            number: slice(int(start), int(start) + block.stop - block.start)
            for number, block in self._blocks.items()
            for start in [moved[block.start] if block.stop > block.start else 0]
        }


def amounts(shares: Shares) -> Amounts:
    """(WIDTH,) amounts in the columns of the matrices, clipped to LIMIT."""
    return np.array(listed(shares), dtype=np.int64)


def listed(shares: Shares | None) -> Sequence[int]:
    """`amounts` as numbers; None counts as nothing."""
    if not shares:
        return _NONE
    found = [0] * WIDTH
    for name, amount in shares.items():
        found[_COLUMN.get(name, WIDTH - 1)] += amount
    return [min(amount, LIMIT) for amount in found]


def _resized(array: NDArray[np.generic], size: int, blank: int) -> NDArray[np.generic]:
    # Column-major: a pass over all rows reads few columns.
    larger = np.full((size, *array.shape[1:]), blank, dtype=array.dtype, order="F")
    larger[: len(array)] = array
    return larger
