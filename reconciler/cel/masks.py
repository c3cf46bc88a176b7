"""Column programs: logic over masks. An answer is a code: 0 no, 1 yes, 2 error."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from reconciler.cel.leaves import ERROR, NO, YES, Budget, Codes
from reconciler.cel.reads import Part
from reconciler.cel.rows import Rows


class Program(Protocol):
    """Part of a column program."""

    def run(self, rows: Rows, budget: Budget) -> Codes:
        """(D,) the answer on each device."""


class Presence:
    """`"domain" in device.attributes`: whether the device has an attribute in that domain."""

    def __init__(self, part: Part, domain: str) -> None:
        self._part, self._domain = part, domain

    def run(self, rows: Rows, _: Budget) -> Codes:
        """(D,) the answer on each device."""
        columns = rows.attributes if self._part is Part.ATTRIBUTES else rows.capacity
        found = np.zeros(rows.size, dtype=np.bool_)
        for (domain, _name), column in columns.items():
            if domain == self._domain:
                found |= column.codes >= 0
        return found.astype(np.int8)


class Junction:
    """`&&` or `||` over masks. The deciding answer takes precedence over an error (CEL-8)."""

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
            # If only the other term decides, its answer counts. If neither does, an error of either stays.
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
