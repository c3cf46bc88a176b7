"""The candidate devices of one machine for one pod (KOO-10)."""

from collections.abc import Mapping

from msgspec import Struct, field

from reconciler.allocation.koordinator.demand import Demand
from reconciler.api.koordinator.amounts import NOTHING, Shares, any_left, least, minus
from reconciler.api.koordinator.names import GPU
from reconciler.state.koordinator.exclusion import excluded_minors
from reconciler.state.koordinator.holdings import Allocation, Holdings
from reconciler.state.koordinator.machine import Machine
from reconciler.state.koordinator.rules import Rules

ByMinor = Mapping[int, Shares]


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
    rules: Rules
    takeover: Takeover
    free: Mapping[str, ByMinor]
    """Device type -> candidate minor -> free shares."""
    total: Mapping[str, ByMinor]
    used_gpus: frozenset[int]
    """GPUs of which any part is allocated, candidates or not."""


def attempt(
    demand: Demand, machine: Machine, holdings: Holdings, rules: Rules, takeover: Takeover
) -> Attempt:
    """Compute the candidate devices of a machine for a pod."""
    free: dict[str, ByMinor] = {}
    total: dict[str, ByMinor] = {}
    for kind in demand.requests:
        free[kind], total[kind] = _in_view(kind, demand, machine, holdings, rules, takeover)
    seen = total.get(GPU, {})
    used = {minor for minor in holdings.used.get(GPU, {}) if minor not in seen}
    used |= {
        minor for minor, shares in seen.items() if any_left(minus(shares, free[GPU].get(minor, NOTHING)))
    }
    return Attempt(demand, machine, holdings, rules, takeover, free, total, frozenset(used))


def node_free(kind: str, machine: Machine, holdings: Holdings, preemptible: ByMinor) -> dict[int, Shares]:
    """Minor -> free shares, including preemptible ones."""
    used = holdings.used.get(kind, {})
    found: dict[int, Shares] = {}
    for minor, capacity in machine.capacity.get(kind, {}).items():
        taken = used.get(minor, NOTHING)
        found[minor] = minus(capacity, minus(taken, preemptible.get(minor, NOTHING)))
    return found


def _in_view(
    kind: str, demand: Demand, machine: Machine, holdings: Holdings, rules: Rules, takeover: Takeover
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
        free = {minor: least(free[minor], required[minor]) for minor in minors}
    free = {minor: free[minor] for minor in sorted(minors)}
    if not any(map(any_left, free.values())):
        return {}, {}
    return free, {minor: capacity[minor] for minor in free}
