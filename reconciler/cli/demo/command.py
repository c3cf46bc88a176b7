"""`dra-reconciler demo`: run the reconciler on the embedded API server with sample objects."""

import asyncio
import sys

from reconciler.cli.common.console import Console
from reconciler.cli.common.exits import exit_on_errors
from reconciler.cli.demo.play import manifests, play
from reconciler.operations.logs.setup import configure, lines_in_order


def demo() -> None:
    """Carry out the command. Its options and its help are in `cli/commands/demo.py`."""
    configure("warning", "short")
    console = Console(sys.stdout)
    with exit_on_errors(), lines_in_order():
        asyncio.run(play(manifests(sys.stdin.buffer), console))
