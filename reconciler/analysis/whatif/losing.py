"""The claims that lose their devices with a drained node, grouped as they have to be placed again."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from reconciler.allocation.placement import place
from reconciler.analysis.whatif.scenario import Unit
from reconciler.api.objects.claims import Allocation, ResourceClaim, ResourceClaimStatus
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.node_selector import NodeSelector
from reconciler.api.objects.pods import claims_of
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot.snapshot import Snapshot


def lost_claims(
    drained: frozenset[str], snapshot: Snapshot, holding: Iterable[ResourceClaim]
) -> list[ResourceClaim]:
    """The claims whose allocation cannot be used without the drained nodes."""
    if not drained:
        return []
    known: dict[NodeSelector, bool] = {}  # claims of one node have equal selectors

    def matches_only_drained(selector: NodeSelector) -> bool:
        if selector not in known:
            known[selector] = _matches_only(selector, drained, snapshot)
        return known[selector]

    return [
        claim
        for claim in holding
        if claim.allocation is not None
        and _is_lost(claim.allocation, drained, matches_only_drained, snapshot)
    ]


def _is_lost(
    allocation: Allocation,
    drained: frozenset[str],
    matches_only_drained: Callable[[NodeSelector], bool],
    snapshot: Snapshot,
) -> bool:
    values = snapshot.fleet.vocabulary.nodes.values
    for result in allocation.devices.results:
        codes = [int(snapshot.fleet.codes["node"][row]) for row in snapshot.fleet.rows_of(result.id)]
        if codes and all(code >= 0 and values[code] in drained for code in codes):
            return True
    return allocation.node_selector is not None and matches_only_drained(allocation.node_selector)


def _matches_only(selector: NodeSelector, drained: frozenset[str], snapshot: Snapshot) -> bool:
    """Whether a selector matches nodes, and all of them are drained."""
    try:
        matching = {
            name for name, node in snapshot.topology.nodes.items() if selector.matches(name, node.labels)
        }
    except Rejected:
        return False
    return bool(matching) and matching <= drained


def units_of(lost: Iterable[ResourceClaim], pods: Mapping[ObjectKey, Pod]) -> list[Unit]:
    """The lost claims by pod, unallocated, in the order in which they are placed.

    The claims of an unknown pod have the position of their first claim.
    """
    groups: dict[ObjectKey | None, list[ResourceClaim]] = {}
    for claim in lost:
        user = _user(claim)
        groups.setdefault(user or ObjectKey("claim " + claim.key.namespace, claim.key.name), []).append(claim)
    units = []
    for user, claims in groups.items():
        pod = pods.get(user) if user is not None else None
        members = sorted(claims, key=lambda claim: claim.key)
        name = f"pod {pod.key}" if pod is not None else ", ".join(f"claim {claim.key}" for claim in members)
        first = place(pod) if pod is not None else min(map(place, members))
        units.append((first, Unit(name, tuple(map(unallocated, members)), pod)))
    return [unit for _, unit in sorted(units, key=lambda entry: entry[0])]


def _user(claim: ResourceClaim) -> ObjectKey | None:
    """The first pod in the claim's reservedFor."""
    pods = (user for user in claim.status.reserved_for if user.resource == "pods")
    return next((ObjectKey(claim.key.namespace, user.name) for user in pods), None)


def unallocated(claim: ResourceClaim) -> ResourceClaim:
    """The claim without its status."""
    return claim.model_copy(update={"status": ResourceClaimStatus()})


def remaining_claims(unit: Unit, holding: Mapping[ObjectKey, ResourceClaim]) -> Iterator[ResourceClaim]:
    """The claims of the same pod that keep their devices."""
    for key in claims_of(unit.pod) if unit.pod is not None else ():
        claim = holding.get(key)
        if claim is not None and claim.allocation is not None:
            yield claim
