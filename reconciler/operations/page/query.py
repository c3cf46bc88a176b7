"""The query of a page address: filters and page numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

LONGEST = 512
"""Characters of a filter; the longest namespace/name of a claim is shorter"""
MOST_PAGES = 1_000_000


@dataclass(frozen=True, slots=True)
class Query:
    """Filters match parts of names and ignore case; a full name matches only itself. Empty matches all."""

    node: str = ""
    driver: str = ""
    claim: str = ""
    page: int = 1
    machines: int = 1
    """The page of machines"""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> "Query":
        """The parameters of an address. Invalid values are ignored."""
        node, driver, claim = (given.get(name, "").strip()[:LONGEST] for name in ("node", "driver", "claim"))
        return cls(node, driver, claim, _number(given.get("page", "")), _number(given.get("machines", "")))

    @property
    def filtered(self) -> bool:
        return bool(self.node or self.driver or self.claim)

    def url(self, path: str = "/", **others: str | int) -> str:
        """The address of this query with some values replaced."""
        other = replace(self, **others)  # type: ignore[arg-type]
        pairs = [("node", other.node), ("driver", other.driver), ("claim", other.claim)]
        pairs += [
            (name, str(number) if number > 1 else "")
            for name, number in (("page", other.page), ("machines", other.machines))
        ]
        # An address that is not UTF-8 yields lone surrogates, which cannot be encoded.
        kept = [(name, value[:LONGEST].encode(errors="replace")) for name, value in pairs if value]
        return f"{path}?{urlencode(kept)}" if kept else path


def _number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else 1
    return min(max(number, 1), MOST_PAGES)


def matches(wanted: str, name: str) -> bool:
    """Whether a filter matches a name."""
    return wanted.casefold() in name.casefold()
