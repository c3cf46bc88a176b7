"""What a pod takes of nodes for the devices of its claims, and what it can have. Source: NAR-1 to NAR-6."""

from collections.abc import Iterable

from reconciler.allocation.dra.charging import Charging, uses_in
from reconciler.api.migrate.special_claims import served_by_classes
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import EXTENDED_RESOURCES, NODE_ALLOCATABLE
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.room import DeviceShare
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.device_shares import ClaimUse, share_of, use_of


def devices_take(snapshot: Snapshot) -> bool:
    """Whether some device uses resources of its node, and that counts."""
    return bool(snapshot.fleet.vocabulary.mapped.values) and snapshot.rules.has(NODE_ALLOCATABLE)


def _uses(held: Iterable[ResourceClaim], snapshot: Snapshot) -> dict[ObjectKey, ClaimUse]:
    uses = uses_in(snapshot.fleet)
    return {claim.key: use_of(claim.allocation, uses) for claim in held if claim.allocation is not None}


def share_of_held(
    pod: Pod, held: Iterable[ResourceClaim], snapshot: Snapshot
) -> tuple[DeviceShare | None, str]:
    """What a pod takes for its allocated claims; and one of them that only one pod may use and that another
    one uses, if there is one.
    """
    claims = tuple(held)
    if not claims or not devices_take(snapshot):
        return None, ""
    uses = _uses(claims, snapshot)
    for claim in claims:
        reserved = any(one.uid != pod.metadata.uid for one in claim.status.reserved_for)
        if reserved and claim.key in uses and uses[claim.key].is_mapped:
            return share_of(pod, uses), str(claim.key)
    return share_of(pod, uses), ""


def charging_of(pod: Pod, held: Iterable[ResourceClaim], snapshot: Snapshot, nodes: Nodes) -> Charging | None:
    """The room of nodes for a pod beside what devices take of it; None if no device takes any."""
    if not devices_take(snapshot):
        return None
    used = sorted({use.resource for one in snapshot.fleet.vocabulary.mapped.values for use in one})
    own = (pod.key, *nodes.nominated.charges_of_pod(pod))
    offered, free = nodes.room.by_name(used, but=own)
    order = snapshot.topology.order
    return Charging(
        pod,
        _uses(held, snapshot),
        {name: nodes.in_order(column, order) for name, column in offered.items()},
        {name: nodes.in_order(column, order) for name, column in free.items()},
    )


def backed_resources(snapshot: Snapshot, pod: Pod) -> frozenset[str]:
    """Resources of a pod that kube-scheduler turns into claims if a node does not offer them (EXT-1)."""
    on = snapshot.rules.has(EXTENDED_RESOURCES)
    return frozenset(served_by_classes(pod, snapshot.classes)) if on else frozenset()
