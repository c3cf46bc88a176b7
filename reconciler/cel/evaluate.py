"""The plain evaluator: each node becomes a closure that takes a frame."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from reconciler.cel import evaluation
from reconciler.cel.check import PATTERNED, TYPE_NAMES, Checked
from reconciler.cel.errors import PATTERN_STEPS, CelError, Exhausted
from reconciler.cel.evaluation import Failed, Frame, comprehension, decide
from reconciler.cel.tree import (
    Bind,
    Call,
    Comprehension,
    Conditional,
    Has,
    Ident,
    Index,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Node,
    Select,
)
from reconciler.cel.types import Dispatch
from reconciler.cel.values import (
    NAMES,
    DeviceView,
    Option,
    TypeValue,
    UInt,
    Value,
    equal,
    map_key,
    name_of,
    truth,
)

Run = Callable[[Frame], Value]
Slots = Mapping[str, int]

FOLDING_STEPS = 1000
"""Maximum steps to compute a constant at compile time; more expensive ones are computed at run time."""
_NOWHERE = DeviceView(driver="")
_LIST_STEPS, _MAP_STEPS = 10, 30


class Emitter:
    """Turns the nodes of one checked tree into closures."""

    def __init__(self, checked: Checked) -> None:
        self._overloads = checked.overloads
        self._constants: dict[int, tuple[Run, Value]] = {}
        self._outermost: dict[int, Run] = {}
        """By id of the node, where no names are bound: such nodes are often asked for again"""
        self.names = 0
        """Number of slots that a frame needs."""

    def emit(self, node: Node, slots: Slots) -> Run:
        """The closure of a node; `slots` maps bound names to slots."""
        run = None if slots else self._outermost.get(id(node))
        if run is None:
            handler = cast("Callable[[Emitter, Any, Slots], Run]", _HANDLERS[type(node)])
            run = handler(self, node, slots)
            if not slots:
                self._outermost[id(node)] = run
        return run

    def slot(self) -> int:
        """Allocate a slot for one more bound name."""
        self.names += 1
        return self.names - 1

    def constant(self, node: Node) -> tuple[Value] | None:
        """The value of a node without bound names, if it is a constant."""
        kept = self._constants.get(id(self.emit(node, {})))
        return None if kept is None else (kept[1],)

    def _constant(self, value: Value) -> Run:
        def run(_: Frame) -> Value:
            return value

        self._constants[id(run)] = (run, value)
        return run

    def _fold(self, run: Run, parts: list[Run]) -> Run:
        """`run`; its constant value if all parts are constants and it is cheap and does not fail."""
        if not all(id(part) in self._constants for part in parts):
            return run
        try:
            return self._constant(run(Frame(_NOWHERE, 0, FOLDING_STEPS)))
        except (CelError, Exhausted):
            return run

    def _literal(self, node: Literal, _: Slots) -> Run:
        return self._constant(node.value)

    def _ident(self, node: Ident, slots: Slots) -> Run:
        slot = slots.get(node.name)
        if slot is not None:
            return _bound(slot)
        if node.name in TYPE_NAMES:
            return self._constant(TypeValue(node.name))
        return lambda frame: frame.device

    def _select(self, node: Select, slots: Slots) -> Run:
        return self._element(self.emit(node.operand, slots), self._constant(node.field), node.optional)

    def _index(self, node: Index, slots: Slots) -> Run:
        return self._element(self.emit(node.operand, slots), self.emit(node.key, slots), node.optional)

    def _element(self, operand: Run, key: Run, optional: bool) -> Run:
        get = evaluation.optional if optional else evaluation.strict

        def run(frame: Frame) -> Value:
            frame.charge(1)
            return get(operand(frame), key(frame))

        return self._fold(run, [operand, key])

    def _has(self, node: Has, slots: Slots) -> Run:
        operand, field = self.emit(node.operand, slots), node.field
        return lambda frame: evaluation.present(operand(frame), field)

    def _call(self, node: Call, slots: Slots) -> Run:
        arguments = [self.emit(argument, slots) for argument in node.arguments]
        if node.function in ("_==_", "_!=_"):
            return self._fold(_equality(arguments[0], arguments[1], node.function == "_==_"), arguments)
        if node.function == "_in_" and id(arguments[1]) in self._constants:
            items = self._constants[id(arguments[1])][1]
            if type(items) is tuple and all(type(item) in _HASHED for item in items):
                return _in_constant(arguments[0], items)
        if node.member and node.function in ("or", "orValue"):
            return _otherwise(arguments[0], arguments[1], node.function == "orValue")
        if node.function in PATTERNED and id(arguments[1]) not in self._constants:
            arguments[1] = _charged(arguments[1], PATTERN_STEPS)
        return self._fold(_dispatch(Dispatch(node.function, self._overloads[id(node)]), arguments), arguments)

    def _logic(self, node: Logic, slots: Slots) -> Run:
        terms, ends_on = [self.emit(term, slots) for term in node.terms], node.ends_on
        return lambda frame: decide(terms, frame, ends_on)

    def _conditional(self, node: Conditional, slots: Slots) -> Run:
        test, yes, no = (self.emit(each, slots) for each in (node.test, node.yes, node.no))

        def run(frame: Frame) -> Value:
            return yes(frame) if truth(test(frame)) else no(frame)

        return run

    def _list_of(self, node: ListOf, slots: Slots) -> Run:
        parts = [self.emit(element.value, slots) for element in node.elements]
        optional = [element.optional for element in node.elements]

        def run(frame: Frame) -> Value:
            frame.charge(_LIST_STEPS + len(parts))
            if not any(optional):
                return tuple([part(frame) for part in parts])
            items: list[Value] = []
            for part, is_optional in zip(parts, optional, strict=True):
                _add_present(items.append, part(frame), is_optional)
            return tuple(items)

        return self._fold(run, parts)

    def _map_of(self, node: MapOf, slots: Slots) -> Run:
        entries = [(self.emit(e.key, slots), self.emit(e.value, slots), e.optional) for e in node.entries]

        def run(frame: Frame) -> Value:
            frame.charge(_MAP_STEPS + len(entries))
            made: dict[Any, Value] = {}
            for key_of, value_of, is_optional in entries:
                key = map_key(key_of(frame))
                if key in made:
                    raise CelError(f"duplicate key {key} in a map")
                found: list[Value] = []
                _add_present(found.append, value_of(frame), is_optional)
                made.update((key, value) for value in found)
            return made

        return self._fold(run, [part for key, value, _ in entries for part in (key, value)])

    def _bind(self, node: Bind, slots: Slots) -> Run:
        slot = self.slot()
        initial, body = self.emit(node.initial, slots), self.emit(node.body, {**slots, node.name: slot})

        def run(frame: Frame) -> Value:
            frame.charge(1)
            try:
                frame.slots[slot] = initial(frame)
            except CelError as exc:
                frame.slots[slot] = Failed(exc)
            return body(frame)

        return run

    def _comprehension(self, node: Comprehension, slots: Slots) -> Run:
        over = self.emit(node.over, slots)
        places = [self.slot() for _ in node.names]
        inner = {**slots, **dict(zip(node.names, places, strict=True))}
        where = self.emit(node.where, inner) if node.where is not None else None
        return comprehension(node.macro, over, places, where, self.emit(node.body, inner))


_HANDLERS: Mapping[type[Node], object] = {
    Literal: Emitter._literal,
    Ident: Emitter._ident,
    Select: Emitter._select,
    Has: Emitter._has,
    Index: Emitter._index,
    Call: Emitter._call,
    Logic: Emitter._logic,
    Conditional: Emitter._conditional,
    ListOf: Emitter._list_of,
    MapOf: Emitter._map_of,
    Bind: Emitter._bind,
    Comprehension: Emitter._comprehension,
}


def _bound(slot: int) -> Run:
    def run(frame: Frame) -> Value:
        frame.charge(1)
        value = frame.slots[slot]
        if type(value) is Failed:
            raise value.error
        return value

    return run


def _equality(left: Run, right: Run, wanted: bool) -> Run:
    def equals(frame: Frame) -> bool:
        return equal(frame, left(frame), right(frame))

    def differs(frame: Frame) -> bool:
        a, b = left(frame), right(frame)
        try:
            return not equal(frame, a, b)
        except CelError:  # never an error: values that cannot be compared differ (CEL-9)
            return True

    return equals if wanted else differs


_HASHED = frozenset({str, int, float, bool, UInt})


def _in_constant(wanted: Run, items: tuple[Value, ...]) -> Run:
    """`wanted in [constants]` as a hash lookup; versions cannot be hashed (CEL-11)."""
    if not items:
        return lambda _: False
    numbers_and_strings = frozenset(map_key(item) for item in items)

    def run(frame: Frame) -> bool:
        frame.charge(1)
        value = wanted(frame)
        if type(value) in _HASHED:
            return map_key(value) in numbers_and_strings
        if NAMES.get(type(value)) == "kubernetes.Semver":
            raise CelError("a version cannot be looked up in a list of constants")
        return False

    return run


def _otherwise(option: Run, other: Run, unwrap: bool) -> Run:
    def run(frame: Frame) -> Value:
        frame.charge(1)
        found = option(frame)
        if type(found) is not Option:
            raise CelError(f"no such overload: {name_of(found)} is not optional")
        if not found.present:
            return other(frame)
        return found.value if unwrap else found

    return run


def _dispatch(dispatch: Dispatch, arguments: list[Run]) -> Run:
    def run(frame: Frame) -> Value:
        return dispatch(frame, [argument(frame) for argument in arguments])

    return run


def _charged(run: Run, steps: int) -> Run:
    def charged(frame: Frame) -> Value:
        frame.charge(steps)
        return run(frame)

    return charged


def _add_present(add: Callable[[Value], None], value: Value, is_optional: bool) -> None:
    if not is_optional:
        add(value)
    elif type(value) is not Option:
        raise CelError(f"no such overload: {name_of(value)} is not optional")
    elif value.present:
        add(value.value)
