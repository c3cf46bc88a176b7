"""Taints from DeviceTaintRules. Source: TNT-7."""

from collections.abc import Sequence

import numpy as np

from kernels.distinct import distinct
from kernels.types import Codes, Rows
from reconciler.api.objects.slices import DeviceTaint, DeviceTaintRule, DeviceTaintSelector
from reconciler.state.devices.encoding.block import COLUMNS
from reconciler.state.devices.encoding.interner import Interner
from reconciler.state.devices.encoding.tables import Table, join, table_of
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from reconciler.state.devices.pools.pool import Pool

TAINTS = COLUMNS.index("taints")


def tables_with_taints(pool: Pool, rules: Sequence[DeviceTaintRule], vocabulary: Vocabulary) -> list[Table]:
    """The devices of a pool in order, with the taints that rules add to those of the slices.

    As upstream, a rule without a selector matches no device.
    """
    tables = [table_of(block) for block in pool.blocks]
    concerning = [
        (rule, selector)
        for rule in rules
        if (selector := rule.spec.device_selector) is not None
        and selector.driver in (None, pool.id.driver)
        and selector.pool in (None, pool.id.pool)
    ]
    if not concerning:
        return tables
    whole = join(tables)
    for rule, selector in concerning:
        _add(whole.codes[TAINTS], _matching(pool, selector), rule.spec.taint, vocabulary.taints)
    return [whole]


def _matching(pool: Pool, selector: DeviceTaintSelector) -> Rows:
    """(n,) the devices of a pool that a selector matches. No device name matches all."""
    if selector.device is None:
        return np.arange(pool.size)
    return np.array(pool.rows_of(selector.device), dtype=np.intp)


def _add(column: Codes, rows: Rows, taint: DeviceTaint, taints: Interner[tuple[DeviceTaint, ...]]) -> None:
    """Write the codes with one more taint into some rows of the column of taints."""
    own = column[rows]
    for code in distinct(own).tolist():
        before = taints.values[code] if code >= 0 else ()
        column[rows[own == code]] = taints.code((*before, taint))
