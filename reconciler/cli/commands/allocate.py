"""The options and the help of `dra-reconciler allocate`."""

import click

from reconciler.allocation.defaults import STEPS
from reconciler.cli.common.options import (
    koordinator_semantics_option,
    manifest_options,
    output_option,
    release_and_rules_options,
    steps_option,
)
from reconciler.cli.common.policy_options import (
    policy_options,
)
from reconciler.cli.common.running import runs


@click.command()
@manifest_options
@output_option(
    "table",
    "wide",
    "name",
    "yaml",
    "json",
    explained="table; wide adds columns; name, yaml and json are what `run` would write.",
)
@koordinator_semantics_option(default="proposal")
@release_and_rules_options
@steps_option(STEPS)
@policy_options
@runs("reconciler.cli.allocate:allocate")
def allocate() -> None:
    """Allocate the claims in manifests, without a cluster.

    Reads ResourceSlices, DeviceClasses, ResourceClaims, ResourceClaimTemplates, DeviceTaintRules, Nodes and
    Pods; ignores other kinds. Claims that are already allocated keep their devices. All claims of a pod are
    allocated together, for one node; other claims one by one. The order is: pods with higher priority, then
    older objects, then names; objects without a creation timestamp count as youngest. As in `run`, a pod
    cannot use nodes that are cordoned, tainted or too full for it.

    Nodes without a Node object are taken from `nodeName` of the slices. If node selectors match none of the
    nodes, one more node is assumed, with labels that match as many of these selectors as possible.

    Pods that request devices of Koordinator's Device objects are also served: the table shows their shares,
    and wide the annotation that records them; yaml and json contain the pods. Pods with this annotation keep
    their devices.
    """
