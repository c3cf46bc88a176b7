"""The plain evaluator: each node becomes a closure that takes a frame.

Constants are of two kinds. What Kubernetes computes as it compiles is *fixed*: literals, conversions of
them, and lists and maps of them; if it fails, the expression does not compile. Everything else that reads no
device is computed here too, but only to save time.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from reconciler.cel import evaluation, tree, values
from reconciler.cel.check import TYPE_NAMES, Checked
from reconciler.cel.errors import PATTERN_STEPS, CelError, Exhausted, Fatal, RefusedAt
from reconciler.cel.evaluation import Failed, Frame, comprehension, decide
from reconciler.cel.library.standard import CONVERSIONS, compiled
from reconciler.cel.types import DYN, Dispatch

Run = Callable[[Frame], values.Value]
Slots = Mapping[str, int]

PATTERNED = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a regular expression."""
FOLDING_STEPS = 1000
"""Maximum steps to compute a constant at compile time; more expensive ones are computed at run time."""
_NOWHERE = values.DeviceView(driver="")
_LIST_STEPS, _MAP_STEPS = 10, 30


class Emitter:
    """Turns the nodes of one checked tree into closures."""

    def __init__(self, checked: Checked) -> None:
        self._overloads = checked.overloads
        self._types = checked.types
        self._constants: dict[int, tuple[Run, values.Value]] = {}
        self._fixed: set[int] = set()
        self._outermost: dict[int, Run] = {}
        """By id of the node, where no names are bound: such nodes are often asked for again"""
        self.names = 0
        """Number of slots that a frame needs."""

    def emit(self, node: tree.Node, slots: Slots) -> Run:
        """The closure of a node, by the method with the name of its kind; `slots`: name -> slot."""
        run: Run | None = None if slots else self._outermost.get(id(node))
        if run is None:
            run = getattr(self, f"_{type(node).__name__.lower()}")(node, slots)
            if not slots:
                self._outermost[id(node)] = run
        return run

    def slot(self) -> int:
        """Allocate a slot for one more bound name."""
        self.names += 1
        return self.names - 1

    def constant(self, node: tree.Node) -> tuple[values.Value] | None:
        """The value of a node without bound names, if it is a constant."""
        kept = self._constants.get(id(self.emit(node, {})))
        return None if kept is None else (kept[1],)

    def _constant(self, value: values.Value, fixed: bool = True) -> Run:
        def run(_: Frame) -> values.Value:
            return value

        self._constants[id(run)] = (run, value)
        if fixed:
            self._fixed.add(id(run))
        return run

    def _compute(self, run: Run, node: tree.Node) -> Run:
        """What Kubernetes computes as it compiles. Raises RefusedAt."""
        try:
            return self._constant(run(Frame(_NOWHERE, self.names)))
        except (CelError, Exhausted, Fatal) as exc:
            raise RefusedAt(node.at, f"the constant is invalid: {exc}", "fix the argument") from None

    def _are_fixed(self, parts: Sequence[Run]) -> bool:
        return all(id(part) in self._fixed for part in parts)

    def _fold(self, run: Run, parts: list[Run]) -> Run:
        """`run`; its constant value if all parts are constants and it is cheap and does not fail."""
        if not all(id(part) in self._constants for part in parts):
            return run
        try:
            return self._constant(run(Frame(_NOWHERE, 0, FOLDING_STEPS)), fixed=False)
        except (CelError, Exhausted, Fatal):
            return run

    def _literal(self, node: tree.Literal, _: Slots) -> Run:
        return self._constant(node.value)

    def _ident(self, node: tree.Ident, slots: Slots) -> Run:
        slot = slots.get(node.name)
        if slot is not None:
            return _bound(slot)
        if self._types[id(node)].name == "type" and node.name in TYPE_NAMES:
            return self._constant(values.TypeValue(node.name))
        return lambda frame: frame.device

    def _select(self, node: tree.Select, slots: Slots) -> Run:
        return self._element(self.emit(node.operand, slots), self._constant(node.field), node.optional)

    def _index(self, node: tree.Index, slots: Slots) -> Run:
        key = self.emit(node.key, slots)
        if id(key) in self._fixed and type(self._constants[id(key)][1]) not in evaluation.INDICES:
            raise RefusedAt(node.key.at, f"{self._types[id(node.key)]} cannot be an index", "use a string")
        return self._element(self.emit(node.operand, slots), key, node.optional)

    def _element(self, operand: Run, key: Run, optional: bool) -> Run:
        get = evaluation.optional if optional else evaluation.strict

        def run(frame: Frame) -> values.Value:
            frame.charge(1)
            return get(operand(frame), key(frame))

        return self._fold(run, [operand, key])

    def _has(self, node: tree.Has, slots: Slots) -> Run:
        operand, field = self.emit(node.operand, slots), node.field
        return lambda frame: evaluation.present(operand(frame), field)

    def _call(self, node: tree.Call, slots: Slots) -> Run:
        arguments = [self.emit(argument, slots) for argument in node.arguments]
        if node.function in ("_==_", "_!=_"):
            return self._fold(_equality(arguments[0], arguments[1], node.function == "_==_"), arguments)
        if node.function == "_in_" and self._is_set(node.arguments[1], arguments[1]):
            items = self._constants[id(arguments[1])][1]
            return _in_set(arguments[0], items) if items else self._constant(False)
        if node.member and node.function in ("or", "orValue"):
            return _otherwise(arguments[0], arguments[1], node.function == "orValue")
        if node.function in PATTERNED:
            self._prepare_pattern(node, arguments)
        run = _dispatch(Dispatch(node.function, self._overloads[id(node)]), arguments)
        if node.function in CONVERSIONS and not node.member and self._are_fixed(arguments):
            return self._compute(run, node)
        return self._fold(run, arguments)

    def _is_set(self, node: tree.Node, items: Run) -> bool:
        """Whether Kubernetes looks up in a set what is tested to be in a list."""
        if self._types[id(node)].name != "list" or id(items) not in self._fixed:
            return False
        return all(type(item) in _HASHED for item in self._constants[id(items)][1])

    def _prepare_pattern(self, node: tree.Call, arguments: list[Run]) -> None:
        """Compile a pattern that is known, and charge for one that is not. Raises RefusedAt."""
        pattern = self._constants.get(id(arguments[1]))
        if pattern is None:
            arguments[1] = _charged(arguments[1], PATTERN_STEPS)
        elif id(arguments[1]) in self._fixed and isinstance(pattern[1], str):
            try:
                compiled(pattern[1])
            except CelError as exc:
                raise RefusedAt(node.arguments[1].at, str(exc), "fix the pattern") from None

    def _logic(self, node: tree.Logic, slots: Slots) -> Run:
        terms, ends_on = [self.emit(term, slots) for term in node.terms], node.ends_on
        return lambda frame: decide(terms, frame, ends_on)

    def _conditional(self, node: tree.Conditional, slots: Slots) -> Run:
        test, yes, no = (self.emit(each, slots) for each in (node.test, node.yes, node.no))

        def run(frame: Frame) -> values.Value:
            return yes(frame) if values.truth(test(frame)) else no(frame)

        return run

    def _listof(self, node: tree.ListOf, slots: Slots) -> Run:
        parts = [self.emit(element.value, slots) for element in node.elements]
        optional = [element.optional for element in node.elements]

        def run(frame: Frame) -> values.Value:
            frame.charge(_LIST_STEPS + len(parts))
            if not any(optional):
                return tuple([part(frame) for part in parts])
            items: list[values.Value] = []
            for part, is_optional in zip(parts, optional, strict=True):
                _add_present(items.append, part(frame), is_optional)
            return tuple(items)

        return self._compute(run, node) if self._are_fixed(parts) else self._fold(run, parts)

    def _mapof(self, node: tree.MapOf, slots: Slots) -> Run:
        entries = [(self.emit(e.key, slots), self.emit(e.value, slots), e.optional) for e in node.entries]

        def run(frame: Frame) -> values.Value:
            frame.charge(_MAP_STEPS + len(entries))
            made = values.Built()
            for key_of, value_of, is_optional in entries:
                key = values.map_key(key_of(frame))
                found: list[values.Value] = []
                _add_present(found.append, value_of(frame), is_optional)
                made.pop(key, None)  # the last of equal keys counts
                made.update((key, value) for value in found)
            return made

        parts = [part for key, value, _ in entries for part in (key, value)]
        return self._compute(run, node) if self._are_fixed(parts) else self._fold(run, parts)

    def _bind(self, node: tree.Bind, slots: Slots) -> Run:
        slot = self.slot()
        initial, body = self.emit(node.initial, slots), self.emit(node.body, {**slots, node.name: slot})

        def run(frame: Frame) -> values.Value:
            frame.charge(1)
            try:
                frame.slots[slot] = initial(frame)
            except CelError as exc:
                frame.slots[slot] = Failed(exc)
            return body(frame)

        return run

    def _comprehension(self, node: tree.Comprehension, slots: Slots) -> Run:
        over = self.emit(node.over, slots)
        places = [self.slot() for _ in node.names]
        inner = {**slots, **dict(zip(node.names, places, strict=True))}
        where = self.emit(node.where, inner) if node.where is not None else None
        run = comprehension(node.macro, over, places, where, self.emit(node.body, inner))
        if node.macro is tree.Macro.SORT_BY and self._types[id(node.body)] != DYN:
            return _unguarded(run)
        return run


