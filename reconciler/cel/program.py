"""Expressions compiled once, then evaluated over columns or on one device: selectors, and derived attributes.

The column program of a selector is logic over masks. Its answer is a code: 0 no, 1 yes, 2 error, 3 an error
that no operator ignores. A derived attribute gives a column, one value of a device or a list of values; it is
evaluated once for each distinct combination of the values that it reads, like a leaf of a selector. Source:
KEP-6080 (CEL-18).
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from threading import Lock
from typing import NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kernels.types import Mask
from reconciler.api.objects.semver import Semver
from reconciler.cel import tree
from reconciler.cel.check import DERIVED_ATTRIBUTE, DEVICE_SELECTOR, Checked
from reconciler.cel.compiling import KEPT_SELECTORS, checked_tree, emitted
from reconciler.cel.errors import (
    COST_LIMIT,
    MASK_COST_LIMIT,
    CelError,
    CelRefused,
    Exhausted,
    Fatal,
    RefusedAt,
)
from reconciler.cel.evaluate import Emitter
from reconciler.cel.evaluation import Frame
from reconciler.cel.leaves import ERROR, FATAL, NO, YES, Budget, Codes, Leaf, batch, combinations
from reconciler.cel.reads import Part, Read, reads
from reconciler.cel.rows import Masks, Rows, Where
from reconciler.cel.values import DeviceView, Value, name_of, truth


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
            ended = (codes == self._ends_on) | (codes == FATAL)
            if ended.all():
                break
            other = term.run(rows, budget)
            # If only the other term decides, its answer counts. If neither does, an error of either stays.
            merged = np.where(other == self._ends_on, other, np.maximum(codes, other))
            codes = np.where(ended, codes, merged)
        return codes


class Choice:
    """`test ? yes : no` over masks."""

    def __init__(self, test: Program, yes: Program, no: Program) -> None:
        self._test, self._yes, self._no = test, yes, no

    def run(self, rows: Rows, budget: Budget) -> Codes:
        """(D,) the answer on each device."""
        test = self._test.run(rows, budget)
        chosen = np.where(test == YES, self._yes.run(rows, budget), self._no.run(rows, budget))
        return np.where(test >= ERROR, test, chosen)


class Negation:
    """`!term` over masks."""

    def __init__(self, term: Program) -> None:
        self._term = term

    def run(self, rows: Rows, budget: Budget) -> Codes:
        """(D,) the answer on each device."""
        return _NEGATED[self._term.run(rows, budget)]


_NEGATED: Codes = np.array([YES, NO, ERROR, FATAL], dtype=np.int8)


__all__ = ["CelError", "CelRefused", "DeviceView", "Masks", "Selector", "compile_selector", "spent_on"]

KEPT_MASKS = 4
"""Versions of the rows whose masks a selector caches."""
OVERSPENT = f"the selector exceeds {MASK_COST_LIMIT} steps over all devices"


class Selector:
    """A compiled expression. Threads may share it."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        try:
            self._checked = checked_tree(expression, DEVICE_SELECTOR)
            self._program: Program = _program(self._checked.root, self._checked)
        except RefusedAt as refusal:
            raise refusal.with_text(expression) from None
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._lock = Lock()
        self.spent = -1
        """Steps of the last pass over all devices; the limit during a pass; -1 before the first"""

    @cached_property
    def _whole(self) -> Leaf:
        """The plain evaluator. Most selectors never need it."""
        emitter = Emitter(self._checked)
        run = emitter.emit(self._checked.root, {})
        return Leaf(run, emitter.names, self._reads, None)

    @cached_property
    def _reads(self) -> frozenset[Read]:
        """The columns that it reads."""
        return reads(self._checked.root)

    def masks(self, rows: Rows, limit: int = MASK_COST_LIMIT) -> Masks:
        """The answers on all devices, cached per version of the rows. Devices beyond `limit` are errors."""
        with self._lock:
            kept = self._kept.get(rows.version)
            if kept is None:
                kept = self._follow(rows, limit) or self._compute(rows, limit)
                self._kept[rows.version] = kept
                if len(self._kept) > KEPT_MASKS:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(rows.version)
            return kept.masks

    def is_cached(self, rows: Rows) -> bool:
        """Whether the answers on all devices are cached."""
        return rows.version in self._kept

    def _follow(self, rows: Rows, limit: int) -> "_Kept | None":
        """The answers from those of an earlier version: only devices that differ are evaluated.

        None if there are none, or if the limit left devices without an answer.
        """
        for patch in rows.patches:
            kept = self._kept.get(patch.version)
            if kept is not None and kept.complete:
                if not patch.concerns(self._reads):
                    self.spent = 0
                    return kept
                part = self._compute(patch.part(rows), limit)
                if not part.complete:
                    return None
                true = _patched(kept.masks.true, patch.rows, part.masks.true)
                return _Kept(Masks(true, _patched(kept.masks.error, patch.rows, part.masks.error)), True)
        return None

    def _compute(self, rows: Rows, limit: int) -> "_Kept":
        budget = Budget(limit)
        budget.absorbing = isinstance(self._program, Leaf)
        self.spent = MASK_COST_LIMIT
        try:
            codes = self._program.run(rows, budget)
            self.spent = budget.spent
        except Exhausted:
            # A leaf is too expensive. The plain evaluator may not reach it at all: use that from now on.
            budget.absorbing = True
            self._program = self._whole
            codes = self._whole.run(rows, budget)
        codes = np.where(rows.unreadable, ERROR, codes)
        true, error = codes == YES, codes >= ERROR
        true.setflags(write=False)
        error.setflags(write=False)
        return _Kept(Masks(true, error), self.spent < limit)

    def matches(self, device: DeviceView) -> bool:
        """The answer on one device. Raises CelError."""
        if device.unreadable:
            raise CelError(device.unreadable)
        try:
            return truth(self._whole.evaluate(device))
        except (Exhausted, Fatal) as exc:
            raise CelError(str(exc)) from None

    def explain(self, rows: Rows, row: int) -> str:
        """Why the evaluation fails on a device; empty if it does not."""
        try:
            self.matches(rows.device(row))
        except CelError as exc:
            return str(exc)
        return OVERSPENT if self.masks(rows).error[row] else ""


