"""One ResourceSlice as columns. Built once when the slice arrives; pools and fleets join blocks."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Codes, Mask
from reconciler.api.objects.meta import PoolID
from reconciler.api.objects.slices import AffinityExtractor, Device, ResourceSlice, ResourceSliceSpec
from reconciler.state.devices.encoding.parts import Capacity, Encoder, Header, NamedCodes, Names, Packed
from reconciler.state.devices.encoding.vocabulary import Binding, Name, Vocabulary, node_uses

COLUMNS = ("driver", "node", "selector", "taints", "shape", "binding", "operations", "mapped", "asked")
"""The coded columns every block has, besides attributes and capacity."""

FLAGS = ("anywhere", "shared", "unreadable", "binds")
"""anywhere: reachable from all nodes; shared: allows multiple allocations; unreadable: CEL cannot evaluate
the device (CEL-6); binds: allocating it binds the claim to the node."""


class Extractor(NamedTuple):
    """What a driver takes from opaque configurations for some of its devices (AFF-1)."""

    selector: str | None
    """The devices that it applies to; None is all"""
    keys: tuple[tuple[str, str], ...]
    """Key and expression, sorted"""


class Block(Struct, frozen=True, eq=False):
    """One slice with n devices: what concerns all of them, and columns. All codes belong to one `Vocabulary`.

    The objects of the devices of a server's slice are not kept: `source` decodes them again.
    """

    name: str
    pool: PoolID
    generation: int
    slice_count: int
    """Slices of the complete pool"""
    node_name: str
    """Empty if other fields select the nodes"""
    all_nodes: bool
    per_device_node_selection: bool | None
    selector: int
    """Code of the slice's own node selector; -1 for none"""
    published: int
    """Code of the counter sets of the slice; -1 for none"""
    kept: Packed | ResourceSlice
    """The slice itself: its JSON, or the object if it was not read from JSON, as those of manifests"""
    named: Names
    header: Header
    """Blocks with the same columns share this object"""
    first: bytes
    """(columns,) the codes of the first device: `COLUMNS`, then those of the header; -1 for none"""
    steps: Codes
    """(columns, n) what to add for each device. Machines of one type share this object: what a device has for
    itself, such as a serial number, was new when the slice came, and new values have codes in a row"""
    flags: Mask
    """(FLAGS, n)"""
    drawn: Codes
    """(2, n, k) `sets` and `draws`"""
    has_binding_conditions: bool
    """Whether a device has binding conditions (POOL-14)"""
    exclusive: bool
    """Whether a device restricts which others can be held with it"""
    states: bool
    """Whether a device says `compatibleOnlyWith` (GRP-12)"""
    affinity: tuple[Extractor, ...]
    """`sharingAffinity` of the slice"""

    def source(self) -> ResourceSlice:
        """The slice, decoded again. Takes a tenth of a millisecond for eight devices."""
        return ResourceSlice.read(self.kept.text()) if isinstance(self.kept, Packed) else self.kept

    def means_the_same_as(self, other: "Block") -> bool:
        """Whether the specs of two slices say the same; metadata may differ."""
        if any(getattr(self, name) != getattr(other, name) for name in _OF_THE_SLICE):
            return False
        alike = all(
            mine is its or np.array_equal(mine, its)
            for mine, its in ((self.steps, other.steps), (self.flags, other.flags), (self.drawn, other.drawn))
        )
        # What devices say about others is not in columns.
        return alike and (not self.exclusive or self.source().spec == other.source().spec)

    @property
    def codes(self) -> Codes:
        """(columns, n) `COLUMNS`, then those of the header; -1 where a device has none"""
        return np.frombuffer(self.first, np.int32)[:, None] + self.steps

    @property
    def names(self) -> tuple[str, ...]:
        return self.named.all

    @property
    def shares_counters(self) -> bool:
        """Whether the slice publishes counter sets."""
        return self.published >= 0

    @property
    def anywhere(self) -> Mask:
        """(n,) reachable from all nodes"""
        return self.flags[0]

    @property
    def sets(self) -> Codes:
        """(n, k) codes of the counter sets that a device draws from; -1 for none"""
        return self.drawn[0]

    @property
    def draws(self) -> Codes:
        """(n, k) codes of what it draws from each set"""
        return self.drawn[1]

    @property
    def asked(self) -> bytes:
        """The codes of what the devices draw as their requests say; empty if none does."""
        codes = self.column("asked")
        return b"" if (codes < 0).all() else codes.tobytes()

    def column(self, name: str) -> Codes:
        """(n,) one of `COLUMNS`."""
        at = COLUMNS.index(name)
        return np.frombuffer(self.first, np.int32)[at] + self.steps[at]


