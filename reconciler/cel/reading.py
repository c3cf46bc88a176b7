"""Parse text to a tree: check limits first, then build a node at each reduction of the parser."""

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from threading import Lock
from typing import Any, cast

from lark import Lark, Token
from lark.exceptions import UnexpectedInput

from reconciler.cel import tree
from reconciler.cel.check import FUNCTIONS, TYPE_NAMES
from reconciler.cel.errors import MAX_DEPTH, MAX_LENGTH, MAX_NESTING, CelRefused, RefusedAt
from reconciler.cel.grammar import built_parser
from reconciler.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt, Value

# By name and number of arguments: the macro, and how many arguments are variable names.
_SHAPES: dict[tuple[str, int], tuple[tree.Macro, int]] = {
    ("all", 2): (tree.Macro.ALL, 1),
    ("all", 3): (tree.Macro.ALL, 2),
    ("exists", 2): (tree.Macro.EXISTS, 1),
    ("exists", 3): (tree.Macro.EXISTS, 2),
    ("exists_one", 2): (tree.Macro.EXISTS_ONE, 1),
    ("exists_one", 3): (tree.Macro.EXISTS_ONE, 2),
    ("existsOne", 3): (tree.Macro.EXISTS_ONE, 2),
    ("filter", 2): (tree.Macro.FILTER, 1),
    ("map", 2): (tree.Macro.MAP, 1),
    ("map", 3): (tree.Macro.MAP, 1),
    ("sortBy", 2): (tree.Macro.SORT_BY, 1),
    ("transformList", 3): (tree.Macro.TRANSFORM_LIST, 2),
    ("transformList", 4): (tree.Macro.TRANSFORM_LIST, 2),
    ("transformMap", 3): (tree.Macro.TRANSFORM_MAP, 2),
    ("transformMap", 4): (tree.Macro.TRANSFORM_MAP, 2),
    ("transformMapEntry", 3): (tree.Macro.TRANSFORM_MAP_ENTRY, 2),
    ("transformMapEntry", 4): (tree.Macro.TRANSFORM_MAP_ENTRY, 2),
    ("optMap", 2): (tree.Macro.OPT_MAP, 1),
    ("optFlatMap", 2): (tree.Macro.OPT_FLAT_MAP, 1),
}


_ACCUMULATOR = "__result__"
"""The name that no loop can bind"""


def global_call(name: str, at: int, arguments: tuple[tree.Node, ...]) -> tree.Node:
    """`name(arguments)`."""
    if name == "has" and len(arguments) == 1:
        tested = arguments[0]
        if isinstance(tested, tree.Has):
            return tested  # as Kubernetes: has(has(a.b)) is has(a.b)
        if not isinstance(tested, tree.Select) or tested.optional:
            raise RefusedAt(at, "has() takes a field selection", "write has(a.b)")
        return tree.Has(tested.at, _level(tested.at, tested.operand), tested.operand, tested.field)
    return tree.Call(at, _level(at, *arguments), name, arguments, False)


def member_call(name: str, at: int, target: tree.Node, arguments: tuple[tree.Node, ...]) -> tree.Node:
    """`target.name(arguments)`."""
    if isinstance(target, tree.Ident):
        if target.name == "cel" and name == "bind" and len(arguments) == 3:
            return tree.Bind(at, _level(at, *arguments), _name(arguments[0]), arguments[1], arguments[2])
        # `ip.isCanonical` is a known function; `ip.family()` is a member call on the variable `ip`.
        qualified = f"{target.name}.{name}"
        if (qualified, False) in FUNCTIONS:
            return tree.Call(at, _level(at, *arguments), qualified, arguments, False)
    if shape := _SHAPES.get((name, len(arguments))):
        return _comprehension(shape, at, target, arguments)
    everything = (target, *arguments)
    return tree.Call(at, _level(at, *everything), name, everything, True)


