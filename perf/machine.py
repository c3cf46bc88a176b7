"""What a measurement ran on: the machine, the versions, the commit, and how fast all that is today.

Run as a program it prints a calibration, so that its buffers are in nobody else's peak memory.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pydantic

ROOT = Path(__file__).parent.parent
ADDITIONS = 5_000_000
COPIED_BYTES = 256 * 2**20


class Calibration(NamedTuple):
    """How fast the machine is at this moment; others may be using it too."""

    loop_seconds: float
    """Five million additions in Python"""
    copy_gb_per_second: float
    """Bytes read plus bytes written"""

    def __str__(self) -> str:
        return f"loop {self.loop_seconds:.2f} s, copy {self.copy_gb_per_second:.0f} GB/s"


class Machine(NamedTuple):
    """The machine and the versions."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    numpy: str
    pydantic: str

    def __str__(self) -> str:
        return (
            f"{self.cpu}, {self.cores} cores, {self.memory_gib:.0f} GiB, {self.system}; "
            f"Python {self.python}, NumPy {self.numpy}, pydantic {self.pydantic}"
        )


def machine() -> Machine:
    """The machine that runs us."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(memory, 1),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        numpy=np.__version__,
        pydantic=pydantic.VERSION,
    )


def commit() -> str:
    """The commit of the working tree, with a mark if something in it differs. Empty outside of one."""
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        return f"{name} with changes" if _git("status", "--porcelain", "--untracked-files=no") else name
    except (OSError, subprocess.CalledProcessError):  # an installed copy, or no git
        return ""


def calibrate() -> Calibration:
    """Measure in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "perf.machine"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return Calibration(*json.loads(done.stdout))


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _measure() -> Calibration:
    began = perf_counter()
    total = 0
    for number in range(ADDITIONS):
        total += number
    loop = perf_counter() - began
    source = np.ones(COPIED_BYTES // 8)
    target = source.copy()
    best = np.inf
    for _ in range(5):
        began = perf_counter()
        np.copyto(target, source)
        best = min(best, perf_counter() - began)
    return Calibration(loop, 2 * COPIED_BYTES / best / 1e9)


if __name__ == "__main__":
    print(json.dumps(_measure()))
