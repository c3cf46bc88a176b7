"""The place of a document in its file, for error messages."""

from typing import NamedTuple


class Origin(NamedTuple):
    """A place in a file; `item` is the path to one object of a list."""

    file: str
    line: int = 1
    """Of the first line of the document, counted from one"""
    item: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place} {self.item}" if self.item else place

    def at(self, index: int) -> "Origin":
        """The place of one object of the list at this place."""
        return self._replace(item=f"{self.item}.items[{index}]" if self.item else f"items[{index}]")
