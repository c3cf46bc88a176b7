"""The tree of an expression. Nodes compare by identity; `at` is the offset for messages."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct

from reconciler.cel.values import Value


class Node(Struct, frozen=True, eq=False):
    """Any expression. `depth` is the number of levels and limits every recursion over the tree."""

    at: int
    depth: int


class Literal(Node, frozen=True, eq=False):
    """A constant of a scalar type."""

    value: Value


class Ident(Node, frozen=True, eq=False):
    """A variable or the name of a type."""

    name: str


class Select(Node, frozen=True, eq=False):
    """`operand.field`, or `operand.?field`."""

    operand: Node
    field: str
    optional: bool


class Has(Node, frozen=True, eq=False):
    """`has(operand.field)`."""

    operand: Node
    field: str


class Index(Node, frozen=True, eq=False):
    """`operand[key]`, or `operand[?key]`."""

    operand: Node
    key: Node
    optional: bool


class Call(Node, frozen=True, eq=False):
    """A function or an operator. In a member call the receiver is the first argument."""

    function: str
    arguments: tuple[Node, ...]
    member: bool


class Logic(Node, frozen=True, eq=False):
    """`a && b && ...` or `a || b || ...`: ends at the first term that equals `ends_on`."""

    terms: tuple[Node, ...]
    ends_on: bool


class Conditional(Node, frozen=True, eq=False):
    """`test ? yes : no`."""

    test: Node
    yes: Node
    no: Node


class Element(Node, frozen=True, eq=False):
    """An item of a list; an optional item is omitted if absent."""

    value: Node
    optional: bool


class ListOf(Node, frozen=True, eq=False):
    """`[a, ?b]`."""

    elements: tuple[Element, ...]


class Entry(Node, frozen=True, eq=False):
    """A key and its value in a map; an optional entry is omitted if absent."""

    key: Node
    value: Node
    optional: bool


class MapOf(Node, frozen=True, eq=False):
    """`{k: v, ?k: v}`."""

    entries: tuple[Entry, ...]


class Bind(Node, frozen=True, eq=False):
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


class Comprehension(Node, frozen=True, eq=False):
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
