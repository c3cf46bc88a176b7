"""The candidate devices of one machine for one pod (KOO-10), and the choice among them.

The default choice takes the best devices first, each considered alone (KOO-12). GPUs are chosen by
partition, else by topology, else alone (KOO-14).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, zip_longest
from typing import NamedTuple

from msgspec import Struct, field

from reconciler.plugins.koordinator import vocabulary as koord
from reconciler.plugins.koordinator.annotations import RESTRICTED, PartitionSpec
from reconciler.plugins.koordinator.demand import Demand, Failure, Instance, Status, insufficient
from reconciler.plugins.koordinator.holdings import Allocation, Grant, Holdings, excluded_minors
from reconciler.plugins.koordinator.machine import REQUIRED, Level, Machine, serving
from reconciler.plugins.koordinator.partitions import Candidates, broken_by, choices

ByMinor = Mapping[int, koord.Shares]


class Takeover(Struct, frozen=True):
    """Shares of other holders that a pod may have, and devices that it must have or prefers."""

    preemptible: Mapping[str, ByMinor] = field(default_factory=dict)
    """Shares of holders that would be preempted."""
    designated: Allocation | None = None
    """The only devices, amounts and virtual functions that the pod may be given."""
    preferred: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Minors to try first, such as those of a reservation."""


class Attempt(Struct, frozen=True):
    """One pod on one machine: all inputs of a choice. Immutable."""

    demand: Demand
    machine: Machine
    holdings: Holdings
    rules: koord.Rules
    takeover: Takeover
    free: Mapping[str, ByMinor]
    """Device type -> candidate minor -> free shares."""
    total: Mapping[str, ByMinor]
    used_gpus: frozenset[int]
    """GPUs of which any part is allocated, candidates or not."""


def attempt(
    demand: Demand, machine: Machine, holdings: Holdings, rules: koord.Rules, takeover: Takeover
) -> Attempt:
    """Compute the candidate devices of a machine for a pod."""
    free: dict[str, ByMinor] = {}
    total: dict[str, ByMinor] = {}
    for kind in demand.requests:
        free[kind], total[kind] = _in_view(kind, demand, machine, holdings, rules, takeover)
    seen = total.get(koord.GPU, {})
    used = {minor for minor in holdings.used.get(koord.GPU, {}) if minor not in seen}
    used |= {
        minor
        for minor, shares in seen.items()
        if koord.any_left(koord.minus(shares, free[koord.GPU].get(minor, koord.NOTHING)))
    }
    return Attempt(demand, machine, holdings, rules, takeover, free, total, frozenset(used))


def node_free(
    kind: str, machine: Machine, holdings: Holdings, preemptible: ByMinor
) -> dict[int, koord.Shares]:
    """Minor -> free shares, including preemptible ones."""
    used = holdings.used.get(kind, {})
    found: dict[int, koord.Shares] = {}
    for minor, capacity in machine.capacity.get(kind, {}).items():
        taken = used.get(minor, koord.NOTHING)
        found[minor] = koord.minus(capacity, koord.minus(taken, preemptible.get(minor, koord.NOTHING)))
    return found


def _in_view(
    kind: str, demand: Demand, machine: Machine, holdings: Holdings, rules: koord.Rules, takeover: Takeover
) -> tuple[ByMinor, ByMinor]:
    hint = demand.hint(kind)
    capacity = machine.capacity.get(kind, {})
    preemptible = takeover.preemptible.get(kind, {})
    free = node_free(kind, machine, holdings, preemptible)
    minors = set(free)
    if hint.selector is not None:
        devices = machine.devices.get(kind, {})
        minors = {minor for minor in minors if hint.selector.matches(devices[minor].labels)}
    if not rules.upstream:
        given_up = {m for m in preemptible if free.get(m) == capacity.get(m)}
        minors -= excluded_minors(kind, hint, machine, holdings, given_up)
    if takeover.designated is not None:
        required = {grant.minor: grant.shares for grant in takeover.designated.get(kind, ())}
        minors &= required.keys()
        free = {minor: koord.least(free[minor], required[minor]) for minor in minors}
    free = {minor: free[minor] for minor in sorted(minors)}
    if not any(map(koord.any_left, free.values())):
        return {}, {}
    return free, {minor: capacity[minor] for minor in free}


