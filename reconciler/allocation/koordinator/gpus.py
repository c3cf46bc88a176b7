"""The GPUs that can be allocated, the best first: templates, partitions, topology (KOO-14)."""

from msgspec import Struct

from reconciler.allocation.koordinator.demand import Instance
from reconciler.allocation.koordinator.failure import Failure, Status, insufficient
from reconciler.allocation.koordinator.ordinary import score_of, usable
from reconciler.allocation.koordinator.scoring import device_score
from reconciler.allocation.koordinator.view import Attempt
from reconciler.api.koordinator.amounts import any_left, fits
from reconciler.api.koordinator.annotations import RESTRICTED, PartitionSpec
from reconciler.api.koordinator.names import GPU
from reconciler.api.objects.model import blank
from reconciler.state.koordinator.holdings import Grant
from reconciler.state.koordinator.partitions import Candidates, choices
from reconciler.state.koordinator.tree import REQUIRED, Level, serving

ANY_PARTITION = blank(PartitionSpec)
OUT_OF_SCOPE = Failure("topology-scope-unsatisfied", Status.LATER, "Insufficient Topology Scoped GPU Devices")


class Option(Struct, frozen=True):
    """GPUs; the first of them that are needed may be allocated."""

    minors: tuple[int, ...]
    whole: bool = False
    """A partition: all GPUs or none."""
    open_end: bool = False
    """More GPUs than needed may be allocated."""


class Options(Struct, frozen=True):
    """All options. An earlier tier is better than a later one, whatever devices of other types are near."""

    tiers: tuple[tuple[Option, ...], ...]
    template: str = ""


def gpu_options(at: Attempt, needed: Instance) -> Options | Failure:
    """All options; at least one."""
    template = _template(at)
    if isinstance(template, Failure):
        return template
    tiers: list[tuple[Option, ...]] = []
    if not template and not needed.shared:
        found = _partitions(at, needed)
        if isinstance(found, Failure):
            if _only_partitions(at):
                return found
        else:
            tiers = found
            if _only_partitions(at):
                return Options(tuple(tiers))
    rest = _by_topology(at, needed)
    if not isinstance(rest, Failure):
        tiers.append(rest)
    elif not tiers:
        return rest
    return Options(tuple(tiers), template)


def gpu_grants(minors: tuple[int, ...], needed: Instance, template: str) -> tuple[Grant, ...]:
    """The grants for GPUs."""
    return tuple(Grant(minor, needed.each, (), template) for minor in minors)


def _template(at: Attempt) -> str | Failure:
    """The template for a part of a GPU; "" for none."""
    if at.demand.templates is None:
        return ""
    names = at.demand.templates.get(f"{at.machine.vendor}-{at.machine.model}", ())
    if not names:
        message = "no matched GPU shared resource template"
        return Failure("no-matching-share-template", Status.NEVER, message)
    return names[0] if len(names) == 1 else ""


def _only_partitions(at: Attempt) -> bool:
    """Whether only GPUs of listed partitions can be allocated.

    In the release any partition spec requires this. In the proposal only the Restricted policy or a bandwidth
    does.
    """
    return at.machine.honors_partitions or partitions_alone(at.demand.partition, upstream=at.rules.upstream)


def partitions_alone(spec: PartitionSpec | None, *, upstream: bool) -> bool:
    """Whether a pod accepts only listed partitions."""
    if spec is None:
        return False
    return upstream or spec.allocate_policy == RESTRICTED or spec.ring_bus_bandwidth is not None


def _partitions(at: Attempt, needed: Instance) -> list[tuple[Option, ...]] | Failure:
    table = at.machine.partitions
    if table is None:
        message = "node(s) missing GPU Partition Table"
        return Failure("partition-table-missing", Status.NEVER, message)
    if not len(table.rows(needed.count)):
        message = "node(s) Unsupported number of GPU requests"
        return Failure("partition-size-unsupported", Status.NEVER, message)
    free = at.free[GPU]
    healthy = {minor for minor, shares in at.machine.capacity[GPU].items() if any_left(shares)}
    in_view = healthy & free.keys()
    if not at.rules.upstream:
        in_view = {minor for minor in in_view if fits(needed.each, free[minor])}
    among = Candidates(used=at.used_gpus, healthy=healthy, usable=in_view)
    spec = at.demand.partition or ANY_PARTITION
    found = choices(table, needed.count, spec, among, at.rules.semantics)
    if not found:
        return Failure("no-feasible-partition", Status.LATER, "Insufficient Partitioned GPU Devices")
    return [tuple(Option(minors, whole=True) for minors in equal) for equal in found]


def _by_topology(at: Attempt, needed: Instance) -> tuple[Option, ...] | Failure:
    required = REQUIRED.get(at.demand.hint(GPU).required_topology_scope, Level.NONE)
    several_parts = needed.shared and needed.count > 1
    if several_parts and required:
        message = "node(s) Unsupported Multi-Shared GPU"
        return Failure("multi-share-with-required-scope", Status.NEVER, message)
    if at.machine.tree is None and required:
        return Failure("topology-missing", Status.NEVER, "node(s) missing GPU Topology Tree")
    if at.machine.tree is None or several_parts:
        minors = tuple(grant.minor for grant in usable(at, GPU, needed))
        return (Option(minors, open_end=True),) if len(minors) >= needed.count else insufficient(GPU)
    free = at.free[GPU]
    fitting = {minor for minor, shares in free.items() if any_left(shares) and fits(needed.each, shares)}
    found = serving(
        at.machine.tree,
        needed.count,
        fitting,
        at.used_gpus,
        required=required,
        score=(lambda minor: _tree_score(at, minor, needed)) if needed.shared else None,
    )
    if found:
        return tuple(Option(scope.minors) for scope in found)
    if required:
        return OUT_OF_SCOPE
    return Failure(f"insufficient-devices:{GPU}", Status.LATER, "Insufficient GPU Devices")


def _tree_score(at: Attempt, minor: int, needed: Instance) -> int:
    if not at.rules.upstream:
        return score_of(at, GPU, minor, needed)
    # The release swaps total and free here.
    return device_score(at.rules.scoring, needed.each, at.free[GPU][minor], at.total[GPU][minor])
