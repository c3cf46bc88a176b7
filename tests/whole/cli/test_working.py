"""Long work says what it is at: on a terminal, on standard error, never beside output for programs."""

import io
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from reconciler.cli.common.progress import UPDATE_STEPS, ProgressTracker, track_progress
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS, claim, gpus, together

HURRIED = (
    "import reconciler.cli.common.progress as w; w.DELAY_SECONDS = 0; from reconciler.cli import main; main()"
)
"""The program, for which nobody waits as long as a person does"""
STAGE = b"reading "


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_what_is_shown_names_the_stage_and_counts():
    progress, console = ProgressTracker(), terminal()
    progress.show(console)
    assert list(progress.each("reading", range(2 * UPDATE_STEPS))) == list(range(2 * UPDATE_STEPS))
    progress.stage("deciding")
    progress.end()
    assert "deciding" in shown(console)


def test_work_that_is_over_shows_nothing_any_more():
    progress, console = ProgressTracker(), terminal()
    progress.stage("deciding")
    progress.end()
    progress.show(console)
    progress.stage("more")
    assert shown(console) == ""


def test_without_a_terminal_only_the_work_is_done(capfd: pytest.CaptureFixture[str]):
    with track_progress() as progress:
        assert list(progress.each("reading", "ab")) == ["a", "b"]
    assert capfd.readouterr() == ("", "")


def run(*arguments: str, wait: bytes) -> tuple[bytes, bytes]:
    """What a command wrote to standard output, and to a terminal on standard error.

    It gets its manifests on standard input only once `wait` was on the terminal.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", HURRIED, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    told = b""
    while wait not in told:
        assert select.select([ours], [], [], PATIENCE)[0], f"nothing more comes after {told!r}"
        told += os.read(ours, 4096)
    out, _ = process.communicate(together(CLASS, gpus("n1", 1), claim("a")).encode(), timeout=PATIENCE)
    os.set_blocking(ours, False)
    try:
        while piece := os.read(ours, 4096):
            told += piece
    except OSError:  # how Linux says that the other end is closed
        pass
    finally:
        os.close(ours)
    return out, told


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
def test_a_command_that_takes_long_says_what_it_is_at(arguments: tuple[str, ...]):
    out, told = run(*arguments, wait=STAGE)
    assert out, "what is for people, or programs, goes where it always went"
    assert STAGE not in out
    assert b"Traceback" not in told


@pytest.mark.parametrize("command", ["allocate", "convert"])
def test_nothing_is_shown_beside_json(command: str, tmp_path: Path):
    """Whoever reads both streams as one must be able to parse them."""
    out, told = run(command, "-f", "-", "-o", "json", wait=b"")
    assert out.startswith(b"{")
    assert STAGE not in told
