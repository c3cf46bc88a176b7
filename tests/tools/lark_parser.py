"""Reads expressions with lark's own parser and lexer: the twin of the one that runs on kept tables."""

from functools import cache
from typing import Any, cast

from lark import Lark
from lark import Token as LarkToken
from lark.exceptions import UnexpectedInput, UnexpectedToken

from reconciler.cel import reading
from reconciler.cel.errors import CelRefused, Refusal
from reconciler.cel.grammar import grammar_text
from reconciler.cel.parser import Token
from reconciler.cel.tree import Node


def read_with_lark(expression: str) -> Node:
    """The tree of an expression. Raises CelRefused."""
    try:
        reading._bound(expression)
        return cast("Node", _parser().parse(expression))
    except Refusal as refusal:
        raise refusal.with_text(expression) from None
    except UnexpectedInput as error:
        at, token = error.pos_in_stream, getattr(error, "token", None)
        if at is None or (token is not None and token.type == "$END"):
            reason, remedy = "it ends too early", "complete the expression"
            raise CelRefused(expression, len(expression), f"syntax error: {reason}", remedy) from None
        if not isinstance(error, UnexpectedToken) and expression[at] in "\"'":
            raise CelRefused(
                expression, at, "syntax error: unterminated string", "close its quotes"
            ) from None
        found = str(expression[at] if token is None else token)
        raise CelRefused(
            expression, at, f"syntax error: unexpected {found!r}", "see the CEL grammar"
        ) from None


@cache
def _parser() -> Lark:
    return Lark(
        grammar_text(),
        start="expr",
        parser="lalr",
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=_Translated(),
    )


class _Translated:
    """Calls the methods of the builder with tokens as it knows them."""

    def __getattr__(self, rule: str) -> Any:
        if rule in reading._PASSED_ON:
            return lambda children: children[0] if len(children) == 1 else self._built(rule, children)
        if not hasattr(reading._Builder, rule):
            raise AttributeError(rule)
        return lambda children: self._built(rule, children)

    @staticmethod
    def _built(rule: str, children: list[Any]) -> Any:
        return getattr(reading._Builder(), rule)([_translated(child) for child in children])


def _translated(child: Any) -> Any:
    if not isinstance(child, LarkToken):
        return child
    token = Token(child)
    token.kind, token.at = child.type, child.start_pos or 0
    return token