_OF_THE_SLICE = (
    "pool",
    "generation",
    "slice_count",
    "node_name",
    "all_nodes",
    "per_device_node_selection",
    "selector",
    "published",
    "names",
    "header",
    "first",
    "has_binding_conditions",
    "exclusive",
    "states",
    "affinity",
)


def build(source: ResourceSlice, encoder: Encoder) -> Block:
    """The columns of one slice. Reads every device once; adds new values to the vocabulary."""
    spec, vocabulary = source.spec, encoder.vocabulary
    driver, devices = spec.driver, spec.devices
    described, unreadable = encoder.attributes([device.attributes for device in devices], driver)
    consumption = [encoder.consumption(device.consumes_counters, driver) for device in devices]
    capacity = [
        encoder.capacity(device.capacity, driver, one.asked)
        for device, one in zip(devices, consumption, strict=True)
    ]
    amounts = _by_names(capacity)
    header = encoder.header(Header(_names(described), _names(amounts)))
    columns = [
        [vocabulary.drivers.code(driver)] * len(devices),
        *_places(spec, devices, vocabulary),
        [vocabulary.taints.code(device.taints) if device.taints else -1 for device in devices],
        [one.shape for one in capacity],
        [_binding(device, vocabulary) for device in devices],
        [vocabulary.operations.code(spec.skip_node_operations) if spec.skip_node_operations else -1]
        * len(devices),
        [_mapped(device, driver, vocabulary) for device in devices],
        [one.asked for one in consumption],
        *_columns(header.attributes, described, len(devices)),
        *_columns(header.capacity, amounts, len(devices)),
    ]
    size = len(columns), len(devices)
    first, steps = split(np.fromiter(chain.from_iterable(columns), np.int32, size[0] * size[1]).reshape(size))
    flags = np.zeros((len(FLAGS), len(devices)), dtype=np.bool_)
    flags[0] = _anywhere(spec, devices)
    flags[1] = [device.allow_multiple_allocations is True for device in devices]
    flags[2, unreadable] = True
    flags[3] = [device.binds_to_node is True for device in devices]
    states = any(device.compatible_only_with is not None for device in devices)
    return Block(
        name=source.metadata.name,
        pool=source.pool_id,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        node_name=spec.node_name or "",
        all_nodes=bool(spec.all_nodes),
        per_device_node_selection=spec.per_device_node_selection,
        selector=vocabulary.selectors.code(spec.node_selector) if spec.node_selector is not None else -1,
        published=encoder.published(spec.shared_counters),
        kept=source if source.text is None else encoder.packed(source.text, driver),
        named=encoder.names(tuple([device.name for device in devices])),
        header=header,
        first=first,
        steps=encoder.shared(steps),
        flags=encoder.shared(flags),
        drawn=encoder.shared(_drawn([one.sets for one in consumption], [one.draws for one in consumption])),
        has_binding_conditions=any(device.binding_conditions for device in devices),
        exclusive=states or any(one.grouped for one in consumption),
        states=states,
        affinity=tuple(map(_extractor, spec.sharing_affinity)),
    )


def _extractor(source: AffinityExtractor) -> Extractor:
    cel = source.selector.cel if source.selector is not None else None
    return Extractor(cel.expression if cel is not None else None, tuple(sorted(source.cel.items())))


