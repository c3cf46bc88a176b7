"""What goes with a node: the claims that hold devices there, put together as they have to be placed again."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from reconciler.allocation.placement import place
from reconciler.analysis.whatif.question import Unit
from reconciler.api.objects.claims import Allocation, ResourceClaim, ResourceClaimStatus
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.node_selector import NodeSelector
from reconciler.api.objects.pods import claims_of
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot.snapshot import Snapshot


def lost_with(
    drained: frozenset[str], world: Snapshot, holding: Iterable[ResourceClaim]
) -> list[ResourceClaim]:
    """The claims whose allocation cannot be used any more once some nodes are gone."""
    if not drained:
        return []
    known: dict[NodeSelector, bool] = {}  # claims of one node say the same

    def only_there(selector: NodeSelector) -> bool:
        if selector not in known:
            known[selector] = _only_there(selector, drained, world)
        return known[selector]

    return [
        claim
        for claim in holding
        if claim.allocation is not None and _is_lost(claim.allocation, drained, only_there, world)
    ]


def _is_lost(
    allocation: Allocation,
    drained: frozenset[str],
    only_there: Callable[[NodeSelector], bool],
    world: Snapshot,
) -> bool:
    values = world.fleet.words.nodes.values
    for result in allocation.devices.results:
        codes = [int(world.fleet.codes["node"][row]) for row in world.fleet.rows_of(result.id)]
        if codes and all(code >= 0 and values[code] in drained for code in codes):
            return True
    return allocation.node_selector is not None and only_there(allocation.node_selector)


def _only_there(selector: NodeSelector, drained: frozenset[str], world: Snapshot) -> bool:
    """Whether a selector means nodes, of which none stay."""
    try:
        meant = {name for name, node in world.topology.nodes.items() if selector.matches(name, node.labels)}
    except Rejected:
        return False
    return bool(meant) and meant <= drained


def units_of(lost: Iterable[ResourceClaim], pods: Mapping[ObjectKey, Pod]) -> list[Unit]:
    """Those of one pod together, unallocated, in the order in which they are placed.

    Claims of one pod that is not known take the place of their first.
    """
    groups: dict[ObjectKey | None, list[ResourceClaim]] = {}
    for claim in lost:
        user = _user(claim)
        groups.setdefault(user or ObjectKey("claim " + claim.key.namespace, claim.key.name), []).append(claim)
    made = []
    for user, claims in groups.items():
        pod = pods.get(user) if user is not None else None
        members = sorted(claims, key=lambda claim: claim.key)
        name = f"pod {pod.key}" if pod is not None else ", ".join(f"claim {claim.key}" for claim in members)
        first = place(pod) if pod is not None else min(map(place, members))
        made.append((first, Unit(name, tuple(map(afresh, members)), pod)))
    return [unit for _, unit in sorted(made, key=lambda entry: entry[0])]


def _user(claim: ResourceClaim) -> ObjectKey | None:
    """The first pod that may use a claim."""
    pods = (user for user in claim.status.reserved_for if user.resource == "pods")
    return next((ObjectKey(claim.key.namespace, user.name) for user in pods), None)


def afresh(claim: ResourceClaim) -> ResourceClaim:
    """The claim as if it had never been allocated."""
    return claim.model_copy(update={"status": ResourceClaimStatus()})


def staying(unit: Unit, holding: Mapping[ObjectKey, ResourceClaim]) -> Iterator[ResourceClaim]:
    """The claims of the same pod that hold what they held."""
    for key in claims_of(unit.pod) if unit.pod is not None else ():
        claim = holding.get(key)
        if claim is not None and claim.allocation is not None:
            yield claim
