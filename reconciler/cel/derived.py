"""Derived attributes: an expression evaluated to a column, one value of a device or a list of values.

Evaluated once for each distinct combination of the values that the expression reads, like a leaf of a
selector. Source: KEP-6080 (CEL-18).
"""

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from functools import lru_cache
from threading import Lock

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from reconciler.api.objects.semver import Semver
from reconciler.cel.check import DERIVED_ATTRIBUTE
from reconciler.cel.compiling import KEPT_SELECTORS, emitted
from reconciler.cel.errors import COST_LIMIT, MASK_COST_LIMIT, CelError, Exhausted, Fatal
from reconciler.cel.evaluation import Frame
from reconciler.cel.leaves import combinations
from reconciler.cel.program import KEPT_MASKS, OVERSPENT
from reconciler.cel.reads import reads
from reconciler.cel.rows import Rows
from reconciler.cel.values import DeviceView, Value, name_of

FAILS = -2
"""The code of a device on which the expression fails"""
_KINDS: dict[type, str] = {str: "string", int: "int", bool: "bool", Semver: "version"}


class DerivedColumn(Struct, frozen=True):
    """The values of an expression on D devices."""

    codes: NDArray[np.int32]
    """(D,) index into keys, or FAILS"""
    keys: tuple[Hashable, ...]
    """The distinct values, spelled as the keys of published attributes are"""
    spent: int
    """Steps of the pass"""


class DerivedAttribute:
    """A compiled expression. Threads may share it."""

    def __init__(self, expression: str) -> None:
        """Raises CelRefused."""
        root, self._run, self._names = emitted(expression, DERIVED_ATTRIBUTE)
        self._reads = reads(root)
        self._kept: OrderedDict[Hashable, DerivedColumn] = OrderedDict()
        self._lock = Lock()
        self.spent = -1
        """Steps of the last pass over all devices; -1 before the first"""

    def is_cached(self, rows: Rows) -> bool:
        """Whether the values on all devices are cached."""
        return rows.version in self._kept

    def column(self, rows: Rows, limit: int = MASK_COST_LIMIT) -> DerivedColumn:
        """The values on all devices, cached per version of the rows. It fails on devices beyond `limit`."""
        with self._lock:
            kept = self._kept.get(rows.version)
            if kept is None:
                kept = self._kept[rows.version] = self._compute(rows, limit)
                self.spent = kept.spent
                if len(self._kept) > KEPT_MASKS:
                    self._kept.popitem(last=False)
            return kept

    def _compute(self, rows: Rows, limit: int) -> DerivedColumn:
        which, devices = combinations(rows, self._reads)
        places: dict[Hashable, int] = {}
        codes, spent = np.full(len(devices), FAILS, dtype=np.int32), 0
        for at, device in enumerate(devices):
            if spent >= limit:
                break
            frame = Frame(device, self._names)
            with suppress(CelError, Exhausted, Fatal):
                codes[at] = places.setdefault(key_of(self._run(frame)), len(places))
            spent += COST_LIMIT - frame.remaining
        found = np.where(rows.unreadable, np.int32(FAILS), codes[which])
        found.setflags(write=False)
        return DerivedColumn(found, tuple(places), spent)

    def explain(self, rows: Rows, row: int) -> str:
        """Why the expression fails on a device."""
        device = rows.device(row)
        if device.unreadable:
            return device.unreadable
        try:
            self.key(device)
        except (CelError, Exhausted, Fatal) as exc:
            return str(exc)
        return OVERSPENT

    def key(self, device: DeviceView) -> Hashable:
        """The value on one device. Raises CelError, Exhausted and Fatal."""
        return key_of(self._run(Frame(device, self._names)))


def key_of(value: Value) -> Hashable:
    """A value as the key of a published attribute. Raises CelError for any other type.

    All elements of a list have the type of the first. A list without any is like no attribute at all, but
    not an error: it shares no value with another device.
    """
    kind = _KINDS.get(type(value))
    if kind is not None:
        return value if kind == "string" else (kind, str(value) if kind == "version" else value)
    if type(value) is not tuple:
        raise CelError(f"the value is a {name_of(value)}, but must be a string, int, bool, version or a list")
    kinds = {type(item) for item in value}
    if len(kinds) > 1 or not kinds <= _KINDS.keys():
        found = ", ".join(sorted({name_of(item) for item in value}))
        raise CelError(f"the list has {found}, but must have strings, ints, bools or versions, of one type")
    kind = _KINDS[kinds.pop()] if kinds else "string"
    return f"{kind}s", tuple(str(item) if kind == "version" else item for item in value)


@lru_cache(KEPT_SELECTORS)
def compile_derived(expression: str) -> DerivedAttribute:
    """Compile an expression, once per text. Raises CelRefused."""
    return DerivedAttribute(expression)