def split(codes: Codes) -> tuple[bytes, Codes]:
    """The codes (columns, n) as `Block.first` and `Block.steps`."""
    first = codes[:, 0] if codes.shape[1] else np.zeros(len(codes), np.int32)
    return first.tobytes(), codes - first[:, None]


def _by_names(capacity: Sequence[Capacity]) -> Sequence[NamedCodes]:
    """The capacity of all devices, those with the same names together."""
    rows_of: dict[int, list[int]] = {}
    for row, one in enumerate(capacity):
        rows_of.setdefault(id(one.names), []).append(row)
    return [
        NamedCodes(capacity[rows[0]].names, rows, [*zip(*[capacity[row].codes for row in rows], strict=True)])
        for rows in rows_of.values()
    ]


def _names(coded: Sequence[NamedCodes]) -> tuple[Name, ...]:
    """All names in the order in which they were first seen."""
    return coded[0].names if len(coded) == 1 else tuple(dict.fromkeys(chain(*[one.names for one in coded])))


def _columns(names: tuple[Name, ...], coded: Sequence[NamedCodes], devices: int) -> Sequence[Sequence[int]]:
    """(names, devices) the codes of all devices; -1 where one has no such name."""
    if len(coded) == 1:
        return coded[0].codes
    columns = {name: [-1] * devices for name in names}
    for one in coded:
        for name, codes in zip(one.names, one.codes, strict=True):
            column = columns[name]
            for row, code in zip(one.rows, codes, strict=True):
                column[row] = code
    return [*columns.values()]


def _binding(device: Device, vocabulary: Vocabulary) -> int:
    if not (device.binding_conditions or device.binding_failure_conditions):
        return -1
    return vocabulary.bindings.code(Binding(device.binding_conditions, device.binding_failure_conditions))


def _mapped(device: Device, driver: str, vocabulary: Vocabulary) -> int:
    if not device.node_allocatable_resources:
        return -1
    return vocabulary.mapped.code(node_uses(device.node_allocatable_resources, driver))


def _places(
    spec: ResourceSliceSpec, devices: Sequence[Device], vocabulary: Vocabulary
) -> tuple[Sequence[int], Sequence[int]]:
    """The node and the node selector of each device."""
    none = [-1] * len(devices)
    if spec.per_device_node_selection:
        return (
            [vocabulary.nodes.code(d.node_name) if d.node_name else -1 for d in devices],
            [
                vocabulary.selectors.code(d.node_selector) if d.node_selector and _selects(d) else -1
                for d in devices
            ],
        )
    if spec.node_name:
        return [vocabulary.nodes.code(spec.node_name)] * len(devices), none
    if not spec.all_nodes and spec.node_selector is not None:
        return none, [vocabulary.selectors.code(spec.node_selector)] * len(devices)
    return none, none


def _selects(device: Device) -> bool:
    return not device.node_name and not device.all_nodes


def _anywhere(spec: ResourceSliceSpec, devices: Sequence[Device]) -> bool | list[bool]:
    if spec.per_device_node_selection:
        return [d.all_nodes is True and not d.node_name for d in devices]
    return spec.all_nodes is True and not spec.node_name


def _drawn(sets: Sequence[tuple[int, ...]], draws: Sequence[tuple[int, ...]]) -> Codes:
    width = max(map(len, sets), default=0)
    if not width:
        return _nothing_drawn(len(sets))
    return np.array([list(_padded(sets, width)), list(_padded(draws, width))], dtype=np.int32).reshape(
        2, len(sets), width
    )


@lru_cache
def _nothing_drawn(count: int) -> Codes:
    nothing = np.zeros((2, count, 0), dtype=np.int32)
    nothing.setflags(write=False)
    return nothing


def _padded(rows: Sequence[tuple[int, ...]], width: int) -> Iterator[tuple[int, ...]]:
    return (row if len(row) == width else row + (-1,) * (width - len(row)) for row in rows)
