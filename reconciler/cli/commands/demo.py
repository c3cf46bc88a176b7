"""The options and the help of `dra-reconciler demo`."""

import click

from reconciler.cli.common.running import runs


@click.command()
@runs("reconciler.cli.demo.command:demo")
def demo() -> None:
    """Start the embedded API server with a sample fleet and claims, reconcile over HTTP, then exit.

    Needs no cluster. Shows each allocation as it happens, and the reason for each pending claim.
    The objects are in the package's directory cli/demo/manifests.
    """
