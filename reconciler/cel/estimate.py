"""The steps of an expression at worst, as the API server estimates them before it stores one (CEL-19).

Sizes are of texts and lists. What the API bounds, such as the value of an attribute, has a size; what a
function returns often has none, and work in proportion to it costs more than any limit. Macros cost what
their loops cost. Sources: packages `cel-go/checker`, `cel-go/ext`, `apiserver/pkg/cel/library` and
`dynamic-resource-allocation/cel`.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

from reconciler.cel import tree
from reconciler.cel.check import DERIVED_ATTRIBUTE, Checked, check
from reconciler.cel.errors import MAX_INCLUDED, RefusedAt
from reconciler.cel.reading import read
from reconciler.cel.types import CIDR, DEVICE, IP, QUANTITY, SEMVER, Type

NO_BOUND = 2**64 - 1
"""A size that nothing bounds, and the cost of what takes as many steps"""
_TEXT = 0.1
"""Steps a character"""
_PATTERN = 0.25
"""Steps a character of a regular expression, for each step of the text"""
_LIST, _MAP = 10, 30
"""Steps to make a list or a map"""


class Size(NamedTuple):
    """How long a text or a list is."""

    least: int
    most: int

    def times(self, factor: float) -> int:
        """The steps to go through it."""
        return min(NO_BOUND, math.ceil(float(self.most) * factor))

    def join(self, other: "Size") -> "Size":
        """The size of one or the other."""
        return Size(min(self.least, other.least), max(self.most, other.most))


_UNKNOWN, _ONE = Size(0, NO_BOUND), Size(1, 1)


class _Parts(NamedTuple):
    """The sizes of what is in a list or a map."""

    is_list: bool
    key: Size
    value: Size


class _Found(NamedTuple):
    cost: int
    size: Size | None = None
    path: tuple[str, ...] = ()
    """How the value is reached from a variable"""
    parts: _Parts | None = None

    @property
    def bound(self) -> Size:
        return self.size or _UNKNOWN


_Scope = Mapping[str, _Found]


def worst_cost(expression: str) -> int:
    """The steps of a selector or derived attribute at worst. Raises CelRefused."""
    try:
        checked = check(read(expression), DERIVED_ATTRIBUTE)
        return _Estimator(checked).of(checked.root, {}).cost
    except RefusedAt as refusal:
        raise refusal.with_text(expression) from None


def _declared(path: tuple[str, ...]) -> Size | None:
    """The size of what the API bounds."""
    match path:
        case ("device", "driver") | ("device", "attributes" | "capacity", "@keys"):
            return Size(0, 63)
        case ("device",):
            return Size(0, 0)
        case ("device", "allowMultipleAllocations"):
            return Size(0, 1)
        case ("device", "attributes" | "capacity") | ("device", "attributes" | "capacity", "@values"):
            return Size(0, 32)
        case ("device", _, "@values", "@keys"):
            return Size(0, 32)
        case ("device", "attributes", "@values", _):
            return Size(0, 64)
        case ("device", "capacity", "@values", "@values"):
            return Size(0, 0)
    return None


_SCALARS = frozenset(
    ("bool", "double", "int", "uint", "google.protobuf.Duration", "google.protobuf.Timestamp")
)


def _of_type(given: Type) -> Size | None:
    while given.name == "optional_type":
        given = given.params[0]
    return _ONE if given.name in _SCALARS else None


def _may_be(given: Type, *names: str) -> bool:
    return given.name in (*names, "dyn")


def _element(given: Type) -> Type | None:
    return given.params[0] if given.params else None


class _Estimator:
    def __init__(self, checked: Checked) -> None:
        self._types = checked.types

    def of(self, node: tree.Node, scope: _Scope) -> _Found:
        """The cost of a node with all below, and what is known about its value."""
        match node:
            case tree.Literal(value=value):
                return _Found(0, Size(len(value), len(value)) if isinstance(value, (str, bytes)) else _ONE)
            case tree.Ident(name=name):
                local = scope.get(name, _Found(0, path=(name,)))
                size = self._size(node, local.path) or local.size
                return local._replace(cost=1, size=size)
            case tree.Has(operand=operand):
                return _Found(self.of(operand, scope).cost, _ONE)
            case tree.Select():
                return self._select(node, scope)
            case tree.Index():
                return self._index(node, scope)
            case tree.Logic(terms=terms):
                return _Found(sum(self.of(term, scope).cost for term in terms), _ONE)
            case tree.Conditional():
                return self._conditional(node, scope)
            case tree.ListOf(elements=elements):
                found = [self.of(element.value, scope) for element in elements]
                size = Size(len(found), len(found))
                parts = _Parts(True, _ONE, _any_of(found))
                return _Found(_LIST + _total(found), size, parts=parts)
            case tree.MapOf(entries=entries):
                keys = [self.of(entry.key, scope) for entry in entries]
                values = [self.of(entry.value, scope) for entry in entries]
                parts = _Parts(False, _any_of(keys), _any_of(values))
                size = Size(len(keys), len(keys))
                return _Found(_MAP + _total(keys) + _total(values), size, parts=parts)
            case tree.Bind(name=name, initial=initial, body=body):
                bound = self.of(initial, scope)
                value = self.of(body, {**scope, name: bound})
                return value._replace(cost=_LIST + bound.cost + value.cost, path=())
            case tree.Comprehension(macro=macro):
                optional = macro in (tree.Macro.OPT_MAP, tree.Macro.OPT_FLAT_MAP)
                return self._on_optional(node, scope) if optional else self._loop(node, scope)
            case tree.Call():
                return self._call(node, scope)
        raise AssertionError(node)

    def _size(self, node: tree.Node, path: tuple[str, ...] = ()) -> Size | None:
        return _declared(path) or _of_type(self._types[id(node)])

    def _select(self, node: tree.Select, scope: _Scope) -> _Found:
        operand = self.of(node.operand, scope)
        if node.optional:
            return _Found(1 + operand.cost, self._size(node))
        given = self._types[id(node.operand)]
        path = (*operand.path, node.field)
        return _Found(operand.cost + (given.name == "map" or given == DEVICE), self._size(node, path), path)

    def _index(self, node: tree.Index, scope: _Scope) -> _Found:
        operand, key = self.of(node.operand, scope), self.of(node.key, scope)
        cost = 1 + operand.cost + key.cost
        if node.optional:
            return _Found(cost, self._size(node))
        is_list = self._types[id(node.operand)].name == "list"
        path = (*operand.path, "@items" if is_list else "@values")
        return _Found(cost, operand.parts.value if operand.parts else self._size(node, path), path)

    def _conditional(self, node: tree.Conditional, scope: _Scope) -> _Found:
        test, yes, no = (self.of(each, scope) for each in (node.test, node.yes, node.no))
        cost = test.cost + max(yes.cost, no.cost)
        return _Found(cost, yes.bound.join(no.bound), parts=_either(yes.parts, no.parts))

    def _on_optional(self, node: tree.Comprehension, scope: _Scope) -> _Found:
        """`over.hasValue() ? optional.of(body) : optional.none()`, with the name bound to `over.value()`."""
        over = self.of(node.over, scope)
        body = self.of(node.body, {**scope, node.names[0]: _Found(0)})
        made = 1 if node.macro is tree.Macro.OPT_MAP else 0
        return _Found(2 * over.cost + 2 + made + _LIST + body.cost, self._size(node))

    def _loop(self, node: tree.Comprehension, scope: _Scope) -> _Found:
        over = self.of(node.over, scope)
        is_list = over.parts.is_list if over.parts else self._types[id(node.over)].name == "list"
        key = _Found(0, over.parts and over.parts.key, (*over.path, "@indices" if is_list else "@keys"))
        value = _Found(0, over.parts and over.parts.value, (*over.path, "@items" if is_list else "@values"))
        first = key if len(node.names) == 2 or not is_list else value
        inner = {**scope, **dict(zip(node.names, (first, value), strict=False))}
        body = self.of(node.body, inner)
        tested = self.of(node.where, inner).cost if node.where is not None else 0
        times = over.bound.most
        match node.macro:  # what each turn costs beside the test and the body: tests, what is added to what
            case tree.Macro.ALL:
                return _Found(over.cost + times * (3 + body.cost) + 1, _ONE)
            case tree.Macro.EXISTS:
                return _Found(over.cost + times * (4 + body.cost) + 1, _ONE)
            case tree.Macro.EXISTS_ONE:
                return _Found(over.cost + times * (2 + body.cost) + 2, _ONE)
            case tree.Macro.TRANSFORM_MAP | tree.Macro.TRANSFORM_MAP_ENTRY:
                turn = tested + body.cost + (3 if node.macro is tree.Macro.TRANSFORM_MAP else 2)
                return _Found(over.cost + _MAP + times * turn + 1, over.bound)
            case tree.Macro.SORT_BY:  # the list is bound to a name and mapped to the keys
                keys = 1 + _LIST + times * (12 + body.cost) + 1
                sorting, size = _sorted(over.bound, self._types[id(node.body)])
                return _Found(_LIST + over.cost + 1 + keys + sorting, size)
        item, turn = body.bound, tested + 12 + body.cost
        if node.macro is tree.Macro.FILTER:
            element = _element(self._types[id(node.over)])
            item = _declared(first.path) or (element and _of_type(element)) or first.bound
            turn += 1
        parts = _Parts(True, _ONE, Size(0, item.most))
        return _Found(over.cost + _LIST + times * turn + 1, over.bound, parts=parts)

    def _call(self, node: tree.Call, scope: _Scope) -> _Found:
        given = [self.of(each, scope) for each in node.arguments]
        types = [self._types[id(each)] for each in node.arguments]
        if node.function == "dyn":
            return given[0]._replace(cost=1 + given[0].cost, path=())
        cost, size = self._steps(node, given, types)
        parts = _either(given[0].parts, given[1].parts) if node.function == "_+_" else None
        return _Found(cost + _total(given), size or self._size(node), parts=parts)

    def _steps(self, node: tree.Call, given: list[_Found], types: list[Type]) -> tuple[int, Size | None]:
        """The cost of a call beside that of its arguments, and the size of its result, if it has one."""
        name, sizes = node.function, [each.bound for each in given]
        if name in _OPERATORS:
            return _operator(name, sizes, types)
        if name in _SCANS and not (name == "ip" and node.member):
            return sizes[0].times(_TEXT * _SCANS[name]), _scanned(node, sizes)
        if name in ("string", "bytes") and _may_be(types[0], "bytes" if name == "string" else "string"):
            least, most = sizes[0]
            size = Size(least // 4, most) if name == "string" else Size(least, 4 * most)
            return max(1, sizes[0].times(_TEXT)), size
        if name == "matches" and not node.member:
            return 1, None
        return _searching(name, sizes, types) or self._on_list(node, given[:1], sizes, types) or (1, None)

    def _on_list(
        self, node: tree.Call, receiver: list[_Found], sizes: list[Size], types: list[Type]
    ) -> tuple[int, Size | None] | None:
        match node.function:
            case "join":
                most = sizes[0].most * self._item(receiver[0]).most if types[0].params else 0
                most += sizes[1].most * max(0, sizes[0].most - 1) if len(sizes) > 1 else 0
                found = Size(0, min(NO_BOUND, most))
                return found.times(_TEXT), found
            case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf":
                element = _element(types[0])
                if element is None:
                    return sizes[0].times(_TEXT), None
                compared = self._item(receiver[0]).times(_TEXT) if element.name in ("string", "bytes") else 0
                return sizes[0].most * (1 + compared), None
            case "sets.contains" | "sets.intersects" | "sets.equivalent":
                passes = 2 if node.function == "sets.equivalent" else 1
                return 1 + sizes[0].most * sizes[1].most * passes, None
            case "lists.range":
                return _allocated(Size(0, _constant(node, 0, NO_BOUND)), 1)
            case "slice":
                length = _constant(node, 2, sizes[0].most) - _constant(node, 1, 0)
                return _allocated(Size(0, length % 2**64), 1)
            case "reverse":
                return _allocated(sizes[0], 1)
            case "flatten":
                return _allocated(sizes[0], _constant(node, 1, NO_BOUND) if len(sizes) > 1 else 1)
            case "distinct":
                return _sorted(sizes[0], None)
            case "sort":
                return _sorted(sizes[0], _element(types[0]))
        return None

    def _item(self, found: _Found) -> Size:
        """The size of an item, which Kubernetes knows only by the path of the list."""
        return _declared((*found.path, "@items")) or _UNKNOWN


_OPERATORS = frozenset(("_+_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_in_"))
_SCANS = {
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim", "url", "format", "strings.quote"), 1),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver", "cidr", "isCIDR", "ip", "isIP"), 1),
    **dict.fromkeys(("ip.isCanonical", "split", "replace"), 2),
}
"""Functions that go through their first argument: how often"""


def _scanned(node: tree.Call, sizes: list[Size]) -> Size | None:
    """The size of what a function makes of a text."""
    text = sizes[0]
    match node.function:
        case "lowerAscii" | "upperAscii" | "substring" | "trim" | "url":
            return text
        case "strings.quote":
            return Size(text.least + 2, 2 * text.most + 2)
        case "split":
            return Size(0, _constant(node, 2, text.most))
        case "replace":
            old, new = sizes[1:3]
            if old.least == 0:
                most = (text.most + 1) * new.most + text.most
            elif new.most <= old.least:
                most = text.most
            else:
                most = math.ceil(text.most / old.least) * new.most
            return Size(0, min(NO_BOUND, most))
    return None


def _searching(name: str, sizes: list[Size], types: list[Type]) -> tuple[int, Size | None] | None:
    """Functions that compare a text or an address with another one."""
    match name:
        case "startsWith" | "endsWith":
            return sizes[1].times(_TEXT), None
        case "contains":
            return sizes[0].times(_TEXT) * sizes[1].times(_TEXT), None
        case "matches" | "find" | "findAll":
            steps = Size(1, sizes[0].most + 1).times(_TEXT) * sizes[1].times(_PATTERN)
            return steps, None if name == "matches" else Size(0, sizes[0].most)
        case "validate":
            return sizes[1].times(_TEXT) * 32, None  # of the longest pattern of the formats
        case "includes":
            return MAX_INCLUDED, None
        case "containsIP" | "containsCIDR":
            parsed = sizes[1].times(_TEXT) if _may_be(types[1], "string") else 0
            return (4 if name == "containsIP" else 7) + parsed, None
    return None


def _operator(name: str, sizes: list[Size], types: list[Type]) -> tuple[int, Size | None]:
    (left, right), (first, second) = sizes, types
    texts = any(_may_be(first, kind) and _may_be(second, kind) for kind in ("string", "bytes"))
    if name == "_in_":
        return (1 if second.name == "map" else max(second.name == "dyn", right.most)), None
    if name == "_+_":
        joined = Size(left.least + right.least, min(NO_BOUND, left.most + right.most))
        lists = _may_be(first, "list") and _may_be(second, "list")
        return joined.times(_TEXT) if texts else 1, joined if texts or lists else None
    if name == "_==_" and first == second:  # only of == Kubernetes says that these are equal at once
        if first in (IP, CIDR, QUANTITY, SEMVER):
            return 1, None
        if first.name in _COMPARED:
            return _COMPARED[first.name] or right.times(_TEXT), None
    if texts or name in ("_==_", "_!=_"):
        return Size(0, min(left.most, right.most)).times(_TEXT), None
    return 1, None


_COMPARED = {"kubernetes.NamedFormat": 7, "kubernetes.URL": 0}
"""Steps to compare values; 0 for as many as their size has"""


def _sorted(size: Size, element: Type | None) -> tuple[int, Size]:
    factor = 2 + _TEXT if element is not None and _may_be(element, "string", "bytes") else 2
    return _allocated(Size(0, min(NO_BOUND, size.most**2)), factor)


def _allocated(size: Size, factor: float) -> tuple[int, Size]:
    """The cost of a call that makes a list in so many steps an item."""
    return size.times(factor) + 1 + _LIST, size


def _constant(node: tree.Call, at: int, otherwise: int) -> int:
    """An argument that is a constant; no number below 0."""
    argument = node.arguments[at] if at < len(node.arguments) else None
    if isinstance(argument, tree.Literal) and type(argument.value) is int:
        return max(0, argument.value)
    return otherwise


def _total(found: list[_Found]) -> int:
    return sum(each.cost for each in found)


def _any_of(found: list[_Found]) -> Size:
    bounds = [each.bound for each in found] or [Size(0, 0)]
    return Size(min(each.least for each in bounds), max(each.most for each in bounds))


def _either(left: _Parts | None, right: _Parts | None) -> _Parts | None:
    if left is None or right is None:
        return None
    return _Parts(left.is_list, left.key.join(right.key), left.value.join(right.value))
