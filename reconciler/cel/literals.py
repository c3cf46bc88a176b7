"""Parse literals: numbers, strings and their escapes."""

import re
from collections.abc import Callable

from reconciler.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt, Value

_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\"'`?\\])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]))"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def integer(text: str) -> int:
    """A signed integer. Raises ValueError beyond 64 bits."""
    value = int(text, 16 if "x" in text else 10)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("the number does not fit 64 bits")
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
    "FLOAT_LIT": float,
    "STRING_LIT": string,
    "MLSTRING_LIT": string,
    "BYTES_LIT": octets,
    "BOOL_LIT": "true".__eq__,
    "NULL_LIT": lambda _: None,
}
