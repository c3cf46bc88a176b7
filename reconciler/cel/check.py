"""The static check: refuse wrong names, functions and types before evaluation."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct

from reconciler.cel import types
from reconciler.cel.errors import CelError, RefusedAt
from reconciler.cel.library import kubernetes, lists, standard, strings, times
from reconciler.cel.library.standard import compiled
from reconciler.cel.library.times import parse_duration, parse_timestamp
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
    Macro,
    MapOf,
    Node,
    Select,
)
from reconciler.cel.types import (
    BOOL,
    DEVICE,
    DYN,
    FIELDS,
    INT,
    Inference,
    Key,
    Overload,
    Type,
    list_of,
    map_of,
    optional_of,
)
from reconciler.cel.values import NAMES

_LIBRARIES = (
    standard,
    standard,
    times,
    strings,
    strings,
    lists,
    standard,
    lists,
    kubernetes,
    kubernetes,
    kubernetes,
    kubernetes,
)


def _functions() -> Mapping[Key, tuple[Overload, ...]]:
    table: dict[Key, tuple[Overload, ...]] = {}
    for library in _LIBRARIES:
        for key, overloads in library.LIBRARY.table.items():
            table[key] = table.get(key, ()) + tuple(overloads)
    return MappingProxyType(table)


FUNCTIONS = _functions()
PATTERNED = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a regular expression."""
TYPE_NAMES = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"}
)


class Environment(Struct, frozen=True):
    """The variables of one kind of expression, and the allowed types of its result."""

    variables: tuple[tuple[str, Type], ...]
    results: tuple[Type, ...]


DEVICE_SELECTOR = Environment(variables=(("device", DEVICE),), results=(BOOL, DYN))
"""Device selectors: one variable, a bool result (CEL-1, CEL-7)."""


Scope = Mapping[str, Type]

_CONSTANTS: Mapping[str, tuple[int, Callable[[str], object]]] = {
    "matches": (1, compiled),
    "find": (1, compiled),
    "findAll": (1, compiled),
    "duration": (0, parse_duration),
    "timestamp": (0, parse_timestamp),
}
"""Functions whose constant argument is parsed at compile time: its index, and the parser."""


class Checked(Struct, frozen=True):
    """A tree that passed the check."""

    root: Node
    overloads: Mapping[int, tuple[Overload, ...]]
    """By id of the Call: the overloads that may apply."""


def check(root: Node, environment: Environment) -> Checked:
    """Check a tree. Raises Refusal."""
    checker = _Checker()
    result = checker.infer(root, dict(environment.variables))
    if result not in environment.results:
        wanted = " or ".join(map(str, environment.results))
        raise RefusedAt(root.at, f"the result is {result}, but must be {wanted}", "compare it with a value")
    return Checked(root, checker.overloads)


