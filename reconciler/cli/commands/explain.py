"""The options and the help of `dra-reconciler explain`."""

import click

from reconciler.allocation.defaults import STEPS
from reconciler.cli.common.held_room import held_room_option
from reconciler.cli.common.options import (
    cluster_options,
    contexts_option,
    files_option,
    koordinator_semantics_option,
    namespace_option,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.policy_options import (
    policy_options,
)
from reconciler.cli.common.running import runs


@click.command()
@click.argument("target", metavar="[NAMESPACE/]CLAIM")
@namespace_option
@click.option(
    "--pod", "of_pod", is_flag=True, help="The name is that of a pod: explain all its claims together."
)
@files_option(required=False)
@cluster_options
@contexts_option
@held_room_option
@output_option("table", "json", "yaml")
@release_and_rules_options
@koordinator_semantics_option(default="proposal")
@steps_option(STEPS)
@policy_options
@runs("reconciler.cli.explain:explain")
def explain() -> None:
    """Explain why a claim is pending: the devices that pass each gate, the blocking gates, near misses.

    Reads a cluster as it is now, or manifests with -f. In manifests, claims and pods that come first are
    allocated first, as `allocate` does. All claims of a pod are explained together, for one node. With --pod,
    also explains pods that request Koordinator's devices.
    """
