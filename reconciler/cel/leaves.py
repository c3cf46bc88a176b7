"""The leaves of a column program: expressions that run once per distinct value or combination of values.

A column is compared with constants for many values at once, without the frame, dispatch and step count per
value: some attributes have as many values as there are devices. Values of mixed types raise Unsuited and are
evaluated one by one, as are all other leaves.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from reconciler.cel.errors import COST_LIMIT, MASK_COST_LIMIT, CelError, Exhausted, Fatal
from reconciler.cel.evaluate import Emitter, Run
from reconciler.cel.evaluation import Frame
from reconciler.cel.reads import Part, Read, path
from reconciler.cel.rows import Column, Rows
from reconciler.cel.tree import Call, Has, Index, Node, Select
from reconciler.cel.values import NUMBERS, OPAQUE, Computed, DeviceView, Value, equal_numbers, truth

Batch = Callable[[Sequence[Value]], Sequence[bool]]
"""The answers for some values. Raises Unsuited."""

_SCALARS = (NUMBERS | OPAQUE | {str, bool, bytes}) - {Computed}


class Unsuited(Exception):
    """These values must be evaluated one by one."""


def batch(node: Node, emitter: Emitter) -> Batch | None:
    """The batch function of a leaf that compares the value of a column with a constant, or looks for it in a
    list of them; None for all others.
    """
    if not isinstance(node, Call) or node.function not in ("_==_", "_!=_", "_in_"):
        return None
    left, right = node.arguments
    column_left = _is_value(left)
    constant = emitter.constant(right if column_left else left)
    if constant is None or not (column_left or _is_value(right)):
        return None
    if node.function == "_in_":
        return _membership(constant[0]) if column_left else None
    return _equality(constant[0], wanted=node.function == "_==_", column_left=column_left)


def _is_value(node: Node) -> bool:
    """Whether the node is the value of a column."""
    found = path(node)
    if found is None or not isinstance(node, Select | Index):
        return False
    if len(found[1]) != 2:
        return found in ((Part.DRIVER, ()), (Part.SHARED, ()))
    while isinstance(node, Select | Index):
        if node.optional:
            return False
        node = node.operand
    return not isinstance(node, Call | Has)


def _kind(values: Sequence[Value]) -> type:
    first, *others = set(map(type, values))
    if others or first not in _SCALARS:
        raise Unsuited
    return first


def _equality(constant: Value, *, wanted: bool, column_left: bool) -> Batch:
    other = type(constant)

    def run(values: Sequence[Value]) -> Sequence[bool]:
        kind = _kind(values)
        if other not in _SCALARS:
            raise Unsuited
        if kind in NUMBERS and other in NUMBERS:
            return [equal_numbers(value, constant) is wanted for value in values]
        if kind is other:
            return [(value == constant) is wanted for value in values]
        if wanted and (kind if column_left else other) in OPAQUE:
            raise Unsuited
        return [not wanted] * len(values)

    return run


def _membership(constants: Value) -> Batch | None:
    if type(constants) is not tuple or not set(map(type, constants)) <= {str, int}:
        return None
    wanted = frozenset(constants)

    def run(values: Sequence[Value]) -> Sequence[bool]:
        if _kind(values) not in (str, int):
            raise Unsuited
        return [value in wanted for value in values]

    return run


Codes = NDArray[np.int8]
NO, YES, ERROR, FATAL = 0, 1, 2, 3
_UNREACHED = 4
"""The budget was spent before this value: an error in this pass, evaluated in the next."""
KEPT_COMBINATIONS = 1 << 16
"""Maximum combinations of values whose answers a leaf caches."""

_SHARED_VALUES = (False, True)
_PRESENT = (True,)
"""The values of a column where only presence matters."""


class Budget:
    """Remaining steps of one pass over all devices."""

    def __init__(self, limit: int = MASK_COST_LIMIT) -> None:
        self._limit = self._remaining = limit
        self.absorbing = False
        """Whether an evaluation beyond its limit counts as an error instead of raising Exhausted."""

    @property
    def spent(self) -> int:
        """Steps used so far."""
        return self._limit - self._remaining

    def evaluate(self, run: Run, device: DeviceView, names: int) -> int:
        """The answer on one device. Raises Exhausted beyond the limit, unless absorbing."""
        if self._remaining <= 0:
            return _UNREACHED
        frame = Frame(device, names)
        try:
            return YES if truth(run(frame)) else NO
        except CelError:
            return ERROR
        except Fatal:
            return FATAL
        except Exhausted:
            if self.absorbing:
                return ERROR
            raise
        finally:
            self._remaining -= COST_LIMIT - frame.remaining


class Leaf:
    """An expression that is evaluated as a whole, per distinct value or combination of values."""

    def __init__(self, run: Run, names: int, read: frozenset[Read], batch: Batch | None) -> None:
        self._run = run
        self._names = names
        self._read = sorted(read, key=_order)
        self._batch = batch
        self._columns: list[tuple[Read, Column]] = []
        self._by_value = np.empty(0, dtype=np.int8)
        self._by_combination: dict[bytes, int] = {}

    def evaluate(self, device: DeviceView) -> Value:
        """The value on one device. Raises CelError and Exhausted."""
        return self._run(Frame(device, self._names))

    def run(self, rows: Rows, budget: Budget) -> Codes:
        """(D,) the answer on each device."""
        # A column that is read in full replaces its presence column.
        found = {read: column for each in self._read for read, column in _columns(rows, each)}
        columns = list(found.items())
        if not _same_columns(columns, self._columns):
            self._by_value = np.empty(0, dtype=np.int8)
            self._by_combination = {}
        self._columns = columns
        if len(columns) > 1:
            return self._per_combination(columns, budget)
        if columns:
            return self._per_value(*columns[0], budget)
        return _shown(np.array([self._answer(budget, [])], dtype=np.int8)).repeat(rows.size)

    def _answer(self, budget: Budget, held: Sequence[tuple[Read, Value]]) -> int:
        return budget.evaluate(self._run, _view(held), self._names)

    def _per_value(self, read: Read, column: Column, budget: Budget) -> Codes:
        """Answers by code, cached while the column's values only grow; the last is for devices without it."""
        if not self._by_value.size:
            self._by_value = np.array([self._answer(budget, [])], dtype=np.int8)
        known = self._by_value.size - 1
        if known < len(column.values):
            fresh = self._fresh(read, column.values[known:], budget)
            self._by_value = np.concatenate([self._by_value[:known], fresh, self._by_value[known:]])
        for code in np.flatnonzero(self._by_value == _UNREACHED).tolist():
            held = [(read, column.values[code])] if code < len(column.values) else []
            self._by_value[code] = self._answer(budget, held)
        return _shown(self._by_value)[column.codes]

    def _fresh(self, read: Read, values: Sequence[Value], budget: Budget) -> Codes:
        if self._batch is not None:
            with suppress(Unsuited):
                return np.array(self._batch(values), dtype=np.int8)
        return np.array([self._answer(budget, [(read, value)]) for value in values], dtype=np.int8)

    def _per_combination(self, columns: list[tuple[Read, Column]], budget: Budget) -> Codes:
        which, first = _combine([column for _, column in columns])
        kept = self._by_combination
        if len(kept) > KEPT_COMBINATIONS:
            kept.clear()
        codes = np.stack([column.codes[first] for _, column in columns], axis=1)
        answers = np.empty(first.size, dtype=np.int8)
        for index, combination in enumerate(codes):
            key = combination.tobytes()
            answer = kept.get(key)
            if answer is None:
                pairs = zip(columns, combination, strict=True)
                held = [(read, column.values[code]) for (read, column), code in pairs if code >= 0]
                answer = self._answer(budget, held)
                if answer != _UNREACHED:
                    kept[key] = answer
            answers[index] = answer
        return _shown(answers)[which]


