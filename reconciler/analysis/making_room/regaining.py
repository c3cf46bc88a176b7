"""Whether a claim that is freed can have the same devices again: to free it makes nothing harder then."""

from math import isinf

from reconciler.allocation.alignment.preferences import has_preferences
from reconciler.allocation.dra import allocate
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.restricting import within
from reconciler.analysis.making_room.again import again
from reconciler.analysis.making_room.wanted import most_devices
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.state.trial import Trial


def regains(claim: ResourceClaim, allocation: Allocation, trial: Trial) -> bool:
    """Whether a claim gets exactly what it has if it alone is free, and needs devices again.

    If so, what fits while it keeps that also fits where it is free, and more besides, and is placed again.
    Not looked into, so not said of claims with devices of several nodes, all devices, or preferences.
    """
    snapshot = trial.snapshot
    fleet, topology = snapshot.fleet, snapshot.topology
    rows = [row for result in allocation.devices.results for row in fleet.rows_of(result.id)]
    places = set(topology.place_of[fleet.codes["node"][rows]].tolist()) if rows else set()
    if len(places) != 1 or places == {-1}:
        return False
    if isinf(most_devices([claim])) or has_preferences([claim], snapshot.classes):
        return False
    del snapshot, fleet  # the release would copy them
    mark, node = trial.mark(), topology.order[places.pop()]
    trial.release(claim.metadata.uid)
    try:
        wanted, free = [again(claim)], trial.snapshot
        found = allocate(wanted, free, nodes=[node], only=within(wanted, rows, free))
    except Fatal:
        return False
    finally:
        trial.back_to(mark)
    return isinstance(found, Granted) and _taken(found.plans[0].allocation) == _taken(allocation)


def _taken(allocation: Allocation) -> tuple[object, ...]:
    """What nobody else can have because of an allocation, and where it can be used."""
    results = sorted(allocation.devices.results, key=lambda one: (one.id, one.request))
    each = [(one.id, bool(one.admin_access), one.consumed_capacity) for one in results]
    return each, allocation.node_selector
