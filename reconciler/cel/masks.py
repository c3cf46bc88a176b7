"""Column programs: logic over masks, and leaves that run once per distinct value.

An answer is a code: 0 no, 1 yes, 2 error. Leaves are plain closures; a leaf that reads one column runs
once per value of it, one that reads several runs once per distinct combination.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reconciler.cel.device import DeviceView
from reconciler.cel.errors import CelError, Exhausted
from reconciler.cel.evaluate import Run
from reconciler.cel.frames import Frame
from reconciler.cel.limits import COST_LIMIT, MASK_COST_LIMIT
from reconciler.cel.reads import Part, Read
from reconciler.cel.rows import Column, Rows
from reconciler.cel.values import Value, truth

Codes = NDArray[np.int8]
NO, YES, ERROR = 0, 1, 2
KEPT = 4
"""Columns per leaf whose answers are kept; several inventories may share a selector."""


class Program(Protocol):
    """Part of a column program."""

    def run(self, rows: Rows, budget: "Budget") -> Codes:
        """(D,) the answer on each device."""


class Budget:
    """Steps left for one pass over all devices. Absorbing: an evaluation that costs too much is an error."""

    def __init__(self, *, absorbing: bool = False) -> None:
        self._left = MASK_COST_LIMIT
        self._absorbing = absorbing

    def evaluate(self, run: Run, device: DeviceView, names: int) -> int:
        """The answer on one device. Raises Exhausted where it costs too much, unless that too is an error."""
        if self._left <= 0:
            return ERROR
        frame = Frame(device, names)
        try:
            return YES if truth(run(frame)) else NO
        except CelError:
            return ERROR
        except Exhausted:
            if self._absorbing:
                return ERROR
            raise
        finally:
            self._left -= COST_LIMIT - frame.left


class Leaf:
    """An expression that is not looked into."""

    def __init__(self, run: Run, names: int, read: frozenset[Read]) -> None:
        self._run = run
        self._names = names
        self._read = sorted(read, key=str)
        self._answers: dict[Read, tuple[Sequence[Value], list[int]]] = {}

    def run(self, rows: Rows, budget: Budget) -> Codes:
        """(D,) the answer on each device."""
        columns = [pair for read in self._read for pair in _columns(rows, read)]
        if not columns:
            return np.full(rows.size, self._answer(budget, []), dtype=np.int8)
        if len(columns) == 1:
            return self._per_value(*columns[0], budget)
        return self._per_combination(columns, budget)

    def _answer(self, budget: Budget, held: Sequence[tuple[Read, Value]]) -> int:
        return budget.evaluate(self._run, _view(held), self._names)

    def _per_value(self, read: Read, column: Column, budget: Budget) -> Codes:
        """Answers by code, kept while the column's values only grow; the last one is for devices without."""
        values, answers = self._answers.get(read, (None, []))
        if values is not column.values:
            answers = [self._answer(budget, [])]
            if len(self._answers) >= KEPT:
                self._answers.clear()
            self._answers[read] = (column.values, answers)
        known = len(answers) - 1
        fresh = [self._answer(budget, [(read, value)]) for value in column.values[known:]]
        answers[known:known] = fresh
        return np.array(answers, dtype=np.int8)[column.codes]

    def _per_combination(self, columns: list[tuple[Read, Column]], budget: Budget) -> Codes:
        which, first = _combine([column for _, column in columns], columns[0][1].codes.size)
        answers = np.empty(first.size, dtype=np.int8)
        for index, row in enumerate(first):
            held = [
                (read, column.values[column.codes[row]]) for read, column in columns if column.codes[row] >= 0
            ]
            answers[index] = self._answer(budget, held)
        return answers[which]


def _combine(columns: Sequence[Column], size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number the distinct rows of several columns.

    -> (D,) the number of each row's combination, (N,) one row that has it
    """
    which = np.zeros(size, dtype=np.int64)
    first = np.zeros(1, dtype=np.intp)
    for column in columns:
        joint = which * (len(column.values) + 1) + (column.codes + 1)
        _, first, which = np.unique(joint, return_index=True, return_inverse=True)
    return which, first


_SHARED_VALUES = (False, True)


def _columns(rows: Rows, read: Read) -> list[tuple[Read, Column]]:
    """The columns that a read covers."""
    if read.part is Part.DRIVER:
        return [(read, rows.driver)]
    if read.part is Part.SHARED:
        return [(read, Column(rows.shared.astype(np.int32), _SHARED_VALUES))]
    part = rows.attributes if read.part is Part.ATTRIBUTES else rows.capacity
    if read.domain is not None and read.name is not None:
        column = part.get((read.domain, read.name))
        return [] if column is None else [(read, column)]
    return [
        (Read(read.part, domain, name), column)
        for (domain, name), column in part.items()
        if read.domain in (None, domain)
    ]


def _view(held: Sequence[tuple[Read, Value]]) -> DeviceView:
    """A device that has only what is given."""
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


class Junction:
    """`&&` or `||` over masks; an error gives way to the deciding answer (CEL-8)."""

    def __init__(self, terms: Sequence[Program], ends_on: bool) -> None:
        self._terms = terms
        self._ends_on = YES if ends_on else NO

    def run(self, rows: Rows, budget: Budget) -> Codes:
        """(D,) the answer on each device."""
        codes = self._terms[0].run(rows, budget)
        for term in self._terms[1:]:
            decided = codes == self._ends_on
            if decided.all():
                break
            other = term.run(rows, budget)
            # Undecided and the other is not: its answer. Both undecided: an error of either stays.
            merged = np.maximum(codes, other) if self._ends_on == NO else _or(codes, other)
            codes = np.where(decided | (other == self._ends_on), np.int8(self._ends_on), merged)
        return codes


def _or(left: Codes, right: Codes) -> Codes:
    return np.where((left == ERROR) | (right == ERROR), np.int8(ERROR), left | right)


class Choice:
    """`test ? yes : no` over masks."""

    def __init__(self, test: Program, yes: Program, no: Program) -> None:
        self._test, self._yes, self._no = test, yes, no

    def run(self, rows: Rows, budget: Budget) -> Codes:
        """(D,) the answer on each device."""
        test = self._test.run(rows, budget)
        chosen = np.where(test == YES, self._yes.run(rows, budget), self._no.run(rows, budget))
        return np.where(test == ERROR, np.int8(ERROR), chosen)


class Negation:
    """`!term` over masks."""

    def __init__(self, term: Program) -> None:
        self._term = term

    def run(self, rows: Rows, budget: Budget) -> Codes:
        """(D,) the answer on each device."""
        return _NEGATED[self._term.run(rows, budget)]


_NEGATED: Codes = np.array([YES, NO, ERROR], dtype=np.int8)
