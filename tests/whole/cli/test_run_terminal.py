"""What `run` prints on a terminal: its cluster, a short line for each event, and its address."""

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.patience import PATIENCE
from tests.tools.processes import written
from tests.tools.small_fleet import claim, device_class, devices, node

pytestmark = pytest.mark.loopback


def test_lines_are_short_and_the_address_is_alone(tmp_path: Path):
    manifest = written(
        tmp_path / "all.yaml", node("n"), device_class(), devices("n", "d0"), claim("a"), claim("b")
    )
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "reconciler", "run", "--embedded", "-f", manifest],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm", "NO_COLOR": "1"},
    )
    os.close(theirs)
    shown = b""
    try:
        while not (b"claim allocated" in shown and b"claim pending" in shown):
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGTERM)
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # Linux: the other end is closed
        pass
    finally:
        os.close(ours)
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE) == 0
    lines = shown.decode().split("\r\n")
    assert all(len(line) <= 80 for line in lines)
    assert all(line == line.rstrip() for line in lines)
    assert not re.search(r"\[\{|counts|decision_id", shown.decode())
    (server,) = (line.split()[-1] for line in lines if line.startswith("embedded API server on "))
    events = [line for line in lines if re.match(r"\d\d:\d\d:\d\d ", line)]
    assert events[0].endswith(f" cluster: {server}")
    assert any(re.search(r" claim allocated: default/a d0 node=n \(\d+ ms\)$", line) for line in events)
    (at,) = (at for at, line in enumerate(lines) if line.endswith("status served"))
    assert re.fullmatch(r"https?://127\.0\.0\.1:\d+/?", lines[at + 1])
