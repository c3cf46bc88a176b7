"""Units of work: pods, claims and gangs, and which unit decides about which claim."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence, Set
from enum import StrEnum
from typing import Generic, NamedTuple, Self, TypeVar

from msgspec import Struct

from reconciler.allocation.placement.order import QueueKey, queue_key
from reconciler.api.objects.core import WORKLOAD, Pod, claims_of, is_live
from reconciler.api.objects.gangs import GangKey, GangSource, gang_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.pods.groups import PodGroups
from reconciler.state.store import Store

K = TypeVar("K", bound=Hashable)


class Kind(StrEnum):
    """The kind of object that a unit is named after."""

    CLAIM = "claim"
    POD = "pod"
    GANG = "gang"
    """Gated pods of which enough run together, or none"""
    WORKLOAD = "workload"
    """What Kueue admits; one unit stands for all that wait for room"""


class Unit(NamedTuple):
    """The key of a reconcile."""

    kind: Kind
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    @classmethod
    def of(cls, pod: ObjectKey | None, claims: Sequence[ObjectKey]) -> Self:
        """That of a pod, or without one that of the first claim."""
        return cls(Kind.POD, pod) if pod is not None else cls(Kind.CLAIM, claims[0])

    @property
    def gang(self) -> GangKey:
        """The gang of a unit of that kind."""
        source, _, name = self.key.name.partition("/")
        return GangKey(self.key.namespace, GangSource(source), name)


def gang_unit(gang: GangKey) -> Unit:
    """The unit of a gang. Gangs of different sources with one name are different units."""
    return Unit(Kind.GANG, ObjectKey(gang.namespace, f"{gang.source}/{gang.name}"))


class PodIndex(Generic[K]):
    """Which pods name what, updated pod by pod."""

    def __init__(self) -> None:
        self._named: dict[ObjectKey, Collection[K]] = {}
        self._pods: dict[K, set[ObjectKey]] = {}

    @property
    def named(self) -> Set[K]:
        """All that some pod names."""
        return self._pods.keys()

    def users(self, named: K) -> Set[ObjectKey]:
        """The pods that name something."""
        return self._pods.get(named, frozenset())

    def named_by(self, pod: ObjectKey) -> Collection[K]:
        """What a pod names."""
        return self._named.get(pod, ())

    def put(self, pod: ObjectKey, named: Collection[K]) -> list[K]:
        """Set what a pod names. Returns what it no longer names."""
        gone = [one for one in self._named.pop(pod, ()) if one not in named]
        for one in gone:
            self._pods[one].discard(pod)
            if not self._pods[one]:
                del self._pods[one]
        for one in named:
            self._pods.setdefault(one, set()).add(pod)
        if named:
            self._named[pod] = named
        return gone


class Roster(PodIndex[ObjectKey]):
    """Which live pods name which claim."""

    def units(self, claim: ObjectKey) -> Iterator[Unit]:
        """Every unit that decides about a claim: itself, and its pods."""
        yield Unit(Kind.CLAIM, claim)
        for pod in self.users(claim):
            yield Unit(Kind.POD, pod)

    def note(self, key: ObjectKey, pod: Pod | None) -> Iterable[ObjectKey]:
        """Update a pod. Returns the claims that it no longer names."""
        return self.put(key, claims_of(pod) if pod is not None and is_live(pod) else ())


class WorkloadRoster(PodIndex[ObjectKey]):
    """The pods of Workloads, as the pods themselves say. Whether a Workload exists is known elsewhere."""

    def note(self, key: ObjectKey, pod: Pod | None) -> None:
        """Update a pod."""
        name = pod.metadata.annotations.get(WORKLOAD) if pod is not None else None
        self.put(key, (ObjectKey(key.namespace, name),) if name else ())


class GangRoster:
    """The members of gangs; those of a tree under its root. Whether a group is a gang is known elsewhere."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups
        self._members: PodIndex[GangKey] = PodIndex()
        """By the groups that the pods name"""
        self._gated: PodIndex[GangKey] = PodIndex()
        self.changes = 0
        """Changes of pods of gangs so far"""

    @property
    def known(self) -> Set[GangKey]:
        """All gangs that some pod is in."""
        return {self._groups.root(gang) for gang in self._members.named}

    @property
    def named(self) -> Set[GangKey]:
        """All groups that some pod names, also those in trees."""
        return self._members.named

    def members(self, gang: GangKey) -> Set[ObjectKey]:
        """All existing pods of a gang, gated or not."""
        found = [self._members.users(group) for group in self._groups.pod_groups(gang)]
        return found[0] if len(found) == 1 else frozenset[ObjectKey]().union(*found)

    def waits(self, gang: GangKey) -> bool:
        """Whether a gang has gated members."""
        return any(map(self._gated.users, self._groups.pod_groups(gang)))

    def of(self, pods: Iterable[ObjectKey]) -> set[GangKey]:
        """The gangs with gated members that have one of these pods."""
        return self._waiting({gang for pod in pods for gang in self._members.named_by(pod)})

    def note(self, key: ObjectKey, pod: Pod | None) -> set[GangKey]:
        """Update a pod. Returns the gangs that have another answer now, perhaps."""
        before = self._members.named_by(key)
        concerned = self._waiting(before)
        gang = gang_of(pod) if pod is not None else None
        named = () if gang is None else (gang,)
        self.changes += bool(before or named)
        self._members.put(key, named)
        self._gated.put(key, named if pod is not None and pod.gated else ())
        return concerned | self._waiting(named)

    def _waiting(self, groups: Iterable[GangKey]) -> set[GangKey]:
        """The gangs of some groups, if they have gated members."""
        return set(filter(self.waits, map(self._groups.root, groups)))


