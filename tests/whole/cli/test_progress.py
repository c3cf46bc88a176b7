"""Slow commands show progress: only on a terminal, on standard error, never with JSON."""

import io
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.cli.output import Console
from reconciler.cli.progress import UPDATE_STEPS, ProgressTracker, track_progress
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS, claim, gpus, together

WITHOUT_DELAY = (
    "import reconciler.cli.progress as w; w.DELAY_SECONDS = 0; from reconciler.cli import main; main()"
)
"""The program, with progress from the start"""
STAGE = b"reading "


def test_progress_shows_the_stage_and_counts():
    progress, out = ProgressTracker(), io.StringIO()
    progress.show(Console(out, terminal=True))
    assert list(progress.each("reading", range(2 * UPDATE_STEPS))) == list(range(2 * UPDATE_STEPS))
    progress.stage("deciding")
    progress.end()
    assert "deciding" in out.getvalue()


def test_progress_that_has_ended_shows_nothing():
    progress, out = ProgressTracker(), io.StringIO()
    progress.stage("deciding")
    progress.end()
    progress.show(Console(out, terminal=True))
    progress.stage("more")
    assert out.getvalue() == ""


def test_without_a_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]):
    with track_progress() as progress:
        assert list(progress.each("reading", "ab")) == ["a", "b"]
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


@pytest.mark.parametrize(
    "arguments",
    [
        ("allocate", "-f", "-"),
        ("doctor", "-f", "-"),
        ("convert", "-f", "-"),
        ("explain", "a", "-f", "-"),
        ("whatif", "-f", "-"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_slow_command_shows_progress(arguments: tuple[str, ...]):
    out, shown_text = run(*arguments, wait=STAGE)
    assert out, "the result goes to standard output"
    assert STAGE not in out
    assert b"Traceback" not in shown_text


@pytest.mark.parametrize("command", ["allocate", "convert"])
def test_no_progress_with_json(command: str, tmp_path: Path):
    """A reader of both streams together must be able to parse them."""
    out, shown_text = run(command, "-f", "-", "-o", "json", wait=b"")
    assert out.startswith(b"{")
    assert STAGE not in shown_text
