"""The query of a page address: filters and page numbers."""

from collections.abc import Mapping
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

LONGEST = 512
"""Characters of a filter; the longest namespace/name of a claim is shorter"""
MOST_PAGES = 1_000_000
FILTERS = ("node", "driver", "claim", "reason")
"""The first fields of a query"""
PAGES = ("page", "machines", "nodes", "pending")


class Query(Struct, frozen=True):
    """Filters match parts of names and ignore case; a full name matches only itself. Empty matches all.

    `reason` matches only the whole reason of a pending claim.
    """

    node: str = ""
    driver: str = ""
    claim: str = ""
    reason: str = ""
    page: int = 1
    """The page of the map"""
    machines: int = 1
    """The page of machines"""
    nodes: int = 1
    """The page of nodes"""
    pending: int = 1
    """The page of pending claims with one reason"""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "Query":
        """The parameters of an address. Invalid values are ignored."""
        filters = {name: given.get(name, "").strip()[:LONGEST] for name in FILTERS}
        pages = {name: _number(given.get(name, "")) for name in PAGES}
        return replace(cls(), **filters, **pages)

    @property
    def filtered(self) -> bool:
        """Whether the devices are filtered."""
        return bool(self.node or self.driver or self.claim)

    @property
    def without_node(self) -> "Query":
        return replace(self, node="")

    def narrowed(self, at: str = "", **filters: str) -> str:
        """The address with these filters in addition, on the first pages."""
        return replace(self, **dict.fromkeys(PAGES, 1)).url(at=at, **filters)

    def url(self, path: str = "/", at: str = "", **others: str | int) -> str:
        """The address of this query with some values replaced; `at` is the part to jump to."""
        other = replace(self, **others)
        pairs = [(name, getattr(other, name)) for name in FILTERS]
        numbers = [(name, getattr(other, name)) for name in PAGES]
        pairs += [(name, str(number) if number > 1 else "") for name, number in numbers]
        # An address that is not UTF-8 yields lone surrogates, which cannot be encoded.
        kept = [(name, value[:LONGEST].encode(errors="replace")) for name, value in pairs if value]
        fragment = f"#{at}" if at else ""
        return (f"{path}?{urlencode(kept)}" if kept else path) + fragment


def _number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else 1
    return min(max(number, 1), MOST_PAGES)


def matches(wanted: str, name: str) -> bool:
    """Whether a filter matches a name."""
    return wanted.casefold() in name.casefold()
