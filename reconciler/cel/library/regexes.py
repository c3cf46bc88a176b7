"""Regular expressions by RE2: linear time for every pattern."""

from functools import lru_cache
from typing import Any

from reconciler.cel.errors import CelError
from reconciler.cel.functions import Library
from reconciler.cel.limits import MAX_REGEX_LENGTH, REGEX_MEMORY

LIBRARY = Library()


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """The compiled pattern. Raises CelError."""
    if len(pattern) > MAX_REGEX_LENGTH:
        raise CelError(
            f"the regular expression has {len(pattern)} characters; use at most {MAX_REGEX_LENGTH}"
        )
    import re2  # noqa: PLC0415 - takes 2 ms, and few selectors have patterns

    options = re2.Options()
    options.max_mem = REGEX_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as exc:
        reason = exc.args[0].decode() if isinstance(exc.args[0], bytes) else exc.args[0]
        raise CelError(f"{pattern!r} is not a regular expression: {reason}") from None


def search_cost(text: str, pattern: str, *_: int) -> int:
    """Steps of a search: at worst, each character runs each instruction of the compiled pattern."""
    return len(text) * compiled(pattern).programsize // 100


@LIBRARY.member("find", "string, string -> string", cost=search_cost)
def find(text: str, pattern: str) -> str:
    """The first match, or the empty string."""
    found = compiled(pattern).search(text)
    return found.group() if found else ""


@LIBRARY.member(
    "findAll", "string, string -> list(string)", "string, string, int -> list(string)", cost=search_cost
)
def find_all(text: str, pattern: str, most: int = -1) -> tuple[str, ...]:
    """All matches, or the first `most`; a negative number means all."""
    found: list[str] = []
    for match in compiled(pattern).finditer(text):
        if len(found) == most:
            break
        found.append(match.group())
    return tuple(found)
