"""The leaves of a column program: expressions that run once per distinct value or combination of values.

Leaves such as `f(g(column), constant)` are evaluated over many values of a column at once, without the frame,
dispatch and step count per value. Other values raise Unsuited and are evaluated one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from reconciler.cel.errors import COST_LIMIT, MASK_COST_LIMIT, CelError, Exhausted, Fatal
from reconciler.cel.evaluate import PATTERNED, Emitter, Run
from reconciler.cel.evaluation import Frame
from reconciler.cel.reads import Part, Read, path
from reconciler.cel.rows import Column, Rows
from reconciler.cel.tree import Call, Has, Index, Node, Select
from reconciler.cel.types import Kind, Overload, kind_of
from reconciler.cel.values import NUMBERS, OPAQUE, Computed, DeviceView, Value, equal_numbers, truth

Batch = Callable[[Sequence[Value]], Sequence[Value]]
"""The results for some values. Raises Unsuited or CelError."""

MAX_COST = 200
"""Maximum steps of one call; values with more expensive calls are evaluated one by one."""

_SCALARS = (NUMBERS | OPAQUE | {str, bool, bytes}) - {Computed}


class Unsuited(Exception):
    """These values must be evaluated one by one."""


def batch(node: Node, emitter: Emitter, overloads: Mapping[int, tuple[Overload, ...]]) -> Batch | None:
    """The batch function of a leaf that reads one column; None if the leaf has no suitable form."""
    if isinstance(node, Has) and _reads_value(node.operand, keys=1):
        return lambda values: [True] * len(values)
    if _reads_value(node, keys=2) or _is_single(node):
        return lambda values: values
    if not isinstance(node, Call):
        return None
    constants = [emitter.constant(argument) for argument in node.arguments]
    variable = [place for place, constant in enumerate(constants) if constant is None]
    if len(variable) != 1 or variable[0] > 1 or (variable[0] == 1 and len(constants) > 2):
        return None
    argument, column_left = node.arguments[variable[0]], variable[0] == 0
    if node.member and column_left and _reads_option(argument):
        return _OF_PRESENT.get(node.function)
    inner = batch(argument, emitter, overloads)
    if inner is None:
        return None
    fixed = [constant[0] for constant in constants if constant is not None]
    if node.function in ("_==_", "_!=_"):
        return _equality(inner, fixed[0], wanted=node.function == "_==_", column_left=column_left)
    if node.function == "includes":  # on single values, the only ones that _equality accepts
        return _equality(inner, fixed[0], wanted=True, column_left=True) if column_left else None
    if node.function == "_in_":
        return _membership(inner, fixed[0]) if column_left else None
    if node.function in PATTERNED and not column_left:
        return None
    return _call(inner, overloads.get(id(node), ()), fixed, column_left)


_OF_PRESENT: Mapping[str, Batch] = {
    "hasValue": lambda values: [True] * len(values),
    "value": lambda values: values,
    "orValue": lambda values: values,
}
"""Members of an optional value, for present values: every value of a column is present."""


def _reads_option(node: Node) -> bool:
    """Whether the node is the optional value of a column: `device.attributes["d"].?x`."""
    found = path(node)
    if not isinstance(node, Select | Index) or found is None or len(found[1]) != 2:
        return False
    return node.optional and _reads_value(node.operand, keys=1)


def _is_single(node: Node) -> bool:
    return isinstance(node, Select) and path(node) in ((Part.DRIVER, ()), (Part.SHARED, ()))


def _reads_value(node: Node, *, keys: int) -> bool:
    """Whether the node is the value of a column, with `keys` keys after `device.part`."""
    found = path(node)
    if found is None or len(found[1]) != keys:
        return False
    while isinstance(node, Select | Index):
        if node.optional:
            return False
        node = node.operand
    return not isinstance(node, Call | Has)


def _kind(values: Sequence[Value]) -> type:
    kinds = set(map(type, values))
    if len(kinds) != 1:
        raise Unsuited
    return kinds.pop()


def _equality(inner: Batch, constant: Value, *, wanted: bool, column_left: bool) -> Batch:
    other = type(constant)

    def run(values: Sequence[Value]) -> Sequence[Value]:
        items = inner(values)
        kind = _kind(items)
        if kind not in _SCALARS or other not in _SCALARS:
            raise Unsuited
        if kind in NUMBERS and other in NUMBERS:
            return [equal_numbers(item, constant) is wanted for item in items]
        if kind is other:
            return [(item == constant) is wanted for item in items]
        if wanted and (kind if column_left else other) in OPAQUE:
            raise Unsuited
        return [not wanted] * len(items)

    return run


def _membership(inner: Batch, constants: Value) -> Batch | None:
    if type(constants) is not tuple or not set(map(type, constants)) <= {str, int}:
        return None
    wanted = frozenset(constants)

    def run(values: Sequence[Value]) -> Sequence[Value]:
        items = inner(values)
        if _kind(items) not in (str, int):
            raise Unsuited
        return [item in wanted for item in items]

    return run


def _call(inner: Batch, overloads: Sequence[Overload], fixed: Sequence[Value], column_left: bool) -> Batch:
    def run(values: Sequence[Value]) -> Sequence[Value]:
        items = inner(values)
        kind = _kind(items)
        if kind is tuple:
            raise Unsuited  # lists are told apart by their elements
        kinds: tuple[Kind, ...] = (kind, *map(kind_of, fixed))
        kinds = kinds if column_left else kinds[::-1]
        overload = next((each for each in overloads if each.takes(kinds)), None)
        if overload is None or overload.metered:
            raise Unsuited
        constants = [repeat(constant) for constant in fixed]
        arguments = (items, *constants) if column_left else (*constants, items)
        if overload.cost is not None and max(map(overload.cost, *arguments)) > MAX_COST:
            raise Unsuited
        return list(map(overload.run, *arguments))

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
            try:
                answers = self._batch(values)
                if set(map(type, answers)) == {bool}:
                    return np.array(answers, dtype=np.int8)
            except (Unsuited, CelError, Fatal):
                pass
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
