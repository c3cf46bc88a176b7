"""`top` on a real terminal: what it shows, its keys, and the terminal afterwards."""

import asyncio
import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
from asyncio.subprocess import Process, create_subprocess_exec
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from reconciler.cli.top_screen import KeyReader, Viewport
from reconciler.embedded import ApiServer, serve
from tests.tools.builders import partitioned
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.loopback

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
LEFT = b"\x1b[?1049l"
"""The screen is as it was before"""


class Terminal:
    """A terminal of 80 columns, and the program on it."""

    def __init__(self, process: Process, ours: int, theirs: int) -> None:
        self.process, self._ours, self._theirs = process, ours, theirs
        self.seen = b""

    async def until(self, true: Callable[[str], bool]) -> str:
        """Read until the last picture fulfils this; returns the picture."""
        while not true(self.picture()):
            self.seen += await asyncio.to_thread(os.read, self._ours, 65536)
        return self.picture()

    def picture(self) -> str:
        """The last picture that is complete, as text: each starts at the top of the screen."""
        pictures = self.seen.split(b"\x1b[H")
        return ESCAPES.sub("", pictures[-1].decode(errors="replace"))

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def modes(self) -> list[object]:
        return list(termios.tcgetattr(self._theirs)[:4])

    async def ended(self) -> int:
        """Wait for the end while reading, so that the program can write."""
        waiting = asyncio.create_task(self.process.wait())
        while not waiting.done():
            reading = asyncio.create_task(asyncio.to_thread(os.read, self._ours, 65536))
            await asyncio.wait([waiting, reading], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                os.write(self._theirs, b".")  # wakes the thread that reads
            self.seen += await reading
        return await waiting


@asynccontextmanager
async def on_terminal(*arguments: str, lines: int = 24, **environment: str) -> AsyncIterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = await create_subprocess_exec(
        sys.executable,
        *("-m", "reconciler", "top", *arguments),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**kept, "TERM": "xterm", "NO_COLOR": "1", "TZ": "UTC", **environment},
        start_new_session=True,
        # A shell starts what runs in the background with SIGINT ignored, which is inherited.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    try:
        async with asyncio.timeout(PATIENCE):
            yield Terminal(process, ours, theirs)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def api() -> ApiServer:
    api = ApiServer()
    api.load([one for at in range(40) for one in partitioned(f"n{at:02}")])
    return api


async def test_it_scrolls_sorts_follows_the_size_and_quits(tmp_path: Path, api: ApiServer):
    async with serve(api) as url:
        context = {"name": "prod", "context": {"cluster": "c"}}
        found = {"clusters": [{"name": "c", "cluster": {"server": url}}], "contexts": [context]}
        (tmp_path / "config").write_text(yaml.safe_dump({**found, "current-context": "prod"}))
        options = ("--kubeconfig", str(tmp_path / "config"), "--by", "node", "--interval", "60")
        async with on_terminal(*options) as terminal:
            before = terminal.modes()
            picture = await terminal.until(lambda text: "lines 1-" in text and "n00" in text)
            assert re.match(rf"\d\d:\d\d:\d\d  {re.escape(url)} \(context prod\)", picture)
            assert all(len(line.rstrip("\r")) <= 80 for line in picture.split("\n"))
            assert "n39" not in picture
            assert terminal.modes() != before
            terminal.press(b"\x1b[F")  # End
            assert "n00" not in await terminal.until(lambda text: "n39" in text)
            terminal.press(b"\x1b[")
            terminal.press(b"H")  # Home, in two parts
            await terminal.until(lambda text: "lines 1-" in text)
            terminal.press(b"j")
            await terminal.until(lambda text: "lines 2-" in text)
            terminal.press(b"s")
            await terminal.until(lambda text: "by devices" in text)
            terminal.resize(60, 100)
            terminal.process.send_signal(signal.SIGWINCH)
            await terminal.until(lambda text: "n39" in text)
            terminal.press(b"q")
            assert await terminal.ended() == 0
            assert LEFT in terminal.seen
            assert terminal.modes() == before
    assert b"\x1b[3" not in terminal.seen  # no colours


async def test_a_signal_ends_it_and_the_terminal_is_as_before(api: ApiServer):
    async with serve(api) as url, on_terminal("--server", url) as terminal:
        before = terminal.modes()
        await terminal.until(lambda text: "FRAGMENTED" in text)
        terminal.process.send_signal(signal.SIGTERM)
        assert await terminal.ended() == 0
        assert LEFT in terminal.seen
        assert terminal.modes() == before


async def test_an_error_is_shown_on_a_restored_terminal():
    async with on_terminal("--server", "http://127.0.0.1:1") as terminal:
        before = terminal.modes()
        assert await terminal.ended() == 3
        after = terminal.seen.rpartition(LEFT)[2]
        assert b"no connection to 127.0.0.1:1" in after.replace(b"\r\n  ", b" ")
        assert terminal.modes() == before


async def test_a_terminal_that_cannot_move_the_cursor_gets_the_table_once(api: ApiServer):
    async with serve(api) as url, on_terminal("--server", url, TERM="dumb") as terminal:
        assert await terminal.ended() == 0
        assert b"FRAGMENTED" in terminal.seen
        assert b"\x1b" not in terminal.seen


@pytest.mark.parametrize(
    ("read", "keys"),
    [
        ([b"qj "], ["q", "j", " "]),
        ([b"\x1b[A\x1bOB"], ["up", "down"]),
        ([b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~"], ["page up", "page down", "home", "end"]),
        ([b"\x1b", b"[", b"6", b"~q"], ["page down", "q"]),
        ([b"\x1b[1;5C", b"\x1b[24~"], []),
        ([b"\xff\xfe"], ["\N{REPLACEMENT CHARACTER}"] * 2),
    ],
)
def test_keys_are_read_from_bytes(read: list[bytes], keys: list[str]):
    reader = KeyReader()
    assert [key for part in read for key in reader.keys(part)] == keys


def test_scrolling_stops_at_both_ends():
    view = Viewport()
    assert view.visible(10, 4) == range(4)
    firsts = []
    for key in ("up", "down", "page down", "end", "down", "page up", "home"):
        assert view.scroll(key, 10)
        firsts.append(view.first)
    assert firsts == [0, 1, 4, 6, 6, 3, 0]
    assert not view.scroll("x", 10)
    view.scroll("end", 10)
    assert view.visible(3, 4) == range(3)  # the text became shorter
