"""The columns of slices that are equal but for some strings: those of one, with other codes in places."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from kernels.types import Rows
from reconciler.api.objects.device_patterns import PatternDevices, SpecPattern, places_of
from reconciler.api.objects.slices import ResourceSlice
from reconciler.state.devices.encoding.block import COLUMNS, Block, build
from reconciler.state.devices.encoding.interner import Interner
from reconciler.state.devices.encoding.parts import Encoder
from reconciler.state.devices.encoding.vocabulary import Name, Value, qualified

_NODE = COLUMNS.index("node")


class PatternColumns(NamedTuple):
    """The columns of one slice of a pattern, and where the others differ."""

    block: Block
    columns: Rows
    """(b,) the columns with the codes of those blanks that count"""
    rows: Rows
    """(b,) their devices"""
    interners: Sequence[tuple[Interner[Value], Callable[[Sequence[str]], Sequence[str]]]]
    """Where the values of some of these blanks have their codes, and which of all strings these are"""


def block_of(source: ResourceSlice, encoder: Encoder) -> Block:
    """The columns of any slice. Adds new values to the vocabulary."""
    spec = source.spec
    if not isinstance(spec.devices, PatternDevices):
        return build(source, encoder)
    pattern, strings = spec.devices.pattern, spec.devices.strings
    if bool(spec.node_name) != bool(pattern.spec.node_name):
        return build(source, encoder)  # an empty name is none: other columns say who reaches the devices
    known = encoder.patterns.get(pattern) or encoder.patterns.put(pattern, _columns(source, pattern, encoder))
    table = known.block.table.copy()
    if spec.node_name and not spec.per_device_node_selection:
        table[_NODE] = encoder.vocabulary.nodes.code(spec.node_name)
    codes: list[int] = []
    for interner, among in known.interners:
        codes += interner.codes(among(strings))
    table[known.columns, known.rows] = codes
    return known.block.with_codes(source, table)


def _columns(source: ResourceSlice, pattern: SpecPattern, encoder: Encoder) -> PatternColumns:
    block = build(source.model_copy(update={"spec": pattern.spec}), encoder)
    driver = pattern.spec.driver
    place = {name: at for at, name in enumerate(block.header.attributes, start=len(COLUMNS))}
    # If a device has one name in both forms, the one with a domain counts (CEL-3).
    found: dict[Name, list[int]] = {}
    for at, blank in enumerate(pattern.blanks):
        if "/" in blank.key or f"{driver}/{blank.key}" not in pattern.spec.devices[blank.row].attributes:
            found.setdefault(qualified(blank.key, driver), []).append(at)
    return PatternColumns(
        block,
        np.array([place[name] for name, blanks in found.items() for _ in blanks], dtype=np.intp),
        np.array([pattern.blanks[at].row for blanks in found.values() for at in blanks], dtype=np.intp),
        [(encoder.vocabulary.attribute(name), places_of(blanks)) for name, blanks in found.items()],
    )
