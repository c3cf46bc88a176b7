"""Slow commands show progress: only on a terminal, on standard error, never with JSON."""

import io
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.cli import main, output
from reconciler.cli.output import UPDATE_STEPS, Console, ProgressTracker, track_progress
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS, claim, gpus, together

WITHOUT_DELAY = (
    "import reconciler.cli.output as w; w.DELAY_SECONDS = 0; from reconciler.cli import main; main()"
)
"""The program, with progress from the start"""
STAGE = b"reading "
CURSOR_HIDDEN = "\x1b[?25l"
"""How every progress bar begins"""


def test_progress_shows_the_stage_and_counts():
    tracker, out = ProgressTracker(), io.StringIO()
    tracker.show(Console(out, terminal=True))
    assert list(tracker.each("reading", range(2 * UPDATE_STEPS))) == list(range(2 * UPDATE_STEPS))
    tracker.stage("deciding")
    tracker.end()
    assert "deciding" in out.getvalue()


def test_progress_that_has_ended_shows_nothing():
    tracker, out = ProgressTracker(), io.StringIO()
    tracker.stage("deciding")
    tracker.end()
    tracker.show(Console(out, terminal=True))
    tracker.stage("more")
    assert out.getvalue() == ""


def test_without_a_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]):
    with track_progress() as tracker:
        assert list(tracker.each("reading", "ab")) == ["a", "b"]
    assert capfd.readouterr() == ("", "")


def run(*arguments: str, wait: bytes) -> tuple[bytes, bytes]:
    """What a command wrote to standard output, and to a terminal on standard error.

    It gets its manifests on standard input only once `wait` was on the terminal.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_DELAY, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    shown_text = b""
    while wait not in shown_text:
        assert select.select([ours], [], [], PATIENCE)[0], f"no more output after {shown_text!r}"
        shown_text += os.read(ours, 4096)
    out, _ = process.communicate(together(CLASS, gpus("n1", 1), claim("a")).encode(), timeout=PATIENCE)
    os.set_blocking(ours, False)
    try:
        while piece := os.read(ours, 4096):
            shown_text += piece
    except OSError:  # Linux: the other end is closed
        pass
    finally:
        os.close(ours)
    return out, shown_text


def test_a_slow_command_shows_progress():
    out, shown_text = run("allocate", "-f", "-", wait=STAGE)
    assert out, "the result goes to standard output"
    assert STAGE not in out
    assert b"Traceback" not in shown_text


@dataclass
class AtOnce:
    """A timer that is over as soon as it starts."""

    seconds: float
    show: Callable[[Console], None]
    to: tuple[Console]
    daemon: bool = False

    def start(self) -> None:
        self.show(*self.to)

    def cancel(self) -> None:
        """Too late."""


@pytest.mark.parametrize("command", ["allocate", "doctor", "convert", "explain a", "whatif"])
@pytest.mark.parametrize("as_json", [False, True], ids=["table", "json"])
def test_every_command_shows_it_but_not_with_json(
    command: str, as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A reader of both streams together must be able to parse JSON."""
    monkeypatch.setattr(output, "Timer", AtOnce)
    monkeypatch.setattr(output, "Console", lambda stream: Console(stream, terminal=True))
    (tmp_path / "f.yaml").write_text(together(CLASS, gpus("n1", 1), claim("a")))
    arguments = [*command.split(), "-f", str(tmp_path), *(["-o", "json"] if as_json else [])]
    result = CliRunner().invoke(main, arguments)
    assert (CURSOR_HIDDEN in result.stderr) != as_json
    assert CURSOR_HIDDEN not in result.stdout
