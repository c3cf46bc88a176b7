"""Colours, progress and frames appear only on terminals; NO_COLOR disables colours."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from reconciler.cli import main
from tests.tools.patience import PATIENCE
from tests.tools.short_manifests import CLASS, claim, gpus, together

COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?[34][0-9]")


def on_a_terminal(*arguments: str, **environment: str) -> bytes:
    """What a command writes to a terminal, on both streams."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "reconciler", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # Linux: the other end is closed
        pass
    finally:
        os.close(ours)
    assert process.wait(timeout=PATIENCE) in (0, 1)
    return shown


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    (tmp_path / "all.yaml").write_text(together(CLASS, gpus("n1", 1), claim("a"), claim("b")))
    return str(tmp_path / "all.yaml")


def test_no_color_is_respected_on_a_terminal(manifest: str):
    shown = on_a_terminal("top", "-f", manifest, "--once", NO_COLOR="1")
    assert shown
    assert not COLOUR.search(shown)


def test_a_pipe_gets_no_escapes_and_no_frames(manifest: str):
    done = CliRunner().invoke(main, ["allocate", "-f", manifest])
    assert "gpu-0" in done.stdout
    assert "\x1b" not in done.output
    assert "─" not in done.stdout
