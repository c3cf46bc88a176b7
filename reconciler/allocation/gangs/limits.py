"""How many members of a gang fit on each node and in each domain, at most. By counts: sound, not tight.

Proves early that a domain is too small. Tested against exhaustive search. Source: GANG-9.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct

from kernels.bounds import UNLIMITED, apart, devices_of_sets, most_with, per_domain, room_for
from kernels.groups import distinct, group_code, group_min
from kernels.types import Amounts, Codes, Mask
from reconciler.allocation.dra.availability import Available, available
from reconciler.allocation.dra.constraints import nodes_with_a_value
from reconciler.allocation.dra.request_options import MAX_RESULTS, RequestKey, RequestOption
from reconciler.allocation.gangs.kinds import Kind
from reconciler.allocation.placement.device_room import devices_take
from reconciler.api.objects.quantity import INT64_MAX
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.room import DeviceShare, Wanted, demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.device_shares import ClaimUse
from reconciler.state.pods.terms import anti_affinity_of, ports_of


class Supply(Struct, frozen=True, eq=False):
    """Devices for the options of one key."""

    option: RequestOption
    local: Amounts
    """(N,) by place in the topology's order: devices that only this node reaches"""
    far: int
    """Devices that several nodes reach"""


class Limits:
    """N places, K kinds. Valid for one state; tightens as members are placed."""

    def __init__(
        self,
        kinds: Sequence[Kind],
        allowed: Sequence[Mask],
        devices: Mask | None,
        nodes: Nodes,
        snapshot: Snapshot,
    ) -> None:
        """`allowed` are (N,) masks, one for each kind. `devices` (D,) may be used; None for all."""
        self._kinds, self._nodes, self._snapshot = kinds, nodes, snapshot
        self._order = snapshot.topology.order
        self.needs = [needs_of(_countable(kind, snapshot)) for kind in kinds]
        """Of each kind: key -> devices that each member needs. Only requests that can be counted"""
        self._alike = Counter({kind.like: 0 for kind in kinds})
        """Members of all kinds that are alike but for their group"""
        for kind in kinds:
            self._alike[kind.like] += len(kind.members)
        self._wanted = [_least_wanted(kind, snapshot) for kind in kinds]
        self.supplies: dict[RequestKey, Supply] = {}
        for kind in kinds:
            for option in _countable(kind, snapshot):
                if option.key not in self.supplies:
                    self.supplies[option.key] = _supply(option, devices, snapshot)
        waived = frozenset[str]().union(*(kind.waived for kind in kinds))
        self._free: Amounts = nodes.in_order(nodes.room.free(waived, but=()).T, self._order).T
        self.each = np.stack([self._places(kind, mask) for kind, mask in zip(kinds, allowed, strict=True)])
        """(K, N) members of each kind that fit on each node"""

    def _places(self, kind: Kind, allowed: Mask) -> Amounts:
        among = allowed.copy()
        if kind.error is not None:
            among[:] = False
        if kind.shape is not None and kind.error is None:
            node_filter = kind.shape.node_filter
            node_filter.follow(self._snapshot)
            among &= node_filter.open
            valued = nodes_with_a_value(kind.shape.match_groups(self._snapshot), self._snapshot)
            if valued is not None:
                codes = np.maximum(self._snapshot.topology.order_codes, -1)
                among &= valued[codes] | node_filter.failing
        each = room_for(self._free, self._nodes.room.vector(self._wanted[kind.number]), among)
        for key, need in self.needs[kind.number].items():
            supply = self.supplies[key]
            np.minimum(each, (supply.local + supply.far) // need, out=each)
        np.minimum(each, 1 if ports_of(kind.pod) else self._alike[kind.like], out=each)
        return each

    def in_domains(self, codes: Codes, size: int, numbers: Amounts) -> Amounts:
        """(G,) members that fit into each domain. `numbers` (K,) are those that have no place yet."""
        total = np.zeros(size, dtype=np.int64)
        for kind, number in zip(self._kinds, numbers.tolist(), strict=True):
            total += np.minimum(self._of_kind(kind, codes, size), number)
        if len(self._kinds) > 1:
            for supply, needs in self._joint(codes, size):
                most = np.repeat(needs, numbers)
                np.minimum(total, most_with(supply, most), out=total)
        return total

    def _of_kind(self, kind: Kind, codes: Codes, size: int) -> Amounts:
        each = self.each[kind.number]
        for groups in self._excluding(kind):
            each = apart(each, codes, groups)
        found = per_domain(each, codes, size)
        for key, need in self.needs[kind.number].items():
            supply = self.supplies[key]
            if supply.far:
                found = np.minimum(found, (per_domain(supply.local, codes, size) + supply.far) // need)
        return found

    def _excluding(self, kind: Kind) -> Iterable[Codes]:
        """(N,) the domains of which each may have one member, for the pod's anti-affinity to its like."""
        if kind.pod.spec.affinity is None:
            return
        labels_of = self._nodes.residents.namespaces.labels_of
        pod = kind.pod
        for term in anti_affinity_of(pod):
            if term.matches(pod.key.namespace, pod.metadata.labels, labels_of):
                yield self._codes(term.topology_key)

    def _codes(self, key: str) -> Codes:
        return self._nodes.in_order(self._nodes.labels.codes(key)[0], self._order)

    def _joint(self, codes: Codes, size: int) -> Iterable[tuple[Amounts, Amounts]]:
        """(G,) what each domain has, and (K,) what a member of each kind needs of it."""
        for key, supply in self.supplies.items():
            # No node has more, and sums of counts that users made up must not overflow.
            needs = np.array([min(of_kind.get(key, 0), UNLIMITED) for of_kind in self.needs], dtype=np.int64)
            yield per_domain(supply.local, codes, size) + supply.far, needs
        wanted = np.stack([self._nodes.room.vector(one) for one in self._wanted])
        for r in np.flatnonzero(wanted.any(axis=0)).tolist():
            most = int(sum(wanted[kind.number, r] * len(kind.members) for kind in self._kinds))
            if most < UNLIMITED:
                yield per_domain(np.clip(self._free[r], 0, most), codes, size), wanted[:, r]

    def devices_in(self, codes: Codes, size: int) -> Amounts:
        """(G,) free devices that the gang could use; places for members if it uses none that are counted."""
        if not self.supplies:
            return per_domain(self.each.sum(axis=0), codes, size)
        found = np.zeros(size, dtype=np.int64)
        for supply in self.supplies.values():
            found += per_domain(supply.local, codes, size)
        return found

    def shortages(self, codes: Codes, domain: int, numbers: Sequence[int]) -> list[tuple[str, int]]:
        """What a domain lacks for so many members of each kind: devices by class, resources of nodes.

        Devices and resources that a node has, but too few for one more member, are of no use.
        """
        inside = codes == domain
        short: dict[str, int] = {}
        for key, supply in self.supplies.items():
            needs = [of_kind.get(key, 0) for of_kind in self.needs]
            missing = lack(supply.local[inside], needs, numbers, supply.far)
            if missing:
                name = f"devices of class {supply.option.device_class.key.name}"
                short[name] = short.get(name, 0) + missing
        for resource in dict.fromkeys(name for wanted in self._wanted for name in wanted):
            needs = [wanted.get(resource, 0) for wanted in self._wanted]
            column = self._nodes.room.vector({resource: 1})
            if not column.any():
                continue
            missing = lack(self._free[int(column.argmax())][inside], needs, numbers)
            if missing:
                short[resource] = missing
        return list(short.items())


def lack(have: Amounts, needs: Sequence[int], numbers: Sequence[int], far: int = 0) -> int:
    """How much places have too little for so many members that need so much each, kind by kind; 0 if enough.

    have (n,)  of each place, and `far` that several places reach; what is too little for one member is of no
    use, and so is what is negative
    """
    wanted = sum(need * number for need, number in zip(needs, numbers, strict=True))
    least = min((need for need in needs if need), default=0)
    if not least:
        return 0
    most = min(wanted, np.iinfo(np.int64).max)  # the oldest NumPy clips by nothing larger
    usable = int((np.clip(have, 0, most) // least).sum()) * least + far
    return max(wanted - usable, 0)


def _countable(kind: Kind, snapshot: Snapshot) -> Iterable[RequestOption]:
    """The requests of its own claims whose devices no other request can use at the same time."""
    if kind.shape is None or kind.error is not None:
        return
    for slot in kind.shape.parsed.slots:
        option = slot.options[0]
        if len(slot.options) > 1 or option.all or option.admin:
            continue
        if not (available(option, snapshot).mask & snapshot.fleet.shared).any():
            yield option


def _least_wanted(kind: Kind, snapshot: Snapshot) -> Wanted:
    """What a member takes of its node, with the least that devices for its own claims take (NAR-1)."""
    if not devices_take(snapshot) or kind.pod.status.node_allocatable_resource_claim_statuses:
        return kind.wanted
    fixed: dict[str, int] = {}
    for option in _countable(kind, snapshot):
        codes = distinct(snapshot.fleet.codes["mapped"][available(option, snapshot).mask]).tolist()
        found = [ClaimUse.empty() for _ in codes]
        for code, use in zip(codes, found, strict=True):
            use.add(snapshot.fleet.vocabulary.mapped.values[code] if code >= 0 else (), "", {})
        for resource in {name for use in found for name in (*use.once, *use.per_pod)}:
            least = min(use.once.get(resource, 0) + use.per_pod.get(resource, 0) for use in found)
            fixed[resource] = fixed.get(resource, 0) + min(option.source.wanted, MAX_RESULTS) * least
    return demand(kind.pod, DeviceShare(fixed, {}))


def needs_of(options: Iterable[RequestOption]) -> dict[RequestKey, int]:
    """Devices that one pod takes by each key; at most INT64_MAX, also if several requests add up to more."""
    found: dict[RequestKey, int] = {}
    for option in options:
        found[option.key] = min(found.get(option.key, 0) + option.source.wanted, INT64_MAX)
    return found


def _supply(option: RequestOption, devices: Mask | None, snapshot: Snapshot) -> Supply:
    current = available(option, snapshot)
    fleet = snapshot.fleet
    if devices is None and current.local:
        per_node, far = current.per_node, 0
    else:
        rows = np.flatnonzero(current.mask if devices is None else current.mask & devices)
        nodes = fleet.codes["node"][rows]
        per_node = np.bincount(nodes[nodes >= 0], minlength=len(fleet.vocabulary.nodes.values) + 1)
        far = int(np.count_nonzero(nodes < 0))
    if fleet.sets.shape[1] and not far:
        per_node = np.minimum(per_node, _by_counters(current, devices, snapshot, len(per_node)))
    return Supply(option, per_node[np.maximum(snapshot.topology.order_codes, -1)], far)


def _by_counters(current: Available, devices: Mask | None, snapshot: Snapshot, size: int) -> Amounts:
    """(size,) devices of each node that the counters suffice for, if all are as modest as the most modest."""
    fleet, unlimited = snapshot.fleet, np.full(size, UNLIMITED, dtype=np.int64)
    rows = np.flatnonzero(current.mask if devices is None else current.mask & devices)
    if (fleet.sets[rows, 1:] >= 0).any() or snapshot.occupancy.consumed:
        return unlimited
    sets, nodes = fleet.sets[rows, 0], fleet.codes["node"][rows]
    drawing = sets >= 0
    sets, at = sets[drawing].astype(np.intp), nodes[drawing]
    number = len(fleet.totals)
    node_of_set = group_code(at, sets, number)
    if (node_of_set[sets] < 0).any():
        return unlimited
    least = group_min(fleet.table[fleet.draws[rows[drawing], 0]], sets, number)
    used = distinct(sets)
    most = devices_of_sets(
        snapshot.occupancy.left[used], least[used], np.bincount(sets, minlength=number)[used].astype(np.int64)
    )
    found = np.bincount(nodes[~drawing], minlength=size).astype(np.int64)
    np.add.at(found, node_of_set[used], most)
    return found