def _shown(answers: Codes) -> Codes:
    """Answers as a pass gives them."""
    return np.where(answers == _UNREACHED, np.int8(ERROR), answers)


def combinations(rows: Rows, read: frozenset[Read]) -> tuple[NDArray[np.intp], list[DeviceView]]:
    """The devices that an expression with these reads can tell apart.

    -> (D,) the number of each device's kind, and one device of each kind, with only the values that are read
    """
    found = {one: column for each in sorted(read, key=_order) for one, column in _columns(rows, each)}
    columns = list(found.items())
    if not columns:
        return np.zeros(rows.size, dtype=np.intp), [_view([])]
    if len(columns) == 1:
        codes, values = columns[0][1].codes, len(columns[0][1].values)
        which, first = _renumber(codes.astype(np.intp) + 1, values + 1)
    else:
        which, first = _combine([column for _, column in columns])
    kinds = np.stack([column.codes[first] for _, column in columns], axis=1)
    return which, [
        _view([(one, c.values[code]) for (one, c), code in zip(columns, kind, strict=True) if code >= 0])
        for kind in kinds.tolist()
    ]


def _order(read: Read) -> tuple[bool, str]:
    """A column that is read in full comes last, and replaces its presence column."""
    return not read.presence, str(read)


def _same_columns(new: Sequence[tuple[Read, Column]], old: Sequence[tuple[Read, Column]]) -> bool:
    """Whether codes still mean the same values."""
    return len(new) == len(old) and all(
        read == before and column.values is kept.values
        for (read, column), (before, kept) in zip(new, old, strict=True)
    )