def _comprehension(
    shape: tuple[tree.Macro, int], at: int, over: tree.Node, arguments: tuple[tree.Node, ...]
) -> tree.Comprehension:
    macro, names = shape
    bound = tuple(_name(argument) for argument in arguments[:names])
    if _ACCUMULATOR in bound and macro not in (tree.Macro.OPT_MAP, tree.Macro.OPT_FLAT_MAP):
        raise RefusedAt(at, f"{_ACCUMULATOR} is reserved", "use another name")
    if len(set(bound)) != len(bound):
        raise RefusedAt(at, f"the variable {bound[0]} is declared twice", "use two different names")
    *where, body = arguments[names:]
    depth = _level(at, over, *where, body)
    return tree.Comprehension(at, depth, macro, over, bound, where[0] if where else None, body)


def _name(node: tree.Node) -> str:
    if not isinstance(node, tree.Ident) or "." in node.name:
        raise RefusedAt(node.at, "expected a variable name", "use a plain identifier")
    return node.name


_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\"'`?\\])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]))"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def integer(text: str) -> int:
    """A signed integer. Raises ValueError beyond 64 bits."""
    value = int("".join(text.split()), 16 if "x" in text else 10)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("the number does not fit 64 bits")
    return value


def double(text: str) -> float:
    """A double. Raises ValueError beyond its range."""
    value = float("".join(text.split()))
    if math.isinf(value):
        raise ValueError("the number does not fit a double")
    return value


def unsigned(text: str) -> UInt:
    """An unsigned integer. Raises ValueError beyond 64 bits."""
    value = int(text[:-1], 16 if "x" in text else 10)
    if not 0 <= value <= UINT_MAX:
        raise ValueError("the number does not fit 64 unsigned bits")
    return UInt(value)


def string(text: str) -> str:
    """A quoted string without its quotes and escapes. Raises ValueError with the reason."""
    raw, body = _unquote(text)
    return body if raw else _unescape(body, chr, _character)


def octets(text: str) -> bytes:
    r"""A bytes literal: text becomes UTF-8, `\x` and octal escapes are single bytes."""
    raw, body = _unquote(text[1:])
    if raw:
        return body.encode()
    # Escaped bytes are kept in str as surrogates, which UTF-8 text never contains.
    return _unescape(body, _byte, _no_character).encode("utf-8", "surrogateescape")


def _unquote(text: str) -> tuple[bool, str]:
    raw = text[0] in "rR"
    text = text[raw:]
    width = 3 if text[:3] in ('"""', "'''") else 1
    return raw, text[width:-width].replace("\r\n", "\n")


def _unescape(body: str, octet: Callable[[int], str], character: Callable[[int], str]) -> str:
    """`body` with its escapes replaced: one-byte escapes by `octet`, code points by `character`."""

    def replace(match: re.Match[str]) -> str:
        simple, hexadecimal, short, long, octal, unknown = match.groups()
        if simple:
            return _SIMPLE.get(simple, simple)
        if unknown is not None:
            raise ValueError(f"unknown escape \\{unknown}")
        if hexadecimal or octal:
            return octet(int(hexadecimal, 16) if hexadecimal else int(octal, 8))
        return character(int(short or long, 16))

    return _ESCAPE.sub(replace, body)


def _character(code: int) -> str:
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"U+{code:04X} is not a character")
    return chr(code)


def _byte(code: int) -> str:
    return chr(code) if code < 0x80 else chr(0xDC00 + code)


def _no_character(_: int) -> str:
    raise ValueError("a bytes literal cannot have a \\u escape")


def literal(kind: str, text: str) -> Value:
    """The value of a literal token. Raises ValueError with the reason."""
    return _READERS[kind](text)


_READERS: dict[str, Callable[[str], Value]] = {
    "INT_LIT": integer,
    "UINT_LIT": unsigned,
    "FLOAT_LIT": double,
    "STRING_LIT": string,
    "MLSTRING_LIT": string,
    "BYTES_LIT": octets,
    "BOOL_LIT": "true".__eq__,
    "NULL_LIT": lambda _: None,
}


_QUOTED_OR_BRACKET = re.compile(
    r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//.*|[\[({})\]]'
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_building = Lock()
_KEYWORDS = frozenset({"in", "true", "false", "null"})
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("package", "namespace", "return", "var", "void", "while"),
    }
)


def read(expression: str) -> tree.Node:
    """The tree of an expression. Raises CelRefused."""
    try:
        _check_limits(expression)
        return cast("tree.Node", _parser().parse(expression))
    except RefusedAt as refusal:
        raise refusal.with_text(expression) from None
    except UnexpectedInput as error:
        raise _syntax_error(expression, error) from None


