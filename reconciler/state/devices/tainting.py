"""The taints that DeviceTaintRules add to devices (TNT-7)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from kernels.groups import distinct
from kernels.types import Codes, Rows
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.slices import DeviceTaint, DeviceTaintRule, DeviceTaintSelector
from reconciler.cel.errors import CelRefused
from reconciler.cel.program import Selector
from reconciler.state.devices.encoding.block import COLUMNS
from reconciler.state.devices.encoding.tables import DeviceColumns, Part, Table, cel_rows, join
from reconciler.state.devices.encoding.vocabulary import Interner, Vocabulary
from reconciler.state.devices.pool import Pool

TAINTS = COLUMNS.index("taints")


class Tainting(NamedTuple):
    """What a DeviceTaintRule does."""

    selector: DeviceTaintSelector
    taint: DeviceTaint
    expressions: tuple[str, ...] = ()
    """Selectors of the class that the rule names, and its own: a device must match all"""


def taintings(rules: Iterable[DeviceTaintRule], classes: Mapping[str, DeviceClass]) -> Iterator[Tainting]:
    """What rules do. As the API says, one without a selector does nothing; as upstream, nor does one whose
    class does not exist.
    """
    for rule in rules:
        selector = rule.spec.device_selector
        if selector is None:
            continue
        own, name = selector.selectors, selector.device_class_name
        if name is not None:
            if name not in classes:
                continue
            own = (*classes[name].spec.selectors, *own)
        expressions = tuple(one.cel.expression for one in own if one.cel is not None)
        yield Tainting(selector, rule.spec.taint, expressions)


def with_taints(pool: Pool, rules: Sequence[Tainting], vocabulary: Vocabulary) -> Sequence[Part]:
    """The devices of a pool in order, with the taints that rules add to those of the slices."""
    concerning = [
        rule
        for rule in rules
        if rule.selector.driver in (None, pool.id.driver) and rule.selector.pool in (None, pool.id.pool)
    ]
    if not concerning:
        return pool.blocks
    whole = join(pool.blocks)
    for rule in concerning:
        rows = _matching(pool, whole, rule, vocabulary)
        _add(whole.codes[TAINTS], rows, rule.taint, vocabulary.taints)
    return [whole]


def _matching(pool: Pool, whole: Table, rule: Tainting, vocabulary: Vocabulary) -> Rows:
    """(n,) the devices of a pool that a rule matches. No device name matches all.

    As upstream, a device on which an expression fails is not matched. An expression that cannot be compiled
    excludes none: doctor reports it.
    """
    name = rule.selector.device
    rows = np.arange(pool.size) if name is None else np.array(pool.rows_of(name), dtype=np.intp)
    if not rule.expressions:
        return rows
    columns = DeviceColumns(whole.header, tuple(whole.codes), tuple(whole.flags))
    devices = cel_rows(columns, vocabulary).at(rows)
    for selector in filter(None, map(_compiled, rule.expressions)):
        rows, devices = rows[kept := selector.masks(devices).true], devices.at(np.flatnonzero(kept))
    return rows


@lru_cache(64)
def _compiled(expression: str) -> Selector | None:
    """Not one that decisions use: the answers about pools would push out those about the fleet."""
    try:
        return Selector(expression)
    except CelRefused:
        return None


def _add(column: Codes, rows: Rows, taint: DeviceTaint, taints: Interner[tuple[DeviceTaint, ...]]) -> None:
    """Write the codes with one more taint into some rows of the column of taints."""
    own = column[rows]
    for code in distinct(own).tolist():
        before = taints.values[code] if code >= 0 else ()
        column[rows[own == code]] = taints.code((*before, taint))
