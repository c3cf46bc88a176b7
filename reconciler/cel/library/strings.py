"""Strings, counted in code points; and `"%s".format([...])`, as version 2 of cel-go's library of strings
prints.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from unicodedata import category

from reconciler.cel.errors import CelError
from reconciler.cel.library.standard import string_of_bytes
from reconciler.cel.library.times import double_text, duration_text, timestamp_text
from reconciler.cel.types import DURATION, TIMESTAMP, Library, Type
from reconciler.cel.values import Duration, Meter, Timestamp, TypeValue, UInt, Value, key_value, name_of

LIBRARY = Library()

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ESCAPES |= {"\\": r"\\", '"': r"\""}
_QUOTED = str.maketrans(_ESCAPES)


def _scan(text: str, *_: object) -> int:
    return len(text) // 10


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


@LIBRARY.member("charAt", "string, int -> string")
def char_at(text: str, index: int) -> str:
    """The character at an index; the empty string at the end."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


@LIBRARY.member("indexOf", "string, string -> int", "string, string, int -> int", cost=_scan)
def index_of(text: str, part: str, start: int = 0) -> int:
    """The first index of `part` from `start` on, or -1."""
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def _backwards(text: str, part: str, *_: int) -> int:
    # Unlike a forward search, a backward search takes the product of the lengths at worst.
    return len(text) * len(part) // 100


LIBRARY.member("lastIndexOf", "string, string -> int", cost=_backwards)(str.rfind)


@LIBRARY.member("lastIndexOf", "string, string, int -> int", cost=_backwards)
def last_index_before(text: str, part: str, start: int) -> int:
    """The last index of `part` that is at most `start`, or -1."""
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


LIBRARY.member("lowerAscii", "string -> string", cost=_scan)(lambda text: text.translate(_LOWER))
LIBRARY.member("upperAscii", "string -> string", cost=_scan)(lambda text: text.translate(_UPPER))
LIBRARY.member("trim", "string -> string", cost=_scan)(lambda text: text.strip(_SPACE))
LIBRARY.function("strings.quote", "string -> string", cost=_scan)(lambda text: f'"{text.translate(_QUOTED)}"')


def _growth(text: str, old: str, new: str, *_: int) -> int:
    return (len(text) + text.count(old) * len(new)) // 10


@LIBRARY.member(
    "replace", "string, string, string -> string", "string, string, string, int -> string", cost=_growth
)
def replace(text: str, old: str, new: str, most: int = -1) -> str:
    """`old` replaced by `new`, everywhere or at most `most` times."""
    return text.replace(old, new, max(most, -1))


@LIBRARY.member(
    "split",
    "string, string -> list(string)",
    "string, string, int -> list(string)",
    cost=lambda text, *_: len(text),
)
def split(text: str, separator: str, most: int = -1) -> tuple[str, ...]:
    """The parts between separators, at most `most`; an empty separator splits into characters."""
    if most == 0:
        return ()
    if separator:
        return tuple(text.split(separator, most - 1 if most > 0 else -1))
    if most < 0 or most >= len(text):
        return tuple(text)
    return (*text[: most - 1], text[most - 1 :])


@LIBRARY.member("substring", "string, int -> string", "string, int, int -> string", cost=_scan)
def substring(text: str, start: int, end: int | None = None) -> str:
    """The characters from `start` to before `end`."""
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is None:
        return text[start:]
    if not 0 <= end <= len(text):
        raise _out_of_range(end)
    if start > end:
        raise CelError(f"invalid substring range: from {start} to {end}")
    return text[start:end]


def _joined(parts: tuple[str, ...], separator: str = "") -> int:
    return (
        len(parts)
        + (sum(len(part) for part in parts if type(part) is str) + len(separator) * len(parts)) // 10
    )


@LIBRARY.member("join", "list(string) -> string", "list(string), string -> string", cost=_joined)
def join(parts: tuple[str, ...], separator: str = "") -> str:
    """The parts with the separator between them."""
    if not all(type(part) is str for part in parts):
        raise CelError("no such overload: join takes a list of strings")
    return separator.join(parts)


_CLAUSE = re.compile(r"%(%|(?:\.([0-9]*))?([a-zA-Z]?))")
MAX_PRECISION = 1000
"""Digits after the decimal point."""
_DEFAULT_PRECISION = 6

_STRINGS = ("string", "bytes")
_WHOLE = ("int", "uint")
TAKEN: Mapping[str, tuple[str, ...]] = {
    "s": (
        *("list", "map", *_WHOLE, "double", "bool", *_STRINGS, "type", "null_type"),
        *(DURATION.name, TIMESTAMP.name),
    ),
    "d": _WHOLE,
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": (*_WHOLE, "bool"),
    "x": (*_WHOLE, *_STRINGS),
    "X": (*_WHOLE, *_STRINGS),
    "o": _WHOLE,
}
"""By verb: the types that it prints."""


class Clause(NamedTuple):
    """A place in the text for a value."""

    written: str
    verb: str
    precision: int