def _bound(slot: int) -> Run:
    def run(frame: Frame) -> values.Value:
        frame.charge(1)
        value = frame.slots[slot]
        if type(value) is Failed:
            raise value.error
        return value

    return run


def _unguarded(run: Run) -> Run:
    """`sortBy` with keys of a known type: there an error ends the evaluation, as in Kubernetes (CEL-8)."""

    def unguarded(frame: Frame) -> values.Value:
        try:
            return run(frame)
        except CelError as exc:
            raise Fatal(str(exc)) from None

    return unguarded


def _equality(left: Run, right: Run, wanted: bool) -> Run:
    def equals(frame: Frame) -> bool:
        return values.equal(frame, left(frame), right(frame))

    def differs(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        try:
            return not values.equal(frame, a, b)
        except CelError:  # never an error: values that cannot be compared differ (CEL-9)
            return True

    return equals if wanted else differs


_HASHED = frozenset({str, int, float, bool, values.UInt})


def _in_set(wanted: Run, items: tuple[values.Value, ...]) -> Run:
    """`wanted in [constants]` as a hash lookup (CEL-11)."""
    found = frozenset(key for item in items for key in _keys(item))

    def run(frame: Frame) -> bool:
        frame.charge(1)
        value = wanted(frame)
        if type(value) in values.UNHASHABLE:
            raise Fatal(f"{values.name_of(value)} cannot be looked up in a list of constants")
        return type(value) in _HASHED and (type(value), values.number(value)) in found

    return run


def _keys(item: values.Value) -> Iterator[tuple[type, values.Value]]:
    """The values, by type, that are found by an item of a set: a double also by integers that become it."""
    plain = values.number(item)
    if type(item) is float and math.isnan(item):
        return
    yield type(item), plain
    if type(item) in (int, values.UInt):
        yield float, float(plain)
    elif type(item) is not float or not plain.is_integer():
        return
    if type(item) is not int and values.INT_MIN <= plain <= values.INT_MAX:
        yield int, int(plain)
    if type(item) is not values.UInt and 0 <= plain <= values.UINT_MAX:
        yield values.UInt, int(plain)


def _otherwise(option: Run, other: Run, unwrap: bool) -> Run:
    def run(frame: Frame) -> values.Value:
        frame.charge(1)
        found = option(frame)
        if type(found) is not values.Option:
            raise CelError(f"no such overload: {values.name_of(found)} is not optional")
        if not found.present:
            return other(frame)
        return found.value if unwrap else found

    return run


def _dispatch(dispatch: Dispatch, arguments: list[Run]) -> Run:
    def run(frame: Frame) -> values.Value:
        return dispatch(frame, [argument(frame) for argument in arguments])

    return run


def _charged(run: Run, steps: int) -> Run:
    def charged(frame: Frame) -> values.Value:
        frame.charge(steps)
        return run(frame)

    return charged


def _add_present(add: Callable[[values.Value], None], value: values.Value, is_optional: bool) -> None:
    if not is_optional:
        add(value)
    elif type(value) is not values.Option:
        raise CelError(f"no such overload: {values.name_of(value)} is not optional")
    elif value.present:
        add(value.value)
