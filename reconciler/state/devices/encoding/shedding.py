"""Values that no slice uses any more are left behind.

Attributes, amounts and their shapes, and names of nodes come and go for as long as a cluster lives. Counters
and selectors stay: there are as many as makes of machines, or nodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices.encoding.block import COLUMNS, Block
from reconciler.state.devices.encoding.interner import Interner
from reconciler.state.devices.encoding.parts import Encoder, Header
from reconciler.state.devices.encoding.tables import join, places, table_of
from reconciler.state.devices.encoding.vocabulary import Vocabulary


def shed(
    blocks: Mapping[str, Block], vocabulary: Vocabulary, rules: Semantics
) -> tuple[Encoder, dict[str, Block]]:
    """An encoder that knows only the values in use, and the blocks in its codes.

    Pictures that were made before keep their codes, and the vocabulary that says what they mean.
    """
    table = join([table_of(block) for block in blocks.values()])
    kept = vocabulary.without_values()
    for row, (old, new) in enumerate(_interners(table.header, vocabulary, kept)):
        if old is not new:
            table.codes[row] = _moved(table.codes[row], old, new)
    encoder = Encoder(kept, rules)
    made: dict[str, Block] = {}
    start = 0
    for name, block in blocks.items():
        stop = start + len(block.names)
        own = table.codes[places(block.header, table.header), start:stop]
        made[name] = replace(block, header=encoder.header(block.header), table=own)
        start = stop
    return encoder, made


def _interners(
    header: Header, vocabulary: Vocabulary, kept: Vocabulary
) -> Iterator[tuple[Interner[Any], Interner[Any]]]:
    """What each row of a table counts in, before and after."""
    for column in COLUMNS:
        yield vocabulary.of_column(column), kept.of_column(column)
    for name in header.attributes:
        yield vocabulary.attribute(name), kept.attribute(name)
    for name in header.capacity:
        yield vocabulary.amount(name), kept.amount(name)


def _moved(codes: np.ndarray[Any, Any], old: Interner[Any], new: Interner[Any]) -> np.ndarray[Any, Any]:
    """(n,) the same values in the codes of another interner, which is filled with them."""
    used = np.zeros(len(old.values) + 1, dtype=np.bool_)
    used[codes] = True  # the last place is that of code -1
    codes_of = np.full(used.shape, -1, dtype=np.int32)
    for code in np.flatnonzero(used[:-1]).tolist():
        codes_of[code] = new.code(old.values[code], old.keys[code])
    return codes_of[codes]
