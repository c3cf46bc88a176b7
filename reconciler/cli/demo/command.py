"""`dra-reconciler demo`: run the reconciler on the embedded API server with sample objects."""

import asyncio
import sys

import click

from reconciler.cli.common.exits import exit_on_errors
from reconciler.cli.common.output import console_on
from reconciler.cli.demo.play import manifests, play
from reconciler.operations.logs.setup import configure


@click.command()
def demo() -> None:
    """Start the embedded API server with a sample fleet and claims, reconcile over HTTP, then exit.

    Needs no cluster. Shows each allocation as it happens, and the reason for each pending claim.
    The objects are in the package's directory cli/demo/manifests.
    """
    configure("warning")
    console = console_on(sys.stdout)
    with exit_on_errors():
        asyncio.run(play(manifests(sys.stdin.buffer), console))
