"""The drivers whose devices a selector can match, derived from the expression alone."""

from functools import lru_cache

from reconciler.cel.errors import CelRefused
from reconciler.cel.reading import read
from reconciler.cel.reads import Part, path
from reconciler.cel.tree import Call, ListOf, Literal, Logic, Node


@lru_cache(maxsize=4096)
def drivers_of(expression: str) -> frozenset[str] | None:
    """The only drivers whose devices a selector can match; None if it does not restrict the driver.

    Understands terms that compare `device.driver` with constants, joined by `&&` and `||`. Other terms
    joined by `&&` do not matter, even if they fail: false takes precedence over an error (CEL-8).
    """
    try:
        return _drivers(read(expression))
    except CelRefused:
        return None


def _drivers(node: Node) -> frozenset[str] | None:
    match node:
        case Logic(terms=terms, ends_on=ends_on):
            found = [_drivers(term) for term in terms]
            known = [one for one in found if one is not None]
            if ends_on:  # any term may make it true
                return frozenset().union(*known) if len(known) == len(found) else None
            return frozenset.intersection(*known) if known else None
        case Call(function="_==_", arguments=(left, right)):
            return _same(left, right) or _same(right, left)
        case Call(function="_in_", arguments=(asked, ListOf(elements=elements))) if _is_driver(asked):
            names = [one.value for one in elements if not one.optional]
            texts = [one.value for one in names if isinstance(one, Literal) and isinstance(one.value, str)]
            return frozenset(texts) if len(texts) == len(elements) else None
    return None


def _same(asked: Node, given: Node) -> frozenset[str] | None:
    if _is_driver(asked) and isinstance(given, Literal) and isinstance(given.value, str):
        return frozenset([given.value])
    return None


def _is_driver(node: Node) -> bool:
    return path(node) == (Part.DRIVER, ())
