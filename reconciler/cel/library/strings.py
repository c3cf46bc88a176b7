"""Strings, counted in code points."""

from reconciler.cel.errors import CelError
from reconciler.cel.types import Library

LIBRARY = Library()

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
    | {"\\": r"\\", '"': r"\""}
)


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


@LIBRARY.member("lastIndexOf", "string, string -> int", cost=_backwards)
def last_index_of(text: str, part: str) -> int:
    """The last index of `part`, or -1."""
    return text.rfind(part)


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


def _pieces(text: str, *_: object) -> int:
    return len(text)


@LIBRARY.member(
    "split", "string, string -> list(string)", "string, string, int -> list(string)", cost=_pieces
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
