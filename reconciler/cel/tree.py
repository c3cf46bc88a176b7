"""The tree of an expression. Nodes compare by identity; `at` is the offset for messages."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from reconciler.cel.values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """Any expression. `depth` is the number of levels and limits every recursion over the tree."""

    at: int
    depth: int


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Node):
    """A constant of a scalar type."""

    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Node):
    """A variable or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Node):
    """`operand.field`, or `operand.?field`."""

    operand: Node
    field: str
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Has(Node):
    """`has(operand.field)`."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    """`operand[key]`, or `operand[?key]`."""

    operand: Node
    key: Node
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """A function or an operator. In a member call the receiver is the first argument."""

    function: str
    arguments: tuple[Node, ...]
    member: bool


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Node):
    """`a && b && ...` or `a || b || ...`: ends at the first term that equals `ends_on`."""

    terms: tuple[Node, ...]
    ends_on: bool


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    """`test ? yes : no`."""

    test: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True, eq=False)
class Element(Node):
    """An item of a list; an optional item is omitted if absent."""

    value: Node
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class ListOf(Node):
    """`[a, ?b]`."""

    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Entry(Node):
    """A key and its value in a map; an optional entry is omitted if absent."""

    key: Node
    value: Node
    optional: bool


@dataclass(frozen=True, slots=True, eq=False)
class MapOf(Node):
    """`{k: v, ?k: v}`."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Bind(Node):
    """`cel.bind(name, initial, body)`."""

    name: str
    initial: Node
    body: Node


class Macro(StrEnum):
    """Calls that bind a name to the elements of their receiver."""

    ALL = "all"
    EXISTS = "exists"
    EXISTS_ONE = "exists_one"
    FILTER = "filter"
    MAP = "map"
    SORT_BY = "sortBy"
    TRANSFORM_LIST = "transformList"
    TRANSFORM_MAP = "transformMap"
    TRANSFORM_MAP_ENTRY = "transformMapEntry"
    OPT_MAP = "optMap"
    OPT_FLAT_MAP = "optFlatMap"


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension(Node):
    """`over.macro(names, where, body)`. One name: element or key. Two names: index or key, and value."""

    macro: Macro
    over: Node
    names: tuple[str, ...]
    where: Node | None
    body: Node


def children(node: Node) -> Iterator[Node]:
    """The direct children."""
    match node:
        case Select(operand=operand) | Has(operand=operand):
            yield operand
        case Index(operand=operand, key=key):
            yield from (operand, key)
        case Call(arguments=nodes) | Logic(terms=nodes) | ListOf(elements=nodes) | MapOf(entries=nodes):
            yield from nodes
        case Conditional(test=test, yes=yes, no=no):
            yield from (test, yes, no)
        case Element(value=value):
            yield value
        case Entry(key=key, value=value):
            yield from (key, value)
        case Bind(initial=initial, body=body):
            yield from (initial, body)
        case Comprehension(over=over, where=where, body=body):
            yield over
            if where is not None:
                yield where
            yield body
        case _:
            return


def bound_names(node: Node) -> tuple[str, ...]:
    """The names that a node binds in all its children except the first."""
    match node:
        case Bind(name=name):
            return (name,)
        case Comprehension(names=names):
            return names
    return ()