def _parser() -> Lark:
    with _building:
        return _built_parser()


@cache
def _built_parser() -> Lark:
    return built_parser(_Builder())


def _check_limits(expression: str) -> None:
    """Refuse expressions that are too long or too deep to be parsed safely."""
    if len(expression) > MAX_LENGTH:
        raise RefusedAt(0, f"the expression has {len(expression)} characters", f"use at most {MAX_LENGTH}")
    if found := _SURROGATE.search(expression):
        raise RefusedAt(found.start(), "unpaired surrogate", "use whole Unicode characters")
    depth = 0
    for match in _QUOTED_OR_BRACKET.finditer(expression):
        if match[0] in "([{":
            depth += 1
        elif match[0] in ")]}":
            depth -= 1
        if depth > MAX_NESTING:
            raise RefusedAt(match.start(), "too many nested brackets", f"nest at most {MAX_NESTING} levels")


def _syntax_error(expression: str, error: UnexpectedInput) -> CelRefused:
    """The refusal for what lark did not expect: a token, or a character that begins none."""
    at, token = error.pos_in_stream, getattr(error, "token", None)
    if at is None or (token is not None and token.type == "$END"):
        at = len(expression)
        return CelRefused(expression, at, "syntax error: it ends too early", "complete the expression")
    if token is None and expression[at] in "\"'":
        return CelRefused(expression, at, "syntax error: unterminated string", "close its quotes")
    reason = f"syntax error: unexpected {str(token or expression[at])!r}"
    return CelRefused(expression, at, reason, "see the CEL grammar")


def _at(token: Token) -> int:
    """Where a token begins in the text."""
    return token.start_pos or 0


def _level(at: int, *nodes: tree.Node) -> int:
    depth = 1 + max((node.depth for node in nodes), default=0)
    if depth > MAX_DEPTH:
        raise RefusedAt(at, "the expression is nested too deeply", f"use at most {MAX_DEPTH} levels")
    return depth


def _call(function: str, token: Token, arguments: Sequence[tree.Node], member: bool = False) -> tree.Node:
    at = _at(token)
    return tree.Call(at, _level(at, *arguments), function, tuple(arguments), member)


def _binary(children: list[Any]) -> tree.Node:
    """`a op b`; the grammar pairs `a` with `op` in a separate rule."""
    if len(children) == 1:
        return cast("tree.Node", children[0])
    (left, operator), right = children
    return _call(f"_{operator}_", operator, (left, right))


def _logic(children: list[Any], ends_on: bool) -> tree.Node:
    if len(children) == 1:
        return cast("tree.Node", children[0])
    left, operator, right = children
    # One node for a chain of any length: a || b || c ... must not become a deep tree.
    same = isinstance(left, tree.Logic) and left.ends_on is ends_on
    terms = (*left.terms, right) if same else (left, right)
    at = _at(operator)
    return tree.Logic(at, max(left.depth if same else 0, _level(at, *terms[-2:])), terms, ends_on)


def _nodes(children: Sequence[Any]) -> list[Any]:
    return [child for child in children if not isinstance(child, Token)]


def _arguments(children: Sequence[Any]) -> tuple[tree.Node, ...]:
    """The arguments of a call; they share a grammar rule with the elements of a list."""
    elements: list[tree.Element] = next((child for child in children if isinstance(child, list)), [])
    for element in elements:
        if element.optional:
            raise RefusedAt(element.at, "an argument cannot be optional", "remove the question mark")
    return tuple(element.value for element in elements)


def _identifier(token: Token) -> str:
    if token in _RESERVED or token in _KEYWORDS:
        raise RefusedAt(_at(token), f"{token!s} is a reserved word", "use another name")
    return str(token)


def _field(token: Token) -> str:
    if token in _KEYWORDS:
        raise RefusedAt(_at(token), f"{token!s} is a keyword", f'write ["{token!s}"]')
    return str(token)


def _qualified(node: tree.Node) -> str:
    """`a.b.c` for selections of a name; empty for other nodes."""
    if isinstance(node, tree.Ident):
        return node.name
    below = _qualified(node.operand) if isinstance(node, tree.Select) else ""
    return f"{below}.{node.field}" if below and isinstance(node, tree.Select) else ""


