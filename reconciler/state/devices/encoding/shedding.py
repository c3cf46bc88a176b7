"""Drops values that no slice uses any more.

Attributes, amounts, their shapes and node names change over the life of a cluster. Counters and selectors
stay: their number is bounded by the machine types, or by the nodes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.encoding.block import COLUMNS, Block, split
from reconciler.state.devices.encoding.interner import Interner
from reconciler.state.devices.encoding.parts import Encoder, Header
from reconciler.state.devices.encoding.tables import join, places
from reconciler.state.devices.encoding.vocabulary import Vocabulary


def shed(
    blocks: Mapping[str, Block], vocabulary: Vocabulary, rules: Semantics
) -> tuple[Encoder, dict[str, Block]]:
    """An encoder with only the values in use, and the blocks re-encoded with it.

    Existing snapshots keep their codes and their vocabulary.
    """
    table = join([*blocks.values()])
    kept = vocabulary.without_values()
    for row, (old, new) in enumerate(_interners(table.header, vocabulary, kept)):
        if old is not new:
            table.codes[row] = _recoded(table.codes[row], old, new)
    encoder = Encoder(kept, rules)
    recoded: dict[str, Block] = {}
    start = 0
    for name, block in blocks.items():
        stop = start + len(block.names)
        own = table.codes[places(block.header, table.header), start:stop]
        first, steps = split(own)
        recoded[name] = replace(
            block, header=encoder.header(block.header), first=first, steps=encoder.shared(steps)
        )
        start = stop
    return encoder, recoded


def _interners(
    header: Header, vocabulary: Vocabulary, kept: Vocabulary
) -> Iterator[tuple[Interner[Any], Interner[Any]]]:
    """The old and the new interner of each row of a table."""
    for column in COLUMNS:
        yield vocabulary.of_column(column), kept.of_column(column)
    for name in header.attributes:
        yield vocabulary.attribute(name), kept.attribute(name)
    for name in header.capacity:
        yield vocabulary.amount(name), kept.amount(name)


def _recoded(codes: np.ndarray[Any, Any], old: Interner[Any], new: Interner[Any]) -> np.ndarray[Any, Any]:
    """(n,) the same values in the codes of a new interner, which is filled with them."""
    used = np.zeros(len(old.values) + 1, dtype=np.bool_)
    used[codes] = True  # the last place is for code -1
    codes_of = np.full(used.shape, -1, dtype=np.int32)
    for code in np.flatnonzero(used[:-1]).tolist():
        codes_of[code] = new.code(old.values[code], old.keys[code])
    return codes_of[codes]