def clauses(text: str) -> Iterator[str | Clause]:
    """The parts of a text: what is printed as it stands, and clauses. Raises CelError."""
    end = 0
    for match in _CLAUSE.finditer(text):
        yield text[end : match.start()]
        end = match.end()
        clause, precision, verb = match.groups()
        if clause == "%":
            yield "%"
            continue
        if verb not in TAKEN:
            raise CelError(f"unrecognized formatting clause {match[0]!r}")
        digits = str(_DEFAULT_PRECISION) if precision is None else precision.lstrip("0") or precision[:1]
        if not digits or len(digits) > 4 or int(digits) > MAX_PRECISION:
            raise CelError(f"the precision of {match[0][:10]!r} is not a number up to {MAX_PRECISION}")
        yield Clause(match[0], verb, int(digits))
    yield text[end:]


def takes(clause: Clause, given: Type) -> bool:
    """Whether a clause prints values of a static type."""
    return given.name == "dyn" or given.name in TAKEN[clause.verb]


@LIBRARY.member("format", "string, list(dyn) -> string", metered=True)
def formatted(meter: Meter, text: str, values: tuple[Value, ...]) -> str:
    """`text` with each clause replaced by the next value."""
    meter.charge(1 + len(text) // 10)
    left = iter(values)
    printed: list[str] = []
    for part in clauses(text):
        if not isinstance(part, Clause):
            printed.append(part)
            continue
        try:
            value = next(left)
        except StopIteration:
            raise CelError(f"{part.written!r} has no argument: {len(values)} given") from None
        printed.append(_printed(meter, part, value))
        meter.charge(1 + len(printed[-1]) // 10)
    return "".join(printed)


def _printed(meter: Meter, clause: Clause, value: Value) -> str:
    kind = name_of(value)
    if kind not in TAKEN[clause.verb] or (clause.verb in "fe" and kind == "string" and value not in _SPECIAL):
        raise CelError(f"{kind} cannot be formatted by %{clause.verb}")
    whole = value.value if type(value) is UInt else value
    match clause.verb:
        case "s":
            return _text(meter, value)
        case "f":
            return _fixed(float(value), clause.precision)
        case "e":
            return _scientific(float(value), clause.precision)
        case "x" | "X" if kind in _STRINGS:
            digits = (value if kind == "bytes" else value.encode()).hex()
            return digits.upper() if clause.verb == "X" else digits
    return format(int(whole), clause.verb)


_SPECIAL = ("NaN", "Infinity", "-Infinity")


def _special(value: float) -> str | None:
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "-∞" if value < 0 else "∞"


def _fixed(value: float, precision: int) -> str:
    # Minus zero has no sign, unlike a small negative number that is rounded to zero.
    return _special(value) or format(value or 0.0, f",.{precision}f")


_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "+")


def _scientific(value: float, width: int) -> str:
    """Six digits, whatever the clause says: its precision is taken as the width."""
    printed = _special(value)
    if printed is None:
        digits, _, exponent = format(value or 0.0, f".{_DEFAULT_PRECISION}e").partition("e")
        printed = f"{digits}\u202f×\u202f10{exponent.translate(_SUPERSCRIPT)}"
    return printed.rjust(width)


def _text(meter: Meter, value: Value) -> str:
    """What `%s` prints."""
    meter.charge(1)
    if type(value) is tuple:
        return f"[{', '.join([_member(meter, item) for item in value])}]"
    if isinstance(value, dict):
        pairs = sorted((_key(meter, key_value(key)), item) for key, item in value.items())
        return "{" + ", ".join([f"{key}:{_member(meter, item)}" for key, item in pairs]) + "}"
    plain = _PLAIN.get(type(value))
    if plain is None:
        raise CelError(f"{name_of(value)} cannot be formatted by %s")
    text = plain(value)
    meter.charge(len(text) // 10)
    return text


def _key(meter: Meter, key: Value) -> str:
    if type(key) not in (str, bool, int, UInt):
        raise CelError(f"a map with keys of type {name_of(key)} cannot be formatted by %s")
    return _member(meter, key)


def _member(meter: Meter, value: Value) -> str:
    """What `%s` prints within a list or map: literals of CEL."""
    kind = type(value)
    if kind is float:
        if math.isfinite(value):
            return f"{value:.{_DEFAULT_PRECISION}f}"
        return f'"{double_text(value)}"'
    text = _text(meter, value)
    if kind in (str, bytes):
        return ("b" if kind is bytes else "") + _quoted(text)
    if kind in (Duration, Timestamp):
        return f"{'duration' if kind is Duration else 'timestamp'}({_quoted(text)})"
    return text


_NOT_PLAIN = re.compile(r"[^ !#-\[\]-~]")
"""What may need an escape"""


def _quoted(text: str) -> str:
    """In quotes, as Go quotes a string."""
    return f'"{_NOT_PLAIN.sub(_escaped, text)}"'


def _escaped(match: re.Match[str]) -> str:
    character, code = match[0], ord(match[0])
    if character in _ESCAPES:
        return _ESCAPES[character]
    if category(character)[0] in "LMNPS":
        return character
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_PLAIN: Mapping[type, Callable[[Value], str]] = {
    str: lambda value: value,
    bool: lambda value: "true" if value else "false",
    int: str,
    UInt: lambda value: str(value.value),
    float: double_text,
    bytes: string_of_bytes,
    type(None): lambda _: "null",
    TypeValue: lambda value: value.name,
    Duration: duration_text,
    Timestamp: timestamp_text,
}
