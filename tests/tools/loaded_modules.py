"""The modules that a command imports."""

import subprocess
import sys

from tests.tools.patience import PATIENCE


def loaded_by(arguments: str) -> set[str]:
    """The modules in memory after a command, in a process of its own."""
    code = (
        "import sys\n"
        "from reconciler.cli import main\n"
        f"main({arguments!r}.split(), standalone_mode=False)\n"
        "print('|'.join(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return set(done.stdout.splitlines()[-1].split("|"))
