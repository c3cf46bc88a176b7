"""The process in which one repeat of a workload runs, so that its peak memory is its own.

Talks to its parent in lines of JSON on standard output: `{"done": 3, "of": 10}` while it works,
`{"outcome": ..., "peak_mib": ...}` at the end.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

from perf.catalogue import WORKLOADS
from perf.deciding import Wrong
from perf.results import ROOT
from perf.workload import Curve, Figure, Outcome, Progress, Size
from reconciler.operations.log_setup import configure

BETWEEN_LINES = 0.1
"""Seconds. Telling more often would be work of its own."""


class Failed(Exception):
    """The process ended without an outcome; it has said why on standard error."""


def run_in_child(
    name: str, size: Size, progress: Progress, *, root: Path = ROOT, python: str = sys.executable
) -> tuple[Outcome, float]:
    """One repeat of the code at `root`, run by `python`: what came out, and the peak memory in MiB.

    Raises Failed.
    """
    command = [python, "-m", "perf.child", name, json.dumps(dict(size))]
    last: dict[str, Any] = {}
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last = json.loads(line)
            if "done" in last:
                progress(last["done"], last["of"])
    if process.returncode != 0 or "outcome" not in last:
        raise Failed(f"{name} ended with status {process.returncode}")
    figures = [Figure(*figure) for figure in last["outcome"]["figures"]]
    curves = [Curve(*curve) for curve in last["outcome"]["curves"]]
    return Outcome(figures, curves), last["peak_mib"]


def _tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def _teller() -> Callable[[int, int], None]:
    told = monotonic()

    def progress(done: int, of: int) -> None:
        nonlocal told
        if (now := monotonic()) - told >= BETWEEN_LINES:
            told = now
            _tell({"done": done, "of": of})

    return progress


def main(name: str, size: str) -> None:
    """Run one repeat and tell the outcome. Log lines are made as always, and go nowhere."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        with redirect_stderr(nowhere):
            configure("info", "json")
        try:
            outcome = WORKLOADS[name].run(json.loads(size), _teller())
        except (Wrong, OSError, TimeoutError) as exc:
            sys.exit(f"{name}: {exc or type(exc).__name__}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _tell({"outcome": asdict(outcome), "peak_mib": peak})


if __name__ == "__main__":
    main(*sys.argv[1:])