class Ranked(NamedTuple):
    """A device in a ranking."""

    minor: int
    score: int = 0
    pcie: str | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Higher scores first, then lower minors."""
        return -self.score, self.minor


def rank(
    devices: Iterable[Ranked], preferred: Collection[int] = (), pcies: Collection[str] = ()
) -> list[Ranked]:
    """Devices in the order in which they are tried.

    Preferred minors come first and make switches irrelevant. Otherwise preferred switches give one
    device each, then a second one each, and so on, before any other device is looked at.
    """
    ordered = sorted(devices, key=lambda device: device.order)
    if preferred:
        return sorted(ordered, key=lambda device: device.minor not in preferred)
    near: dict[str, list[Ranked]] = {}
    far: list[Ranked] = []
    for device in ordered:
        if device.pcie is not None and device.pcie in pcies:
            near.setdefault(device.pcie, []).append(device)
        else:
            far.append(device)
    rounds = (filter(None, turn) for turn in zip_longest(*near.values()))
    return [*chain.from_iterable(sorted(turn, key=lambda d: d.order) for turn in rounds), *far]


def choose(
    at: Attempt, kind: str, needed: Instance, *, limit: int = 0, pcies: Collection[str] = ()
) -> tuple[Grant, ...] | Failure:
    """The best devices: as many as needed, and up to `limit` if more are usable."""
    chosen: list[Grant] = []
    for grant in usable(at, kind, needed, pcies):
        if len(chosen) >= max(needed.count, limit):
            break
        chosen.append(grant)
    return tuple(chosen) if len(chosen) >= needed.count else insufficient(kind)


def usable(at: Attempt, kind: str, needed: Instance, pcies: Collection[str] = ()) -> Iterator[Grant]:
    """Every device of a type that can be allocated, the best first."""
    devices = [Ranked(m, score_of(at, kind, m, needed), at.machine.pcie(kind, m)) for m in at.free[kind]]
    for device in rank(devices, at.takeover.preferred.get(kind, ()), pcies):
        if (grant := grant_of(at, kind, device.minor, needed)) is not None:
            yield grant


def score_of(at: Attempt, kind: str, minor: int, needed: Instance) -> int:
    """The score of a candidate device."""
    return koord.device_score(at.rules.scoring, needed.each, at.total[kind][minor], at.free[kind][minor])


def grant_of(at: Attempt, kind: str, minor: int, needed: Instance) -> Grant | None:
    """The grant for one candidate device; None if the device does not fit."""
    free = at.free[kind][minor]
    if not koord.any_left(free) or not koord.fits(needed.each, free):
        return None
    if at.demand.hint(kind).vf_selector is None:
        return Grant(minor, needed.each)
    vf = free_vf(at, kind, minor)
    return None if vf is None else Grant(minor, needed.each, (vf,))


def free_vf(at: Attempt, kind: str, minor: int) -> koord.VirtualFunction | None:
    """The virtual function to allocate: the free matching one with the lowest bus id, compared as text."""
    selector = at.demand.hint(kind).vf_selector
    named = _designated_vfs(at, kind).get(minor)
    free = (
        vf
        for group in at.machine.devices[kind][minor].vf_groups
        if selector is None or selector.matches(group.labels)
        for vf in group.vfs
        if not at.holdings.vf_taken(kind, minor, vf.bus_id) and (not named or vf.bus_id in named)
    )
    return min(free, key=lambda vf: vf.bus_id, default=None)


def _designated_vfs(at: Attempt, kind: str) -> Mapping[int, set[str]]:
    given = at.takeover.designated or {}
    return {grant.minor: {vf.bus_id for vf in grant.vfs} for grant in given.get(kind, ())}


ANY_PARTITION = PartitionSpec.model_construct()
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
    return at.machine.honors_partitions or partitions_alone(at.demand)


def partitions_alone(demand: Demand) -> bool:
    """Whether a pod accepts only listed partitions."""
    spec = demand.partition
    if spec is None:
        return False
    return demand.upstream or spec.allocate_policy == RESTRICTED or spec.ring_bus_bandwidth is not None


def _partitions(at: Attempt, needed: Instance) -> list[tuple[Option, ...]] | Failure:
    table = at.machine.partitions
    if table is None:
        message = "node(s) missing GPU Partition Table"
        return Failure("partition-table-missing", Status.NEVER, message)
    if not len(table.rows(needed.count)):
        message = "node(s) Unsupported number of GPU requests"
        return Failure("partition-size-unsupported", Status.NEVER, message)
    free = at.free[koord.GPU]
    healthy = {minor for minor, shares in at.machine.capacity[koord.GPU].items() if koord.any_left(shares)}
    in_view = healthy & free.keys()
    if not at.rules.upstream:
        in_view = {minor for minor in in_view if koord.fits(needed.each, free[minor])}
    among = Candidates(used=at.used_gpus, healthy=healthy, usable=in_view)
    spec = at.demand.partition or ANY_PARTITION
    found = choices(table, needed.count, spec, among, at.rules.semantics)
    if not found:
        return Failure("no-feasible-partition", Status.LATER, "Insufficient Partitioned GPU Devices")
    return [tuple(Option(minors, whole=True) for minors in equal) for equal in found]


def _by_topology(at: Attempt, needed: Instance) -> tuple[Option, ...] | Failure:
    required = REQUIRED.get(at.demand.hint(koord.GPU).required_topology_scope, Level.NONE)
    several_parts = needed.shared and needed.count > 1
    if several_parts and required:
        message = "node(s) Unsupported Multi-Shared GPU"
        return Failure("multi-share-with-required-scope", Status.NEVER, message)
    if at.machine.tree is None and required:
        return Failure("topology-missing", Status.NEVER, "node(s) missing GPU Topology Tree")
    broken = _broken(at, needed)
    if at.machine.tree is None or several_parts:
        minors = tuple(grant.minor for grant in usable(at, koord.GPU, needed))
        if broken:
            minors = tuple(sorted(minors, key=lambda minor: broken.get(minor, ())))
        return (Option(minors, open_end=True),) if len(minors) >= needed.count else insufficient(koord.GPU)
    free = at.free[koord.GPU]
    fitting = {
        minor for minor, shares in free.items() if koord.any_left(shares) and koord.fits(needed.each, shares)
    }
    least = min((broken[minor] for minor in fitting if minor in broken), default=())
    found = [
        scope
        for among in dict.fromkeys(
            (frozenset(m for m in fitting if not broken or broken.get(m) == least), frozenset(fitting))
        )
        for scope in serving(
            at.machine.tree,
            needed.count,
            among,
            at.used_gpus,
            required=required,
            score=(lambda minor: _tree_score(at, minor, needed)) if needed.shared else None,
        )
    ]
    if found:
        return tuple(Option(scope.minors) for scope in found)
    if required:
        return OUT_OF_SCOPE
    return Failure(f"insufficient-devices:{koord.GPU}", Status.LATER, "Insufficient GPU Devices")


def _broken(at: Attempt, needed: Instance) -> Mapping[int, tuple[int, ...]]:
    """GPU -> the free partitions that a part of it would break; empty where that does not matter (KOO-16)."""
    if at.rules.upstream or not needed.shared or at.machine.partitions is None:
        return {}
    healthy = {minor for minor, shares in at.machine.capacity[koord.GPU].items() if koord.any_left(shares)}
    return broken_by(at.machine.partitions, Candidates(at.used_gpus, healthy, at.free[koord.GPU]))


def _tree_score(at: Attempt, minor: int, needed: Instance) -> int:
    if not at.rules.upstream:
        return score_of(at, koord.GPU, minor, needed)
    # The release swaps total and free here.
    return koord.device_score(
        at.rules.scoring, needed.each, at.free[koord.GPU][minor], at.total[koord.GPU][minor]
    )
