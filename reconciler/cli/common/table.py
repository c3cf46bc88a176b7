"""Tables as lines of text, for any width: no word is broken, and no line ends with blanks.

A table that is too wide first wraps its cells between words; then it puts the names of each row on a line of
their own; then it becomes a block for each row, with one line for each cell.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len

from reconciler.cli.common.plain_text import plain, wrapped

GAP = 2
INDENT = 2
MIN_PROSE = 24
"""A cell with several words is not wrapped to fewer columns: text in a narrow column is hard to read"""


class TableLine(NamedTuple):
    """A line of a table."""

    text: str
    heading: bool = False


class Table:
    """Headings and rows. A cell may have several lines; the first ones of a row stay level, and so on."""

    def __init__(self, headings: Sequence[str], *, right: Collection[str] = (), names: int = 1) -> None:
        """`right` are headings of numbers; the first `names` cells of a row say what the row is about."""
        self.headings = tuple(headings)
        self._right = frozenset(right)
        self._names = names
        self.rows: list[tuple[str, ...]] = []

    def within(self, heading: str) -> "Table":
        """An empty table with one more column of names, in front of all others."""
        return Table((heading, *self.headings), right=self._right, names=self._names + 1)

    def add(self, cells: Iterable[str]) -> None:
        """Add a row; control characters are escaped."""
        self.rows.append(tuple(map(plain, cells)))

    def lines(self, width: int) -> Iterator[TableLine]:
        """The table in lines of at most `width` columns, unless a single word is longer."""
        columns = range(len(self.headings))
        widths = self._widths(columns, width)
        if widths is not None:
            yield from self._headed(columns, widths)
            yield from self._body(columns, widths, self.rows)
            return
        columns = range(self._names, len(self.headings))
        widths = self._widths(columns, width - INDENT)
        if widths is None:
            yield from self._blocks(width)
            return
        names = "  ".join(self.headings[: self._names])
        yield TableLine(names, heading=True)
        yield from self._headed(columns, widths, INDENT)
        last = None
        for row in self.rows:
            if row[: self._names] != last:
                yield from map(TableLine, self._name_lines(row, width))
                last = row[: self._names]
            yield from self._body(columns, widths, [row], INDENT)

    def _widths(self, columns: Sequence[int], width: int) -> list[int] | None:
        """The width of each column; None if they do not fit. What one does not need, others get."""
        full = [self._longest(column, cell_len) for column in columns]
        room = width - GAP * (len(full) - 1)
        if sum(full) <= room:
            return full
        least = [
            max(self._longest(column, _longest_word), min(all_of, MIN_PROSE))
            for column, all_of in zip(columns, full, strict=True)
        ]
        spare = room - sum(least)
        if not full or spare < 0:
            return None
        found = list(least)
        for place in sorted(range(len(found)), key=lambda at: full[at] - least[at]):
            open_ones = sum(1 for at, have in enumerate(found) if have == least[at] < full[at])
            more = min(full[place] - least[place], spare // max(open_ones, 1))
            found[place] += more
            spare -= more
        return found

    def _longest(self, column: int, measure: Callable[[str], int]) -> int:
        lines = (line for row in self.rows for line in row[column].split("\n"))
        return max(cell_len(self.headings[column]), max(map(measure, lines), default=0))

    def _headed(self, columns: Sequence[int], widths: Sequence[int], indent: int = 0) -> Iterator[TableLine]:
        cells = [self.headings[column] for column in columns]
        yield TableLine(self._line(columns, cells, widths, indent), heading=True)

    def _body(
        self, columns: Sequence[int], widths: Sequence[int], rows: Iterable[tuple[str, ...]], indent: int = 0
    ) -> Iterator[TableLine]:
        for row in rows:
            cells = [row[column].split("\n") for column in columns]
            for level in zip_longest(*cells, fillvalue=""):
                parts = [wrapped(text, width) for text, width in zip(level, widths, strict=True)]
                for line in zip_longest(*parts, fillvalue=""):
                    yield TableLine(self._line(columns, line, widths, indent))

    def _line(self, columns: Sequence[int], cells: Sequence[str], widths: Sequence[int], indent: int) -> str:
        padded = []
        for column, cell, width in zip(columns, cells, widths, strict=True):
            blanks = " " * (width - cell_len(cell))
            padded.append(blanks + cell if self.headings[column] in self._right else cell + blanks)
        return (" " * indent + (" " * GAP).join(padded)).rstrip()

    def _name_lines(self, row: tuple[str, ...], width: int) -> list[str]:
        return wrapped("  ".join(cell.replace("\n", " ") for cell in row[: self._names]), width)

    def _blocks(self, width: int) -> Iterator[TableLine]:
        for number, row in enumerate(self.rows):
            if number:
                yield TableLine("")
            for line in self._name_lines(row, width):
                yield TableLine(line, heading=True)
            for heading, cell in zip(self.headings[self._names :], row[self._names :], strict=True):
                start = f"{heading.lower()}: "
                for line in cell.split("\n"):
                    for text in wrapped(start + line, width - INDENT, hanging=INDENT):
                        yield TableLine(" " * INDENT + text)
                    start = " " * INDENT


def _longest_word(line: str) -> int:
    return max(map(cell_len, line.split()), default=0)
