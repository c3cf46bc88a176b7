"""Where commands print lines: a terminal with its width, or a file or pipe, where lines are never cut.

`rich` draws what changes: screens, live tables and progress. Plain lines need none of it; it takes longer to
import than a small file takes to read.
"""

import os
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.console import Console as Drawing

UNBOUNDED = 1_000_000
"""Width without a terminal: lines are never cut or wrapped, so that they can be searched"""
MIN_WIDTH = 20
"""Narrower terminals do not exist: some report 0"""
WIDTH = 80
"""Of a terminal that does not report its width"""

_COLOURS: Final = {"red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_CODES: Final = {"bold": "1", **_COLOURS}
"""Word of a style -> its parameter of the escape sequence SGR"""


class Console:
    """Prints lines, on a terminal in styles. Heeds COLUMNS, TERM, NO_COLOR and FORCE_COLOR."""

    def __init__(self, out: TextIO, *, terminal: bool | None = None) -> None:
        """`terminal` says whether it is one, if that is known."""
        self._out = out
        forced = os.environ.get("FORCE_COLOR")
        if terminal is None:
            terminal = bool(forced) if forced is not None else out.isatty()
        self.is_terminal = terminal
        self.is_dumb_terminal = terminal and os.environ.get("TERM", "").lower() in ("dumb", "unknown")
        self._colourless = bool(os.environ.get("NO_COLOR"))

    @property
    def width(self) -> int:
        """The columns of a line: of the terminal, or COLUMNS."""
        given = os.environ.get("COLUMNS", "")
        if given.isdigit():
            return int(given) if int(given) >= MIN_WIDTH else WIDTH
        if not self.is_terminal:
            return UNBOUNDED
        found = self._terminal_width()
        return found if found >= MIN_WIDTH else WIDTH

    def print(self, line: str = "", style: str = "") -> None:
        """Print a line as it is, at once. A style is `bold`, a colour or both, as in `bold red`."""
        code = self._code(style) if line else ""
        self._out.write(f"\x1b[{code}m{line}\x1b[0m\n" if code else f"{line}\n")
        self._out.flush()

    def drawing(self) -> "Drawing":
        """The same for `rich`."""
        from rich.console import Console as Drawing  # noqa: PLC0415 - see above

        return Drawing(
            file=self._out, force_terminal=self.is_terminal, highlight=False, emoji=False, markup=False
        )

    def _code(self, style: str) -> str:
        if not self.is_terminal or self.is_dumb_terminal:
            return ""
        return ";".join(_CODES[word] for word in style.split() if not (self._colourless and word in _COLOURS))

    def _terminal_width(self) -> int:
        for number in (0, 1, 2):  # whichever of the standard streams is the terminal
            try:
                return os.get_terminal_size(number).columns
            except OSError:
                continue
        return 0