_GONE: QueueKey = (0, "", "", "", "")
"""The place of a deleted unit: first, since its last reconcile is short and only cleans up."""


class UnitLookup(Struct, eq=False):
    """Reads the state. Changes nothing."""

    store: Store
    roster: Roster
    gangs: GangRoster
    groups: PodGroups

    def place(self, unit: Unit) -> QueueKey:
        """The place of a unit in the queue."""
        if unit.kind is Kind.GANG:
            return min(map(queue_key, self.gated(unit.gang)), default=_GONE)
        if unit.kind is Kind.POD:
            pod = self.store.pods.get(unit.key)
            return queue_key(self.groups.ranked(pod)) if pod is not None else _GONE
        claim = self.store.claims.get(unit.key)
        return queue_key(claim) if claim is not None else _GONE

    def is_gone(self, unit: Unit) -> bool:
        """Whether nothing exists any more that a unit could decide about: its last turn only cleans up."""
        match unit.kind:
            case Kind.POD:
                return unit.key not in self.store.pods
            case Kind.CLAIM:
                return unit.key not in self.store.claims
            case Kind.GANG:
                return not self.gangs.members(unit.gang)
            case Kind.WORKLOAD:
                return False

    def claims(self, unit: Unit) -> tuple[ObjectKey, ...]:
        """The claims that a unit decides about, as far as known."""
        if unit.kind is Kind.CLAIM:
            return (unit.key,)
        if unit.kind is Kind.GANG:
            return tuple(dict.fromkeys(key for pod in self.gated(unit.gang) for key in claims_of(pod)))
        pod = self.store.pods.get(unit.key)
        return claims_of(pod) if pod is not None else ()

    def gated(self, gang: GangKey) -> list[Pod]:
        """The gated pods of a gang by name, with the priority of their group."""
        # A listing may have dropped several of them, of which the roster learns one by one.
        pods = (self.store.pods.get(key) for key in sorted(self.gangs.members(gang)))
        return [self.groups.ranked(pod) for pod in pods if pod is not None and pod.gated]

    def decides(self, unit: Unit, key: ObjectKey) -> bool:
        """Whether a unit still decides about a claim."""
        if unit.kind is Kind.GANG:
            return any(gang_unit(gang) == unit for gang in self.gangs.of(self.roster.users(key)))
        return unit.key == key if unit.kind is Kind.CLAIM else unit.key in self.roster.users(key)

    def sharing(self, unit: Unit, before: Iterable[ObjectKey]) -> list[Unit]:
        """The other units that decide about one of its claims.

        `before` are the claims that it had when its reconcile began: its pod may be gone.
        """
        keys = {*before, *self.claims(unit)}
        found = {other for key in keys for other in self.roster.units(key)}
        found |= {gang_unit(gang) for key in keys for gang in self.gangs.of(self.roster.users(key))}
        return sorted(found - {unit})