class _Kept(NamedTuple):
    """The cached answers of a selector."""

    masks: Masks
    complete: bool
    """Whether the limit left no device without an answer."""


def _patched(mask: Mask, rows: Where, part: Mask) -> Mask:
    """A mask with other answers in some rows; the same array if they are equal."""
    if np.array_equal(mask[rows], part):
        return mask
    found = mask.copy()
    found[rows] = part
    found.setflags(write=False)
    return found


def _program(node: tree.Node, checked: Checked) -> Program:
    match node:
        case tree.Logic(terms=terms, ends_on=ends_on):
            return Junction([_program(term, checked) for term in terms], ends_on)
        case tree.Conditional(test=test, yes=yes, no=no):
            return Choice(_program(test, checked), _program(yes, checked), _program(no, checked))
        case tree.Call(function="!_", arguments=(term,)):
            return Negation(_program(term, checked))
        case tree.Call(
            function="_in_",
            arguments=(
                tree.Literal(value=str(domain)),
                tree.Select(operand=tree.Ident(name="device"), field=field),
            ),
        ):
            return Presence(Part(field), domain)
    emitter = Emitter(checked)
    run = emitter.emit(node, {})
    return Leaf(run, emitter.names, reads(node), batch(node, emitter, checked.overloads))


_KNOWN: WeakValueDictionary[str, Selector] = WeakValueDictionary()


@lru_cache(KEPT_SELECTORS)
def compile_selector(expression: str) -> Selector:
    """Compile a device selector, once per text. Raises CelRefused. Two threads may get two."""
    selector = _KNOWN[expression] = Selector(expression)
    return selector


def spent_on(expression: str) -> int:
    """`Selector.spent` of a selector; -1 if it is not compiled."""
    selector = _KNOWN.get(expression)
    return selector.spent if selector is not None else -1


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
