"""Macros: `has`, `cel.bind` and the comprehensions look like calls but become nodes of their own."""

from collections.abc import Callable

from reconciler.cel.environment import FUNCTIONS
from reconciler.cel.refusal import Refusal
from reconciler.cel.tree import Bind, Call, Comprehension, Has, Ident, Macro, Node, Select

Level = Callable[..., int]
"""The depth of a node at an offset, given its children. Raises Refusal if too deep."""

# By name and number of arguments: the macro, and how many arguments are variable names.
_SHAPES: dict[tuple[str, int], tuple[Macro, int]] = {
    ("all", 2): (Macro.ALL, 1),
    ("all", 3): (Macro.ALL, 2),
    ("exists", 2): (Macro.EXISTS, 1),
    ("exists", 3): (Macro.EXISTS, 2),
    ("exists_one", 2): (Macro.EXISTS_ONE, 1),
    ("existsOne", 2): (Macro.EXISTS_ONE, 1),
    ("exists_one", 3): (Macro.EXISTS_ONE, 2),
    ("existsOne", 3): (Macro.EXISTS_ONE, 2),
    ("filter", 2): (Macro.FILTER, 1),
    ("map", 2): (Macro.MAP, 1),
    ("map", 3): (Macro.MAP, 1),
    ("sortBy", 2): (Macro.SORT_BY, 1),
    ("transformList", 3): (Macro.TRANSFORM_LIST, 2),
    ("transformList", 4): (Macro.TRANSFORM_LIST, 2),
    ("transformMap", 3): (Macro.TRANSFORM_MAP, 2),
    ("transformMap", 4): (Macro.TRANSFORM_MAP, 2),
    ("transformMapEntry", 3): (Macro.TRANSFORM_MAP_ENTRY, 2),
    ("transformMapEntry", 4): (Macro.TRANSFORM_MAP_ENTRY, 2),
    ("optMap", 2): (Macro.OPT_MAP, 1),
    ("optFlatMap", 2): (Macro.OPT_FLAT_MAP, 1),
}


def global_call(name: str, at: int, arguments: tuple[Node, ...], level: Level) -> Node:
    """`name(arguments)`."""
    if name == "has" and len(arguments) == 1:
        tested = arguments[0]
        if not isinstance(tested, Select) or tested.optional:
            raise Refusal(at, "has() takes a field selection", "write has(a.b)")
        return Has(tested.at, level(tested.at, tested.operand), tested.operand, tested.field)
    return Call(at, level(at, *arguments), name, arguments, False)


def member_call(name: str, at: int, target: Node, arguments: tuple[Node, ...], level: Level) -> Node:
    """`target.name(arguments)`."""
    if isinstance(target, Ident):
        if target.name == "cel" and name == "bind" and len(arguments) == 3:
            return Bind(at, level(at, *arguments), _name(arguments[0]), arguments[1], arguments[2])
        # `ip.isCanonical` is a known function; `ip.family()` is a member call on the variable `ip`.
        qualified = f"{target.name}.{name}"
        if (qualified, False) in FUNCTIONS:
            return Call(at, level(at, *arguments), qualified, arguments, False)
    if shape := _SHAPES.get((name, len(arguments))):
        return _comprehension(shape, at, target, arguments, level=level)
    everything = (target, *arguments)
    return Call(at, level(at, *everything), name, everything, True)


def _comprehension(
    shape: tuple[Macro, int], at: int, over: Node, arguments: tuple[Node, ...], *, level: Level
) -> Comprehension:
    macro, names = shape
    bound = tuple(_name(argument) for argument in arguments[:names])
    if len(set(bound)) != len(bound):
        raise Refusal(at, f"the variable {bound[0]} is declared twice", "use two different names")
    *where, body = arguments[names:]
    depth = level(at, over, *where, body)
    return Comprehension(at, depth, macro, over, bound, where[0] if where else None, body)


def _name(node: Node) -> str:
    if not isinstance(node, Ident):
        raise Refusal(node.at, "expected a variable name", "use a plain identifier")
    return node.name