class _Checker:
    def __init__(self) -> None:
        self.inference = Inference()
        self.overloads: dict[int, tuple[Overload, ...]] = {}

    def infer(self, node: Node, scope: Scope) -> Type:
        """The static type of a node, resolved as far as known."""
        handler = cast("Callable[[_Checker, Any, Scope], Type]", _HANDLERS[type(node)])
        return handler(self, node, scope)

    def literal(self, node: Literal, _: Scope) -> Type:
        return Type(NAMES[type(node.value)])

    def ident(self, node: Ident, scope: Scope) -> Type:
        if found := scope.get(node.name):
            return found
        if node.name in TYPE_NAMES:
            return Type("type", (DYN,))
        raise RefusedAt(node.at, f"undeclared name {node.name}", f"use one of: {', '.join(sorted(scope))}")

    def select(self, node: Select, scope: Scope) -> Type:
        found = self._field(node, self.infer(node.operand, scope))
        return optional_of(found) if node.optional and found.name != "optional_type" else found

    def has(self, node: Has, scope: Scope) -> Type:
        self._field(node, self.infer(node.operand, scope))
        return BOOL

    def _field(self, node: Select | Has, operand: Type) -> Type:
        operand = self.inference.resolve(operand)
        if operand == DYN:
            return DYN
        if fields := FIELDS.get(operand):
            if node.field not in fields:
                raise RefusedAt(
                    node.at, f"undefined field {node.field}", f"{operand} has {', '.join(fields)}"
                )
            return fields[node.field]
        if operand.name == "optional_type":
            return optional_of(self._field(node, operand.params[0]))
        if operand.name == "map":
            if self.inference.accepts(operand.params[0], types.STRING):
                return operand.params[1]
            raise RefusedAt(node.at, f"the keys of {operand} are not strings", "use an index")
        raise RefusedAt(node.at, f"{operand} has no fields", "select from a map or an object")

    def index(self, node: Index, scope: Scope) -> Type:
        operand = self.inference.resolve(self.infer(node.operand, scope))
        key = self.infer(node.key, scope)
        optional = node.optional
        if operand.name == "optional_type":
            operand, optional = operand.params[0], True
        found = self._element(node, operand, key)
        return optional_of(found) if optional else found

    def _element(self, node: Index, operand: Type, key: Type) -> Type:
        if operand == DYN:
            return DYN
        if operand.name not in ("list", "map"):
            raise RefusedAt(node.at, f"{operand} cannot be indexed", "index a list or a map")
        wanted = INT if operand.name == "list" else operand.params[0]
        if not self.inference.accepts(wanted, key):
            given = self.inference.resolve(key)
            raise RefusedAt(node.at, f"{operand} cannot be indexed by {given}", f"use {wanted}")
        return operand.params[-1]

    def call(self, node: Call, scope: Scope) -> Type:
        given = tuple(self.infer(argument, scope) for argument in node.arguments)
        if node.function in _EQUALITY:
            return self._equality(node, given)
        declared = FUNCTIONS.get((node.function, node.member))
        if declared is None:
            raise RefusedAt(
                node.at, f"undeclared function {node.function}", "see the CEL libraries of Kubernetes"
            )
        fitting: list[Overload] = []
        results: list[Type] = []
        for overload in declared:
            names: dict[str, Type] = {}
            parameters = tuple(self.inference.instance(each, names) for each in overload.parameters)
            if len(parameters) == len(given) and self.inference.accepts_all(parameters, given):
                fitting.append(overload)
                results.append(self.inference.resolve(self.inference.instance(overload.result, names)))
        if not fitting:
            raise self._mismatch(node, given)
        self._read_constant(node)
        self.overloads[id(node)] = tuple(fitting)
        return results[0] if all(result == results[0] for result in results) else DYN

    def _equality(self, node: Call, given: tuple[Type, ...]) -> Type:
        if not self.inference.accepts_all(given[:1], given[1:]):
            raise self._mismatch(node, given)
        return BOOL

    def _mismatch(self, node: Call, given: tuple[Type, ...]) -> RefusedAt:
        shown = ", ".join(str(self.inference.resolve(each)) for each in given)
        return RefusedAt(node.at, f"no overload of {node.function} takes ({shown})", "convert the arguments")

    def _read_constant(self, node: Call) -> None:
        place, reader = _CONSTANTS.get(node.function, (0, None))
        if reader is None or len(node.arguments) <= place:
            return
        constant = node.arguments[place]
        if isinstance(constant, Literal) and isinstance(constant.value, str):
            try:
                reader(constant.value)
            except CelError as exc:
                raise RefusedAt(constant.at, str(exc), f"fix the argument of {node.function}") from None

    def logic(self, node: Logic, scope: Scope) -> Type:
        for term in node.terms:
            self._expect(BOOL, term, scope)
        return BOOL

    def conditional(self, node: Conditional, scope: Scope) -> Type:
        self._expect(BOOL, node.test, scope)
        yes, no = self.infer(node.yes, scope), self.infer(node.no, scope)
        if not self.inference.accepts(yes, no):
            shown = f"{self.inference.resolve(yes)} and {self.inference.resolve(no)}"
            raise RefusedAt(node.at, f"the branches have types {shown}", "use one type, or dyn()")
        return self._join(yes, no)

    def list_of(self, node: ListOf, scope: Scope) -> Type:
        item = self.inference.fresh()
        for element in node.elements:
            item = self._member(item, element.value, element.optional, scope)
        return list_of(item)

    def map_of(self, node: MapOf, scope: Scope) -> Type:
        key, value = self.inference.fresh(), self.inference.fresh()
        for entry in node.entries:
            key = self._member(key, entry.key, False, scope)
            value = self._member(value, entry.value, entry.optional, scope)
        if self.inference.resolve(key).name in ("double", "list", "map", "bytes", "null_type"):
            raise RefusedAt(
                node.at,
                f"a map cannot have {self.inference.resolve(key)} keys",
                "use int, uint, bool or string keys",
            )
        return map_of(key, value)

    def _member(self, wanted: Type, node: Node, optional: bool, scope: Scope) -> Type:
        """The type of a literal's members with one more member; members must have one type."""
        given = self.infer(node, scope)
        if optional:
            item = self.inference.fresh()
            if not self.inference.accepts(optional_of(item), given):
                raise RefusedAt(
                    node.at, f"{self.inference.resolve(given)} is not optional", "remove the question mark"
                )
            given = item
        if not self.inference.accepts(wanted, given):
            shown = f"{self.inference.resolve(given)} among {self.inference.resolve(wanted)}"
            raise RefusedAt(node.at, f"mixed types: {shown}", "use one type, or dyn()")
        return self._join(wanted, given)

    def _join(self, left: Type, right: Type) -> Type:
        """The more general of two compatible types."""
        return DYN if DYN in (left, right) else left

    def _expect(self, wanted: Type, node: Node, scope: Scope) -> None:
        given = self.infer(node, scope)
        if not self.inference.accepts(wanted, given):
            raise RefusedAt(
                node.at, f"expected {wanted}, got {self.inference.resolve(given)}", "compare it with a value"
            )

    def bind(self, node: Bind, scope: Scope) -> Type:
        return self.infer(node.body, {**scope, node.name: self.infer(node.initial, scope)})

    def comprehension(self, node: Comprehension, scope: Scope) -> Type:
        over = self.inference.resolve(self.infer(node.over, scope))
        key, value = self._elements(node, over)
        if len(node.names) == 2:
            inner = {**scope, node.names[0]: key, node.names[1]: value}
        else:
            inner = {**scope, node.names[0]: key if over.name == "map" else value}
        if node.where is not None:
            self._expect(BOOL, node.where, inner)
        match node.macro:
            case Macro.ALL | Macro.EXISTS | Macro.EXISTS_ONE | Macro.FILTER:
                self._expect(BOOL, node.body, inner)
                return list_of(inner[node.names[0]]) if node.macro is Macro.FILTER else BOOL
        body = self.infer(node.body, inner)
        match node.macro:
            case Macro.MAP | Macro.TRANSFORM_LIST:
                return list_of(body)
            case Macro.SORT_BY:
                return over
            case Macro.TRANSFORM_MAP:
                return map_of(key, body)
            case Macro.OPT_MAP:
                return optional_of(body)
        return self._shaped(node, body)

    def _shaped(self, node: Comprehension, body: Type) -> Type:
        """The result of a macro whose body must be a map or an optional."""
        if node.macro is Macro.OPT_FLAT_MAP:
            wanted = optional_of(self.inference.fresh())
        else:
            wanted = map_of(self.inference.fresh(), self.inference.fresh())
        if not self.inference.accepts(wanted, body):
            shown = self.inference.resolve(wanted)
            raise RefusedAt(node.body.at, f"the body of {node.macro} must be {shown}", "change the body")
        return body

    def _elements(self, node: Comprehension, over: Type) -> tuple[Type, Type]:
        """The types of index or key, and of value."""
        optional = node.macro in (Macro.OPT_MAP, Macro.OPT_FLAT_MAP)
        only_lists = node.macro is Macro.SORT_BY
        if over == DYN:
            return DYN, DYN
        if optional and over.name == "optional_type":
            return INT, over.params[0]
        if not optional and over.name == "list":
            return INT, over.params[0]
        if not optional and not only_lists and over.name == "map":
            return over.params[0], over.params[1]
        raise RefusedAt(node.at, f"{node.macro} does not apply to {over}", "use a list or a map")


_EQUALITY = frozenset({"_==_", "_!=_"})
_HANDLERS: Mapping[type[Node], object] = {
    Literal: _Checker.literal,
    Ident: _Checker.ident,
    Select: _Checker.select,
    Has: _Checker.has,
    Index: _Checker.index,
    Call: _Checker.call,
    Logic: _Checker.logic,
    Conditional: _Checker.conditional,
    ListOf: _Checker.list_of,
    MapOf: _Checker.map_of,
    Bind: _Checker.bind,
    Comprehension: _Checker.comprehension,
}