class _Builder:
    """Turns each reduction of the parser into a node, so that no deep parse tree is built first."""

    member = primary = staticmethod(lambda children: children[0])

    def expr(self, children: list[Any]) -> tree.Node:
        if len(children) == 1:
            return cast("tree.Node", children[0])
        test, mark, yes, _, no = children
        return tree.Conditional(_at(mark), _level(_at(mark), test, yes, no), test, yes, no)

    def conditionalor(self, children: list[Any]) -> tree.Node:
        return _logic(children, True)

    def conditionaland(self, children: list[Any]) -> tree.Node:
        return _logic(children, False)

    relation = addition = multiplication = staticmethod(_binary)
    relation_lt = relation_le = relation_gt = relation_ge = relation_eq = relation_ne = relation_in = (
        staticmethod(tuple)
    )
    addition_add = addition_sub = multiplication_mul = multiplication_div = multiplication_mod = staticmethod(
        tuple
    )
    unary_not = unary_neg = staticmethod(lambda children: children[0])

    def unary(self, children: list[Any]) -> tree.Node:
        *operators, operand = children
        # As Kubernetes: each two operators are none, whatever they stand before.
        if len(operators) % 2 == 0:
            return cast("tree.Node", operand)
        return _call(f"{operators[0]}_", operators[0], (operand,))

    def member_dot(self, children: list[Any]) -> tree.Node:
        operand, dot, field = children
        if dot == "." and (name := f"{_qualified(operand)}.{field}") in TYPE_NAMES:
            return tree.Ident(operand.at, 1, name)
        return tree.Select(_at(field), _level(_at(field), operand), operand, _field(field), dot == ".?")

    member_dot_optional = member_dot

    def member_dot_arg(self, children: list[Any]) -> tree.Node:
        target, _, name, *rest = children
        return member_call(_field(name), _at(name), target, _arguments(rest))

    def member_index(self, children: list[Any]) -> tree.Node:
        operand, bracket = children[:2]
        key = _nodes(children)[1]
        optional = isinstance(children[2], Token)
        return tree.Index(_at(bracket), _level(_at(bracket), operand, key), operand, key, optional)

    member_index_optional = member_index

    def member_object(self, children: list[Any]) -> tree.Node:
        raise RefusedAt(_at(children[1]), "message types are not supported", "use a map: {'key': value}")

    def fieldinits(self, children: list[Any]) -> list[Any]:
        return children

    def ident(self, children: list[Any]) -> tree.Node:
        return tree.Ident(_at(children[-1]), 1, _identifier(children[-1]))

    dot_ident = ident

    def ident_arg(self, children: list[Any]) -> tree.Node:
        name = next(child for child in children if isinstance(child, Token) and child != ".")
        return global_call(_identifier(name), _at(name), _arguments(children))

    dot_ident_arg = ident_arg

    def paren_expr(self, children: list[Any]) -> tree.Node:
        return children[1]

    def list_lit(self, children: list[Any]) -> tree.Node:
        elements: list[tree.Element] = next((child for child in children if isinstance(child, list)), [])
        at = _at(children[0])
        return tree.ListOf(at, _level(at, *elements), tuple(elements))

    def map_lit(self, children: list[Any]) -> tree.Node:
        entries: list[tree.Entry] = next((child for child in children if isinstance(child, list)), [])
        at = _at(children[0])
        return tree.MapOf(at, _level(at, *entries), tuple(entries))

    exprlist = items = mapinits = staticmethod(_nodes)

    def element(self, children: list[Any]) -> tree.Element:
        value = children[-1]
        return tree.Element(value.at, value.depth, value, len(children) == 2)

    def mapinit(self, children: list[Any]) -> tree.Entry:
        key, value = _nodes(children)
        return tree.Entry(key.at, max(key.depth, value.depth), key, value, isinstance(children[0], Token))

    def literal(self, children: list[Any]) -> tree.Node:
        (token,) = children
        try:
            value = literal(token.type, str(token))
        except ValueError as exc:
            raise RefusedAt(_at(token), str(exc), "fix the literal") from None
        return tree.Literal(_at(token), 1, value)
