"""The static check: refuse wrong names, functions and types before evaluation.

The types are those that cel-go infers, since they decide which overload runs. So macros are checked as the
calls that they stand for there: `list.map(x, x + 1)` appends `[x + 1]` to a list of open type, in a loop.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from reconciler.cel import tree, types
from reconciler.cel.errors import RefusedAt
from reconciler.cel.library import formats, kubernetes, lists, standard, strings, times, urls
from reconciler.cel.library.lists import ORDERED
from reconciler.cel.values import NAMES

_LIBRARIES = (standard, times, urls, lists, kubernetes, strings, strings, kubernetes, formats)
_CHECKED_ONLY = types.Library()
"""Calls that the evaluator carries out by itself."""
_CHECKED_ONLY.declare("_==_", "T, T -> bool")
_CHECKED_ONLY.declare("_!=_", "T, T -> bool")
_CHECKED_ONLY.declare("_?_:_", "bool, T, T -> T")
_CHECKED_ONLY.declare(
    "_[_]",
    *("list(T), int -> T", "map(K, V), K -> V"),
    *("optional(list(V)), int -> optional(V)", "optional(map(K, V)), K -> optional(V)"),
)
_CHECKED_ONLY.declare(
    "_[?_]",
    *("list(V), int -> optional(V)", "optional(list(V)), int -> optional(V)"),
    *("map(K, V), K -> optional(V)", "optional(map(K, V)), K -> optional(V)"),
)
_CHECKED_ONLY.declare("@insert", "map(K, V), K, V -> map(K, V)", "map(K, V), map(K, V) -> map(K, V)")
_CHECKED_ONLY.declare("@sortBy", *(f"list(T), list({each}) -> list(T)" for each in ORDERED), member=True)


def _functions() -> Mapping[types.Key, tuple[types.Overload, ...]]:
    table: dict[types.Key, tuple[types.Overload, ...]] = {}
    for library in (*(each.LIBRARY for each in _LIBRARIES), _CHECKED_ONLY):
        for key, overloads in library.table.items():
            table[key] = table.get(key, ()) + tuple(overloads)
    return MappingProxyType(table)


FUNCTIONS = _functions()
_BY_VALUE = frozenset({"type", "dyn", "size", "matches", "sort"})
"""Functions, with all operators, that Kubernetes runs by the values alone, whatever the types let expect."""
TYPE_NAMES = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"}
    | {each.name for each in (types.DURATION, types.TIMESTAMP, types.IP, types.CIDR)}
)


class Environment(Struct, frozen=True):
    """The variables of one kind of expression, and the allowed types of its result."""

    variables: tuple[tuple[str, types.Type], ...]
    results: tuple[types.Type, ...]
    wanted: str = "bool or dyn"
    """Those types, for messages"""
    remedy: str = "compare it with a value"
    """What to do about any other type"""


_DEVICE = (("device", types.DEVICE),)
DEVICE_SELECTOR = Environment(_DEVICE, (types.BOOL, types.DYN))
"""Device selectors: one variable, a bool result (CEL-1, CEL-7)."""
_DERIVED = (types.BOOL, types.INT, types.STRING, types.SEMVER, types.DYN)
DERIVED_ATTRIBUTE = Environment(
    _DEVICE,
    (*_DERIVED, *map(types.list_of, _DERIVED)),
    "a string, int, bool or version, or a list of one of them",
    "convert it, for example by string()",
)
"""Derived attributes: a value that an attribute can have, or a list of such values (CEL-18)."""


Scope = Mapping[str, types.Type]


class Checked(Struct, frozen=True):
    """A tree that passed the check."""

    root: tree.Node
    overloads: Mapping[int, tuple[types.Overload, ...]]
    """By id of the Call: the overloads among which the values choose."""
    types: Mapping[int, types.Type]
    """By id of the node: its type."""


def check(root: tree.Node, environment: Environment) -> Checked:
    """Check a tree. Raises RefusedAt."""
    checker = _Checker()
    checker.infer(root, dict(environment.variables))
    resolved = {node: checker.inference.resolve(found) for node, found in checker.types.items()}
    result = resolved[id(root)]
    if result not in environment.results:
        what = f"the result is {result}, but must be {environment.wanted}"
        raise RefusedAt(root.at, what, environment.remedy)
    return Checked(root, checker.overloads, resolved)


class _Checker:
    def __init__(self) -> None:
        self.inference = types.Inference()
        self.overloads: dict[int, tuple[types.Overload, ...]] = {}
        self.types: dict[int, types.Type] = {}

    def infer(self, node: tree.Node, scope: Scope) -> types.Type:
        """The static type of a node, as far as known, by the method with the name of its kind."""
        found: types.Type = getattr(self, type(node).__name__.lower())(node, scope)
        self.types[id(node)] = found
        return found

    def literal(self, node: tree.Literal, _: Scope) -> types.Type:
        return types.Type(NAMES[type(node.value)])

    def ident(self, node: tree.Ident, scope: Scope) -> types.Type:
        if found := scope.get(node.name):
            return found
        if node.name in TYPE_NAMES:
            return types.Type("type", (types.Type(node.name),))
        raise RefusedAt(node.at, f"undeclared name {node.name}", f"use one of: {', '.join(sorted(scope))}")

    def select(self, node: tree.Select, scope: Scope) -> types.Type:
        return self.inference.substitute(self._field(node, scope, node.optional))

    def has(self, node: tree.Has, scope: Scope) -> types.Type:
        self._field(node, scope, False)
        return types.BOOL

    def _field(self, node: tree.Select | tree.Has, scope: Scope, optional: bool) -> types.Type:
        operand = self.inference.substitute(self.infer(node.operand, scope))
        if operand.name == "optional_type":
            operand, optional = operand.params[0], True
        if operand.is_open:
            self.inference.assignable(types.DYN, operand)
            found = types.DYN
        elif fields := types.FIELDS.get(operand):
            if node.field not in fields:
                known = ", ".join(fields)
                raise RefusedAt(node.at, f"undefined field {node.field}", f"{operand} has {known}")
            found = fields[node.field]
        elif operand == types.DYN or operand.name == "map":
            found = operand if operand == types.DYN else operand.params[1]
        else:
            raise RefusedAt(node.at, f"{operand} has no fields", "select from a map or an object")
        return types.optional_of(found) if optional else found

    def index(self, node: tree.Index, scope: Scope) -> types.Type:
        given = (self.infer(node.operand, scope), self.infer(node.key, scope))
        return self._result(node, "_[?_]" if node.optional else "_[_]", given)

    def call(self, node: tree.Call, scope: Scope) -> types.Type:
        given = tuple(self.infer(argument, scope) for argument in node.arguments)
        result, fitting = self._resolve(node, node.function, given, node.member)
        by_value = len(fitting) > 1 or node.function in _BY_VALUE or node.function[0] in "_!-"
        self.overloads[id(node)] = FUNCTIONS[node.function, node.member] if by_value else fitting
        return result

    def _result(
        self, node: tree.Node, function: str, given: tuple[types.Type, ...], member: bool = False
    ) -> types.Type:
        """The type of a call."""
        return self._resolve(node, function, given, member)[0]

    def _resolve(
        self, node: tree.Node, function: str, given: tuple[types.Type, ...], member: bool = False
    ) -> tuple[types.Type, tuple[types.Overload, ...]]:
        """The type of a call, and the overloads that fit it."""
        declared = FUNCTIONS.get((function, member))
        if declared is None:
            raise RefusedAt(node.at, f"undeclared function {function}", "see the CEL libraries of Kubernetes")
        fitting: list[types.Overload] = []
        result: types.Type | None = None
        for overload in declared:
            names: dict[str, types.Type] = {}
            parameters = tuple(self.inference.instance(each, names) for each in overload.parameters)
            if self.inference.all_assignable(given, parameters):
                fitting.append(overload)
                found = self.inference.substitute(self.inference.instance(overload.result, names))
                result = found if result in (None, found) else types.DYN
        if result is None:
            shown = ", ".join(str(self.inference.resolve(each)) for each in given)
            raise RefusedAt(node.at, f"no overload of {function} takes ({shown})", "convert the arguments")
        return result, tuple(fitting)

    def logic(self, node: tree.Logic, scope: Scope) -> types.Type:
        for term in node.terms:
            self._expect_bool(term, scope)
        return types.BOOL

    def _expect_bool(self, node: tree.Node, scope: Scope) -> None:
        given = self.infer(node, scope)
        if not self.inference.assignable(given, types.BOOL):
            shown = self.inference.resolve(given)
            raise RefusedAt(node.at, f"expected bool, got {shown}", "compare it with a value")

    def conditional(self, node: tree.Conditional, scope: Scope) -> types.Type:
        given = tuple(self.infer(each, scope) for each in (node.test, node.yes, node.no))
        return self._result(node, "_?_:_", given)

    def listof(self, node: tree.ListOf, scope: Scope) -> types.Type:
        joined: types.Type | None = None
        for element in node.elements:
            joined = self._join(joined, element.value, element.optional, scope)
        return types.list_of(joined or self.inference.fresh())

    def mapof(self, node: tree.MapOf, scope: Scope) -> types.Type:
        key: types.Type | None = None
        value: types.Type | None = None
        for entry in node.entries:
            key = self._join(key, entry.key, False, scope)
            value = self._join(value, entry.value, entry.optional, scope)
        return types.map_of(key or self.inference.fresh(), value or self.inference.fresh())

    def _join(self, before: types.Type | None, node: tree.Node, optional: bool, scope: Scope) -> types.Type:
        """The one type of the members of a literal, with one more member; dyn if they differ (`literals`)."""
        given = self.infer(node, scope)
        if optional:
            if given.name != "optional_type":
                shown = self.inference.resolve(given)
                raise RefusedAt(node.at, f"{shown} is not optional", "remove the question mark")
            given = given.params[0]
        if before is None:
            return given
        if not self.inference.assignable(before, given):
            return types.DYN
        return self.inference.general(before, given)

    def bind(self, node: tree.Bind, scope: Scope) -> types.Type:
        self.inference.fresh()
        initial = self.infer(node.initial, scope)
        return self.inference.substitute(self.infer(node.body, {**scope, node.name: initial}))

    def comprehension(self, node: tree.Comprehension, scope: Scope) -> types.Type:
        over = self.infer(node.over, scope)
        if node.macro in (tree.Macro.OPT_MAP, tree.Macro.OPT_FLAT_MAP):
            return self._on_optional(node, over, scope)
        inner = self._scope(node, self.inference.substitute(over), scope)
        match node.macro:
            case tree.Macro.ALL | tree.Macro.EXISTS:
                self._expect_bool(node.body, inner)
                return types.BOOL
            case tree.Macro.EXISTS_ONE:
                self._result(node.body, "_?_:_", (self.infer(node.body, inner), types.INT, types.INT))
                return types.BOOL
            case tree.Macro.SORT_BY:
                return self._result(node, "@sortBy", (over, self._collected(node, inner)), True)
        return self.inference.substitute(self._collected(node, inner))

    def _on_optional(self, node: tree.Comprehension, over: types.Type, scope: Scope) -> types.Type:
        """`over.hasValue() ? optional.of(body) : optional.none()`, with the name bound to `over.value()`."""
        tested = self._result(node, "hasValue", (over,), True)
        value = self._result(node, "value", (over,), True)
        found = self.inference.substitute(self.infer(node.body, {**scope, node.names[0]: value}))
        if node.macro is tree.Macro.OPT_MAP:
            found = self._result(node.body, "optional.of", (found,))
        none = self._result(node, "optional.none", ())
        return self._result(node.body, "_?_:_", (tested, found, none))

    def _scope(self, node: tree.Comprehension, over: types.Type, scope: Scope) -> Scope:
        """The scope of the body of a loop."""
        if over.name == "list":
            bound = (types.INT, over.params[0]) if len(node.names) == 2 else over.params
        elif over.name == "map":
            bound = over.params
        elif over == types.DYN or over.is_open:
            self.inference.assignable(types.DYN, over)
            bound = (types.DYN, types.DYN)
        else:
            raise RefusedAt(node.at, f"{node.macro} does not apply to {over}", "use a list or a map")
        return {**scope, **dict(zip(node.names, bound, strict=False))}

    def _collected(self, node: tree.Comprehension, inner: Scope) -> types.Type:
        """The type of what a loop collects, from the step that it takes for each element."""
        into_map = node.macro in (tree.Macro.TRANSFORM_MAP, tree.Macro.TRANSFORM_MAP_ENTRY)
        fresh = self.inference.fresh
        collected = types.map_of(fresh(), fresh()) if into_map else types.list_of(fresh())
        where = node.body if node.macro is tree.Macro.FILTER else node.where
        tested = None if where is None else self.infer(where, inner)
        name = inner[node.names[0]]
        added = name if node.macro is tree.Macro.FILTER else self.infer(node.body, inner)
        if node.macro is tree.Macro.TRANSFORM_MAP:
            step = self._result(node.body, "@insert", (collected, name, added))
        elif node.macro is tree.Macro.TRANSFORM_MAP_ENTRY:
            step = self._result(node.body, "@insert", (collected, added))
        else:
            step = self._result(node.body, "_+_", (collected, types.list_of(added)))
        if where is not None and tested is not None:
            step = self._result(where, "_?_:_", (tested, step, collected))
        if not self.inference.assignable(collected, step):
            given, before = self.inference.resolve(step), self.inference.resolve(collected)
            raise RefusedAt(
                node.body.at, f"{given} cannot be collected as {before}", "use one type, or dyn()"
            )
        return collected
