"""Evaluate leaves such as `f(g(column), constant)` over many values of a column at once.

This skips the frame, dispatch and step count per value, which short values of one type do not need.
Other values raise Unsuited and are evaluated one by one.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.environment import PATTERNED
from reconciler.cel.evaluate import Emitter
from reconciler.cel.functions import Overload
from reconciler.cel.reads import Part, path
from reconciler.cel.tree import Call, Has, Index, Node, Select
from reconciler.cel.values import UInt, Value

Batch = Callable[[Sequence[Value]], Sequence[Value]]
"""The results for some values. Raises Unsuited or CelError."""

MAX_COST = 200
"""Maximum steps of one call; values with more expensive calls are evaluated one by one."""

_NUMBERS = frozenset({int, float, UInt})
_OPAQUE = frozenset({Quantity, Semver})
_SCALARS = _NUMBERS | _OPAQUE | {str, bool, bytes}


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
        if kind is other or (kind in _NUMBERS and other in _NUMBERS):
            return [(item == constant) is wanted for item in items]
        if wanted and (kind if column_left else other) in _OPAQUE:
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
        kinds = (_kind(items), *map(type, fixed))
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
