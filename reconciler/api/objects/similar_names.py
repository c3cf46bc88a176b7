"""Suggests names for one that does not exist: similar ones, or the first of those that do."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import shortened

SHOWN = 3
"""Names in one message"""


def closest(name: str, known: Iterable[str], *, most: int = SHOWN, cutoff: float = 0.6) -> list[str]:
    """Similar known names in any case, the most similar first. `cutoff`: from 0 (all) to 1 (equal)."""
    spelled = {one.casefold(): one for one in sorted(known)}
    return [spelled[one] for one in get_close_matches(name.casefold(), spelled, n=most, cutoff=cutoff)]


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean x?` for a name that is similar to a known one in any case, else empty."""
    return _meant(closest(name, known, most=1, cutoff=0.75))


def instead(name: str, known: Collection[str], noun: str) -> str:
    """`; did you mean a or b?`, or `; known nodes (7): a, b, c and 4 more`. `noun`: in the plural."""
    return _meant(closest(name, known)) or _list(sorted(known), noun)


def key_instead(key: ObjectKey, known: Collection[ObjectKey], noun: str) -> str:
    """The same for objects: the same name in another namespace comes first. `noun`: in the plural."""
    return similar_key(key, known) or _list([str(one) for one in sorted(known)], noun)


def similar_key(key: ObjectKey, known: Collection[ObjectKey]) -> str:
    """`; did you mean a/c or b/c?`; empty if no object has the same or a similar name."""
    similar = closest(key.name, {other.name for other in known})
    found = sorted(other for other in known if other.name == key.name) or [
        other for other in known if other.name in similar
    ]
    return _meant([str(one) for one in found[:SHOWN]])


def _meant(names: list[str]) -> str:
    return f"; did you mean {' or '.join(names)}?" if names else ""


def _list(names: list[str], noun: str) -> str:
    return f"; known {noun} ({len(names)}): {shortened(names, SHOWN) or 'none'}"
