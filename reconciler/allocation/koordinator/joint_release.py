"""Joint allocation of the release: the primary type first, then the others near it, without backtracking."""

from collections.abc import Mapping

from reconciler.allocation.koordinator.demand import Instance
from reconciler.allocation.koordinator.failure import Failure, Status
from reconciler.allocation.koordinator.gpus import gpu_grants, gpu_options
from reconciler.allocation.koordinator.ordinary import choose
from reconciler.allocation.koordinator.view import Attempt
from reconciler.api.koordinator.names import GPU
from reconciler.state.koordinator.holdings import Grant

JOINT_VIOLATION = Failure(
    "joint-scope-violation", Status.LATER, "node(s) Device Joint-Allocate rules violation"
)

GrantsByType = dict[str, tuple[Grant, ...]]


def allocate_jointly(at: Attempt, needed: Mapping[str, Instance]) -> GrantsByType | Failure:
    """Devices for all types of the joint list (KOO-11)."""
    primary, *secondary = at.demand.joint
    first = allocate_type(at, primary, needed[primary])
    if isinstance(first, Failure):
        return first
    pcies = _pcies(at, primary, first)
    chosen: GrantsByType = {primary: first}
    for kind in secondary:
        wanted = needed[kind]
        if at.demand.same_pcie:
            wanted = Instance(max(wanted.count, len(pcies)), wanted.each, wanted.shared)
        limit = max(wanted.count, len(pcies))
        if kind == GPU:
            found = allocate_type(at, kind, wanted, limit=limit)
        else:
            found = choose(at, kind, wanted, limit=limit, pcies=pcies)
        if isinstance(found, Failure):
            return found
        chosen[kind] = found
    if at.demand.same_pcie and any(_pcies(at, kind, chosen[kind]) != pcies for kind in secondary):
        return JOINT_VIOLATION
    return chosen


def allocate_type(at: Attempt, kind: str, needed: Instance, *, limit: int = 0) -> tuple[Grant, ...] | Failure:
    """Devices for one type, independent of other types."""
    if kind != GPU:
        return choose(at, kind, needed, limit=limit)
    options = gpu_options(at, needed)
    if isinstance(options, Failure):
        return options
    best = options.tiers[0][0]
    count = max(needed.count, limit) if best.open_end else needed.count
    minors = best.minors if best.whole else best.minors[:count]
    return gpu_grants(minors, needed, options.template)


def _pcies(at: Attempt, kind: str, grants: tuple[Grant, ...]) -> set[str]:
    switches = (at.machine.pcie(kind, grant.minor) for grant in grants)
    return {switch for switch in switches if switch is not None}
