"""Every kubectl on this machine, by its minor version."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.tools.patience import PATIENCE

OLDEST = 30
"""The first release that docs/embedded-server.md promises"""
OWN = Path(sys.prefix) / "kubectl"
"""Where `python -m tests.tools.fetch_kubectl` puts them"""
MISSING = "kubectl 1.30 or later is not installed; python -m tests.tools.fetch_kubectl fetches some"
_NAME = re.compile(r"kubectl\.1\.(?P<minor>\d+)")


@cache
def kubectls() -> Mapping[int, Path]:
    """Minor version -> program, oldest first. Their names are kubectl or, for a release, kubectl.1.30."""
    found: dict[int, Path] = {}
    for folder in _folders():
        for path in sorted(folder.glob("kubectl.1.*")):
            if match := _NAME.fullmatch(path.name):
                found.setdefault(int(match["minor"]), path)
    # The plain program is asked for its version only if it is the only one: it may choose another one itself.
    if not found and (plain := shutil.which("kubectl")):
        found[_minor(plain)] = Path(plain)
    return {minor: found[minor] for minor in sorted(found) if minor >= OLDEST}


def _folders() -> Iterator[Path]:
    yield OWN
    for name in os.get_exec_path():
        yield Path(name)
        # Some packages install several releases beside the program that PATH leads to.
        yield (Path(name) / "kubectl").resolve().parent


def _minor(program: str) -> int:
    command = [program, "version", "--client", "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE)
    return int(json.loads(done.stdout)["clientVersion"]["minor"].rstrip("+"))
