"""`dra-reconciler demo`: the reconciler at work on the embedded API server, and the end."""

import asyncio
import sys

import click
from rich.console import Console

from reconciler.cli.common.exits import failing
from reconciler.cli.demo.play import manifests, play
from reconciler.operations.logs.setup import configure


@click.command(short_help="Allocate sample claims on the embedded API server, and end.")
def demo() -> None:
    """Start the embedded API server with a sample fleet and a mix of claims, reconcile over HTTP, end.

    Needs no cluster. Shows each allocation when it is made, and for each claim that stays
    without devices why. The objects are in the package's directory demo/manifests.
    """
    configure("warning")
    console = Console(highlight=False, emoji=False, markup=False)
    with failing():
        asyncio.run(play(manifests(sys.stdin.buffer), console))
