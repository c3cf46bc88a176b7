"""The state for questions, from manifests or a cluster, as a world to try things on."""

from collections.abc import Iterable, Sequence
from typing import Any

from reconciler.analysis.manifest_world import Fleet, world_of_manifests
from reconciler.analysis.world import World
from reconciler.api.manifests.inferred_nodes import InferredNodes
from reconciler.api.objects.core import Node
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import cluster
from reconciler.cli.connection import Connection
from reconciler.cli.input import read_files, read_valid
from reconciler.cli.output import ProgressTracker


def fleet_of_cluster(raws: Iterable[dict[str, Any]]) -> Fleet:
    """What is read of a cluster, with the held room. Prints invalid objects to standard error."""
    raws, held = cluster.split_held_room(raws)
    order = ("Namespace", "Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaim")
    objects = sorted(
        read_valid(raws), key=lambda one: order.index(kind) if (kind := type(one).__name__) in order else 9
    )
    nodes = tuple(one for one in objects if isinstance(one, Node))
    return Fleet(InferredNodes(nodes, (), None, ()), objects, held=held, may_suppose=False)


def read_world(
    files: Sequence[str],
    connection: Connection,
    rules: Semantics,
    progress: ProgressTracker,
    *,
    budgets: bool,
) -> World:
    """The state of manifests, or without any of the cluster. Raises ReconcilerError or OSError."""
    if files:
        return world_of_manifests(read_files(files, progress), rules)
    progress.stage("reading the cluster")
    raws = cluster.from_cluster(
        cluster.list_objects(cluster.KINDS, connection, volumes=True, budgets=budgets)
    )
    return fleet_of_cluster(raws).world(rules)
