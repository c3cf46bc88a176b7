"""The options and the help of `dra-reconciler apiserver`."""

from pathlib import Path

import click

from reconciler.cli.common.options import (
    files_option,
)
from reconciler.cli.common.running import runs


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="The port; 0 selects a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on. Without --token-file, every client has full access.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Clients: lines of token,user,uid,"group,group".',
)
@click.option(
    "--rbac",
    type=click.Path(exists=True, readable=True),
    metavar="FILE|DIR",
    help="Roles and bindings of the clients. Group system:masters has full access.",
)
@click.option(
    "--with-controllers",
    is_flag=True,
    help="Also create claims from templates, bind and finish pods, and deallocate claims.",
)
@files_option(required=False)
@runs("reconciler.cli.apiserver:apiserver")
def apiserver() -> None:
    """Run only the embedded API server, in memory, until SIGINT or SIGTERM.

    Objects are lost at the end. -f loads objects at the start. Without --token-file, clients are not
    authenticated.
    """
