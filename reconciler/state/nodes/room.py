"""What pods request, what nodes offer, and what their pods and nominations take: columns updated pod by pod.

Requests are computed as in kube-scheduler: sidecars, init containers, overhead.
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Container as AbstractContainer
from functools import reduce
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.fit import shortages
from kernels.types import Amounts, Mask
from reconciler.api.objects.core import Container, ContainerStatus, Pod, PodStatus
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.quantity import NANO, Quantity
from reconciler.state.caches import Forkable
from reconciler.state.nodes.labels import widened
from reconciler.state.nominations import Nomination, Nominee, own_of

CPU = "cpu"
PODS = "pods"
"""Every pod takes one of this resource."""

MOST = 2**62 - 1
"""The largest amount. The difference of two amounts then fits in 64 bits."""

_MILLI = NANO // 1000
_ALWAYS = "Always"
_HUGE_PAGES = "hugepages-"

Nanos = dict[str, int]


class DeviceShare(Struct, frozen=True):
    """What a pod takes of its node for the devices of its claims, beside what it requests (NAR-2, NAR-3)."""

    fixed: Nanos
    """For as long as the pod runs"""
    per_container: Mapping[str, Nanos]
    """Name of a container -> while it runs"""


_NO_SHARE = DeviceShare({}, {})


def demand(pod: Pod, share: DeviceShare | None = None) -> dict[str, int]:
    """Resource -> amount that the pod takes. Zero amounts are left out.

    Amounts are whole numbers: thousandths of a CPU, otherwise the unit of the resource. As upstream, the
    total is rounded up, not its parts. Resources of the pod as a whole include those of its devices.
    """
    spec = pod.spec
    total = _in_containers(pod, share or _NO_SHARE)
    if spec.resources is not None:
        whole = _in_effect(_nanos(spec.resources.requests), pod.status)
        total = total | {name: much for name, much in whole.items() if _for_whole_pods(name)}
    if spec.overhead:
        total = _sum(total, _nanos(spec.overhead))
    found = {name: amount(name, nanos) for name, nanos in total.items() if nanos > 0}
    found[PODS] = 1
    return found


def beyond_budget(pod: Pod, share: DeviceShare) -> str:
    """A resource of which containers and devices need more than the pod requests as a whole; else empty."""
    if pod.spec.resources is None:
        return ""
    needed = _in_containers(pod, share)
    budget = {
        name: nanos for name, nanos in _nanos(pod.spec.resources.requests).items() if _for_whole_pods(name)
    }
    return next((name for name, nanos in budget.items() if needed.get(name, 0) > nanos), "")


def _in_containers(pod: Pod, share: DeviceShare) -> Nanos:
    """Resource -> billionths of all containers of a pod and its devices."""
    spec, status = pod.spec, pod.status
    running = reduce(_sum, _each(spec.containers, status.container_statuses, share), share.fixed)
    if not spec.init_containers:  # most pods
        return running
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container, asked in zip(
        spec.init_containers, _each(spec.init_containers, status.init_container_statuses, share), strict=True
    ):
        # Init containers run one after another; sidecars that started earlier keep running.
        starting = _sum(sidecars, asked)
        if container.restart_policy == _ALWAYS:
            sidecars = starting
        peak = _most(peak, starting)
    return _most(_sum(running, sidecars), _sum(peak, share.fixed))


def amount(resource: str, nanos: int) -> int:
    """Billionths as a whole number of the resource's unit, rounded up."""
    return max(min(-(-nanos // (_MILLI if resource == CPU else NANO)), MOST), 0)


def amounts(resources: Mapping[str, Quantity]) -> dict[str, int]:
    """Resource -> amount that a node offers."""
    return {name: amount(name, quantity.nanos) for name, quantity in resources.items()}


def _each(
    containers: Iterable[Container], statuses: Iterable[ContainerStatus], share: DeviceShare
) -> list[Nanos]:
    now = {status.name: status for status in statuses}
    return [
        _asked(container, now.get(container.name), share.per_container.get(container.name))
        for container in containers
    ]


def _asked(container: Container, now: ContainerStatus | None, more: Nanos | None) -> Nanos:
    """The largest of requested, actual and allocated resources: they differ during a resize.

    `more` is for its devices. What is actual has it.
    """
    asked = _nanos({**container.resources.limits, **container.resources.requests})
    if more is None:
        return asked if now is None else _in_effect(asked, now)
    allocated = {} if now is None else _nanos(now.allocated_resources)
    actual = _nanos(now.resources.requests) if now is not None and now.resources is not None else {}
    return _most(_sum(_most(asked, allocated), more), actual)


def _in_effect(asked: Nanos, now: ContainerStatus | PodStatus) -> Nanos:
    has = _nanos(now.resources.requests) if now.resources is not None else {}
    return _most(_most(asked, has), _nanos(now.allocated_resources))


def _for_whole_pods(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith(_HUGE_PAGES)


def _nanos(resources: Mapping[str, Quantity]) -> Nanos:
    return {name: quantity.nanos for name, quantity in resources.items()}


def _sum(one: Nanos, other: Nanos) -> Nanos:
    if not (one and other):
        return one or other
    return {name: one.get(name, 0) + other.get(name, 0) for name in one | other}


def _most(one: Nanos, other: Nanos) -> Nanos:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


Wanted = Mapping[str, int]


class Charge(NamedTuple):
    """What one pod takes, and on which node."""

    node: str
    amounts: Wanted


class Room(Forkable):
    """R resources by N rows of nodes. A resource has a column if some node offers it.

    Sums are kept by node name as unbounded integers: a pod may arrive before its node, and releasing a charge
    restores the exact value. The columns hold the sums capped at `MOST`.
    """

    def __init__(self, rows: Mapping[str, int]) -> None:
        """`rows` are the rows of nodes by name; the owner keeps them up to date."""
        self._resources: dict[str, int] = {}
        self._total: Amounts = np.zeros((0, 0), dtype=np.int64)
        self._used: Amounts = np.zeros((0, 0), dtype=np.int64)
        self._unknown: Mask = np.zeros(0, dtype=np.bool_)
        self._size = 0
        self.serial = 0
        """Number of changes so far, of offers and of charges"""
        self._rows = rows
        self._sums: dict[str, dict[str, int]] = {}
        self._charges: dict[ObjectKey, Charge] = {}

    def put(self, row: int, node: str, offered: Wanted) -> None:
        """Set what a node offers. The row is an existing one or the next one.

        A node that reports nothing yet has room for every pod.
        """
        if row == self._size:
            self._size += 1
            self._total, self._used = widened(self._total, self._size), widened(self._used, self._size)
            self._unknown = widened(self._unknown, self._size)
        for name in offered:
            if name not in self._resources:
                self._add(name)
        self._total[:, row] = [offered.get(name, 0) for name in self._resources]
        self._unknown[row] = not offered
        if node in self._sums:
            self._write(node, self._resources)
        self.serial += 1

    def drop(self, row: int) -> None:
        """Remove a node. The charges of its pods stay, since the node may come back before they end."""
        self.serial += 1
        self._total[:, row] = self._used[:, row] = 0
        self._unknown[row] = False

    def charge(self, pod: ObjectKey, charge: Charge | None) -> bool:
        """Replace the charge of a pod; return whether a node has more room now."""
        before = self._charges.get(pod)
        if before == charge:
            return False
        self.serial += 1
        if before is not None:
            del self._charges[pod]
            self._add_to(before, -1)
        if charge is not None:
            self._charges[pod] = charge
            self._add_to(charge, 1)
        return before is not None and (
            charge is None
            or charge.node != before.node
            or any(charge.amounts.get(name, 0) < taken for name, taken in before.amounts.items())
        )

    def charged(self, pod: ObjectKey) -> Charge | None:
        """The charge of a pod, if it has one."""
        return self._charges.get(pod)

    def on(self, node: str) -> dict[ObjectKey, Charge]:
        """The charges on a node. Looks at all charges."""
        return {pod: charge for pod, charge in self._charges.items() if charge.node == node}

    def fits(self, wanted: Wanted, waived: frozenset[str], *, but: Collection[ObjectKey]) -> Mask:
        """(N,) rows with room for a pod, not counting the charges of the pods `but`."""
        amounts, absent = self._vector(wanted, waived)
        unknown = self._unknown[: self._size]
        if absent:
            return unknown.copy()
        total, used = self._columns(but)
        return ~shortages(total, used, amounts, self._waive(waived)).any(axis=0) | unknown

    def short_of(
        self, wanted: Wanted, waived: frozenset[str], *, but: Collection[ObjectKey]
    ) -> dict[str, Mask]:
        """Resource -> (N,) rows with too little of it for a pod."""
        amounts, absent = self._vector(wanted, waived)
        judged = ~self._unknown[: self._size]
        total, used = self._columns(but)
        found = shortages(total, used, amounts, self._waive(waived))
        short = {name: found[r] & judged for name, r in self._resources.items() if found[r].any()}
        return short | dict.fromkeys(absent, judged)

    def holds(self, row: int, wanted: Wanted, waived: frozenset[str]) -> bool:
        """Whether one row has room for a pod: `fits` for a single node, quickly."""
        if self._unknown[row]:
            return True
        for name, amount in wanted.items():
            r = self._resources.get(name)
            if r is None:
                if name in waived:
                    continue
                return False
            total = self._total[r, row]
            if total - self._used[r, row] < amount and not (name in waived and not total):
                return False
        return True

    def free(self, waived: frozenset[str], *, but: Collection[ObjectKey]) -> Amounts:
        """(R, N) what is left of each resource, at most `MOST`; all of it at nodes that are not tested.

        A waived resource is not tested at nodes that do not offer it.
        """
        total, used = self._columns(but)
        found = total - used
        found[:, self._unknown[: self._size]] = MOST
        found[self._waive(waived)[:, None] & (total == 0)] = MOST
        return found

    def by_name(
        self, resources: Iterable[str], *, but: Collection[ObjectKey]
    ) -> tuple[dict[str, Amounts], dict[str, Amounts]]:
        """Resource -> (N,) what nodes offer, and what is left of it, without the charges of the pods `but`.

        `MOST` at nodes that are not tested; 0 of a resource that no node offers.
        """
        total, _ = self._columns(())
        free, unknown = self.free(frozenset(), but=but), self._unknown[: self._size]
        none = np.where(unknown, MOST, 0)
        rows = {name: self._resources.get(name) for name in resources}
        offered = {name: none if r is None else np.where(unknown, MOST, total[r]) for name, r in rows.items()}
        return offered, {name: none if r is None else free[r] for name, r in rows.items()}

    def vector(self, wanted: Wanted) -> Amounts:
        """(R,) amounts, in the order of `free`; resources that no node offers are left out."""
        return self._vector(wanted, frozenset())[0]

    def left(self, node: str, resource: str) -> int:
        """What is left of a resource on a node; negative if it is overcommitted."""
        r, row = self._resources.get(resource), self._rows.get(node)
        return 0 if r is None or row is None else int(self._total[r, row] - self._used[r, row])

    def _vector(self, wanted: Wanted, waived: frozenset[str]) -> tuple[Amounts, list[str]]:
        """(R,) amounts, and the wanted resources that no node offers."""
        amounts = np.array([wanted.get(name, 0) for name in self._resources], dtype=np.int64)
        return amounts, [name for name in wanted if name not in self._resources and name not in waived]

    def _waive(self, waived: frozenset[str]) -> Mask:
        return np.array([name in waived for name in self._resources], dtype=np.bool_)

    def _columns(self, but: Collection[ObjectKey]) -> tuple[Amounts, Amounts]:
        """(R, N) what nodes offer, and what all pods but some take."""
        total, used = self._total[:, : self._size], self._used[:, : self._size]
        left_out: dict[str, dict[str, int]] = {}
        for key in but:
            own = self._charges.get(key)
            if own is not None and own.node in self._rows:
                sums = left_out.setdefault(own.node, dict(self._sums.get(own.node, {})))
                for name, taken in own.amounts.items():
                    sums[name] = sums.get(name, 0) - taken
        if left_out:
            used = used.copy()
        for node, sums in left_out.items():
            for name, r in self._resources.items():
                used[r, self._rows[node]] = min(sums.get(name, 0), MOST)
        return total, used

    def _add(self, resource: str) -> None:
        self._resources[resource] = len(self._resources)
        column = np.zeros((1, len(self._unknown)), dtype=np.int64)  # as wide as the others, spare rows too
        self._total = np.concatenate([self._total, column])
        self._used = np.concatenate([self._used, column])
        for node in self._sums:
            self._write(node, [resource])

    def _add_to(self, charge: Charge, times: int) -> None:
        """Add a charge to its node so many times; -1 removes it."""
        sums = self._sums.setdefault(charge.node, {})
        for name, taken in charge.amounts.items():
            now = sums.get(name, 0) + times * taken
            if now:
                sums[name] = now
            else:
                sums.pop(name, None)
        self._write(charge.node, charge.amounts)
        if not sums:
            del self._sums[charge.node]

    def _write(self, node: str, resources: Iterable[str]) -> None:
        row = self._rows.get(node)
        if row is None:
            return
        sums = self._sums.get(node, {})
        for name in resources:
            r = self._resources.get(name)
            if r is not None:
                self._used[r, row] = min(sums.get(name, 0), MOST)


class _Held(NamedTuple):
    holder: str
    """For people: for whom it is held, and until when"""
    charges: tuple[ObjectKey, ...]


class NominatedRoom(Forkable):
    """Charges the room of nodes for those who are nominated. False if they hold devices only."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held: dict[Nominee, _Held] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, nomination: Nomination) -> bool:
        """Hold the room of a nomination, in place of what is held for the same nominee. Returns whether a
        node has more room now.
        """
        roomier = self.end(nomination.nominee)
        keys = []
        for at, place in enumerate(nomination.places):
            if place.room:
                who = f"{nomination.nominee} {nomination.nominee.source} {at}"
                keys.append(ObjectKey("", who))  # no pod is without a namespace
                roomier |= self._room.charge(keys[-1], Charge(place.node, dict(place.room)))
        if keys:
            self._held[nomination.nominee] = _Held(str(nomination), tuple(keys))
        return roomier

    def end(self, nominee: Nominee) -> bool:
        """Hold no room for a nominee any more. Returns whether a node has more room now."""
        roomier = False
        held = self._held.pop(nominee, None)
        for key in held.charges if held is not None else ():
            roomier |= self._room.charge(key, None)
        return roomier

    def charges_of(self, own: frozenset[Nominee]) -> tuple[ObjectKey, ...]:
        """The charges that hold room for some nominees."""
        held = [self._held[nominee] for nominee in own if nominee in self._held] if self._held else ()
        return tuple(key for one in held for key in one.charges)

    def charges_of_pod(self, pod: Pod) -> tuple[ObjectKey, ...]:
        """The charges that hold room for a pod."""
        return self.charges_of(own_of(pod)) if self._held else ()

    def charges(self) -> tuple[ObjectKey, ...]:
        """All charges that hold room."""
        return tuple(key for held in self._held.values() for key in held.charges)

    def holders(
        self, resource: str, names: AbstractContainer[str], *, but: AbstractContainer[ObjectKey]
    ) -> list[str]:
        """For whom a resource of some nodes is held, and until when, without the charges `but`."""

        def counts(key: ObjectKey) -> bool:
            charge = self._room.charged(key) if key not in but else None
            return charge is not None and charge.node in names and charge.amounts.get(resource, 0) > 0

        return [held.holder for held in self._held.values() if any(map(counts, held.charges))]
