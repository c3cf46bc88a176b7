"""The options and the help of `dra-reconciler release-gates`."""

import click

from reconciler.cli.common.options import (
    cluster_options_to,
    namespace_option,
    output_option,
)
from reconciler.cli.common.running import runs


@click.command("release-gates")
@cluster_options_to("Use the default cluster, as without this option")
@namespace_option
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Pods of all namespaces.")
@click.option("--dry-run", is_flag=True, help="Only list the pods whose gate would be removed.")
@output_option("table", "name", "json", "yaml")
@runs("reconciler.cli.release_gates:release_gates")
def release_gates() -> None:
    """Remove the scheduling gate of dra-reconciler from pods, so that they do not stay pending without it.

    Stop or pause the reconciler first. kube-scheduler then schedules the pods, and allocates those of their
    claims that have no devices yet. Other gates stay. A removed gate cannot come back. See docs/uninstall.md.
    """