def _combine(columns: Sequence[Column]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number the distinct rows of several columns.

    -> (D,) the number of each row's combination, (N,) one row for each combination
    """
    which = columns[0].codes.astype(np.intp) + 1
    bound = len(columns[0].values) + 1
    first: NDArray[np.intp] = np.empty(0, dtype=np.intp)
    for column in columns[1:]:
        bound *= len(column.values) + 1
        which, first = _renumber(which * (len(column.values) + 1) + (column.codes + 1), bound)
        bound = first.size
    return which, first


def _renumber(numbers: NDArray[np.intp], bound: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers below `bound` replaced by consecutive ones, and one position of each."""
    if bound > 4 * numbers.size:
        _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
        return which, first
    place = np.full(bound, -1, dtype=np.intp)
    place[numbers] = np.arange(numbers.size)
    used = np.flatnonzero(place >= 0)
    first = place[used]
    place[used] = np.arange(used.size)
    return place[numbers], first


def _columns(rows: Rows, read: Read) -> list[tuple[Read, Column]]:
    """The columns of a read."""
    if read.part is Part.DRIVER:
        return [(read, rows.driver)]
    if read.part is Part.SHARED:
        return [(read, Column(rows.shared.astype(np.int32), _SHARED_VALUES))]
    part = rows.attributes if read.part is Part.ATTRIBUTES else rows.capacity
    if read.domain is not None and read.name is not None:
        column = part.get((read.domain, read.name))
        return [] if column is None else [(read, column)]
    return [
        (Read(read.part, domain, name), _presence(column) if read.presence else column)
        for (domain, name), column in part.items()
        if read.domain in (None, domain)
    ]


def _presence(column: Column) -> Column:
    return Column(np.minimum(column.codes, 0), _PRESENT)


def _view(held: Sequence[tuple[Read, Value]]) -> DeviceView:
    """A device with only the given values."""
    driver, shared = "", False
    parts: dict[Part, dict[str, dict[str, Value]]] = {Part.ATTRIBUTES: {}, Part.CAPACITY: {}}
    for read, value in held:
        if read.part is Part.DRIVER:
            driver = value
        elif read.part is Part.SHARED:
            shared = value
        else:
            parts[read.part].setdefault(read.domain or "", {})[read.name or ""] = value
    return DeviceView(driver, parts[Part.ATTRIBUTES], parts[Part.CAPACITY], shared)
