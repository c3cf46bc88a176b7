"""The modules that a command imports."""

import json
import subprocess
import sys

from tests.tools.patience import PATIENCE


def loaded_by(*commands: str) -> set[str]:
    """The modules in memory after some commands, all in one process of its own."""
    return loaded_after(
        "from reconciler.cli import main\n"
        f"for command in {commands!r}:\n"
        "    try:\n"
        "        main(command.split(), standalone_mode=False)\n"
        "    except SystemExit:\n"  # many commands end so
        "        pass\n"
    )


def loaded_after(code: str) -> set[str]:
    """The modules in memory after some code, in a process of its own."""
    listing = "import json, sys; print(); print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{listing}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))
