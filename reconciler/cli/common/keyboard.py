"""Keys of a terminal, one at a time, without Enter. The terminal is as before afterwards."""

import asyncio
import os
import re
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

_NAMES = {
    b"A": "up", b"B": "down", b"H": "home", b"F": "end",
    b"1~": "home", b"4~": "end", b"5~": "page up", b"6~": "page down", b"7~": "home", b"8~": "end",
}  # fmt: skip
"""End of an escape sequence -> name of the key, in the modes of common terminals"""
_KEY = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|[^\x1b]")
_INCOMPLETE = re.compile(rb"\x1b(?:[\[O][0-9;]*)?\Z")


class KeyReader:
    """Cuts the bytes of a terminal into keys."""

    def __init__(self) -> None:
        self._rest = b""

    def keys(self, read: bytes) -> Iterator[str]:
        """Yield the names of complete keys: a character, or a name such as `page up`. Others are ignored."""
        data = self._rest + read
        cut = _INCOMPLETE.search(data)
        self._rest = cut[0] if cut else b""
        for found in _KEY.findall(data[: len(data) - len(self._rest)]):
            if found[:1] == b"\x1b":
                if name := _NAMES.get(found[2:]):
                    yield name
            else:
                yield found.decode("ascii", "replace")


@contextmanager
def keyboard(stream: TextIO, on_key: Callable[[str], object], on_end: Callable[[], object]) -> Iterator[bool]:
    """Call `on_key` for each key while the block runs in an event loop, `on_end` when the terminal is gone.

    Yields whether there is a keyboard. Interrupting works as always; suspending does not, because a
    suspended program would leave its screen behind.
    """
    if not stream.isatty():
        yield False
        return
    terminal, reader, loop = stream.fileno(), KeyReader(), asyncio.get_running_loop()
    before = termios.tcgetattr(terminal)

    def read() -> None:
        try:
            data = os.read(terminal, 1024)
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(terminal)
            on_end()
        for key in reader.keys(data):
            on_key(key)

    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        _without_suspending(terminal)
        loop.add_reader(terminal, read)
        yield True
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _without_suspending(terminal: int) -> None:
    changed = termios.tcgetattr(terminal)
    changed[6][termios.VSUSP] = b"\x00"
    termios.tcsetattr(terminal, termios.TCSADRAIN, changed)
