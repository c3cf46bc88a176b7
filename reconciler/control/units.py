"""Units of work: pods, claims and gangs, which unit decides about which claim, and the pods on nodes."""

from collections.abc import Iterable, Iterator, Sequence, Set
from enum import StrEnum
from functools import reduce
from typing import NamedTuple

from reconciler.allocation.placement.order import QueueKey, queue_key
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.gangs import GangKey, GangSource, gang_of
from reconciler.api.objects.meta import ObjectKey
from reconciler.state.nodes.table import HERE, Hosted, Nodes
from reconciler.state.pods.groups import PodGroups
from reconciler.state.pods.placed import demand_of, node_of
from reconciler.state.store import Store


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

    @property
    def gang(self) -> GangKey:
        """The gang of a unit of that kind."""
        source, _, name = self.key.name.partition("/")
        return GangKey(self.key.namespace, GangSource(source), name)


def gang_unit(gang: GangKey) -> Unit:
    """The unit of a gang. Gangs of different sources with one name are different units."""
    return Unit(Kind.GANG, ObjectKey(gang.namespace, f"{gang.source}/{gang.name}"))


class Roster:
    """Which live pods name which claim, updated pod by pod."""

    def __init__(self) -> None:
        self._claims: dict[ObjectKey, tuple[ObjectKey, ...]] = {}
        self._pods: dict[ObjectKey, set[ObjectKey]] = {}

    def users(self, claim: ObjectKey) -> Set[ObjectKey]:
        """The live pods that name a claim."""
        return self._pods.get(claim, frozenset())

    def units(self, claim: ObjectKey) -> Iterator[Unit]:
        """Every unit that decides about a claim: itself, and its pods."""
        yield Unit(Kind.CLAIM, claim)
        for pod in self.users(claim):
            yield Unit(Kind.POD, pod)

    def note(self, key: ObjectKey, pod: Pod | None) -> Iterable[ObjectKey]:
        """Update a pod. Returns the claims that it no longer names."""
        before = self._claims.pop(key, ())
        now = claims_of(pod) if pod is not None and is_live(pod) else ()
        for claim in before:
            if claim not in now:
                self._pods[claim].discard(key)
                if not self._pods[claim]:
                    del self._pods[claim]
        for claim in now:
            self._pods.setdefault(claim, set()).add(key)
        if now:
            self._claims[key] = now
        return [claim for claim in before if claim not in now]


class GangRoster:
    """The members of gangs; those of a tree under its root. Whether a group is a gang is known elsewhere."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups
        self._gang: dict[ObjectKey, GangKey] = {}
        """Pod -> the group that it names"""
        self._members: dict[GangKey, set[ObjectKey]] = {}
        self._gated: dict[GangKey, set[ObjectKey]] = {}
        self.changes = 0
        """Changes of pods of gangs so far"""

    @property
    def known(self) -> Set[GangKey]:
        """All gangs that some pod is in."""
        return {self._groups.root(gang) for gang in self._members}

    @property
    def named(self) -> Set[GangKey]:
        """All groups that some pod names, also those in trees."""
        return self._members.keys()

    def members(self, gang: GangKey) -> Set[ObjectKey]:
        """All existing pods of a gang, gated or not."""
        return _all_of(self._members, self._groups.pod_groups(gang))

    def waits(self, gang: GangKey) -> bool:
        """Whether a gang has gated members."""
        return bool(_all_of(self._gated, self._groups.pod_groups(gang)))

    def of(self, pods: Iterable[ObjectKey]) -> set[GangKey]:
        """The gangs with gated members that have one of these pods."""
        named = {gang for pod in pods if (gang := self._gang.get(pod)) is not None}
        return {root for gang in named if self.waits(root := self._groups.root(gang))}

    def note(self, key: ObjectKey, pod: Pod | None) -> set[GangKey]:
        """Update a pod. Returns the gangs that have another answer now, perhaps."""
        before = self._gang.pop(key, None)
        concerned = self.of_one(before)
        if before is not None:
            _discard(self._members, before, key)
            _discard(self._gated, before, key)
        gang = gang_of(pod) if pod is not None else None
        if before is not None or gang is not None:
            self.changes += 1
        if pod is not None and gang is not None:
            self._gang[key] = gang
            self._members.setdefault(gang, set()).add(key)
            if pod.gated:
                self._gated.setdefault(gang, set()).add(key)
        return concerned | self.of_one(gang)

    def of_one(self, gang: GangKey | None) -> set[GangKey]:
        """The gang of a group, if it has gated members."""
        root = self._groups.root(gang) if gang is not None else None
        return {root} if root is not None and self.waits(root) else set()


def _all_of(sets: dict[GangKey, set[ObjectKey]], gangs: Sequence[GangKey]) -> Set[ObjectKey]:
    found = [sets.get(gang, frozenset[ObjectKey]()) for gang in gangs]
    return found[0] if len(found) == 1 else frozenset[ObjectKey]().union(*found)


def _discard(sets: dict[GangKey, set[ObjectKey]], gang: GangKey, key: ObjectKey) -> None:
    found = sets.get(gang)
    if found is not None:
        found.discard(key)
        if not found:
            del sets[gang]


_GONE: QueueKey = (0, "", "", "", "")
"""The place of a deleted unit: first, since its last reconcile is short and only cleans up."""


class UnitLookup:
    """Reads the state. Changes nothing."""

    def __init__(self, store: Store, roster: Roster, gangs: GangRoster, groups: PodGroups) -> None:
        self._store = store
        self._roster = roster
        self._gangs = gangs
        self._groups = groups

    def place(self, unit: Unit) -> QueueKey:
        """The place of a unit in the queue."""
        if unit.kind is Kind.GANG:
            return min(map(queue_key, self.gated(unit.gang)), default=_GONE)
        if unit.kind is Kind.POD:
            pod = self._store.pods.get(unit.key)
            return queue_key(self._groups.ranked(pod)) if pod is not None else _GONE
        claim = self._store.claims.get(unit.key)
        return queue_key(claim) if claim is not None else _GONE

    def claims(self, unit: Unit) -> tuple[ObjectKey, ...]:
        """The claims that a unit decides about, as far as known."""
        if unit.kind is Kind.CLAIM:
            return (unit.key,)
        if unit.kind is Kind.GANG:
            return tuple(dict.fromkeys(key for pod in self.gated(unit.gang) for key in claims_of(pod)))
        pod = self._store.pods.get(unit.key)
        return claims_of(pod) if pod is not None else ()

    def gated(self, gang: GangKey) -> list[Pod]:
        """The gated pods of a gang by name, with the priority of their group."""
        # A listing may have dropped several of them, of which the roster learns one by one.
        pods = (self._store.pods.get(key) for key in sorted(self._gangs.members(gang)))
        return [self._groups.ranked(pod) for pod in pods if pod is not None and pod.gated]

    def decides(self, unit: Unit, key: ObjectKey) -> bool:
        """Whether a unit still decides about a claim."""
        if unit.kind is Kind.GANG:
            return any(gang_unit(gang) == unit for gang in self._gangs.of(self._roster.users(key)))
        return unit.key == key if unit.kind is Kind.CLAIM else unit.key in self._roster.users(key)

    def sharing(self, unit: Unit, before: Iterable[ObjectKey]) -> list[Unit]:
        """The other units that decide about one of its claims.

        `before` are the claims that it had when its reconcile began: its pod may be gone.
        """
        keys = {*before, *self.claims(unit)}
        found = {other for key in keys for other in self._roster.units(key)}
        found |= {gang_unit(gang) for key in keys for gang in self._gangs.of(self._roster.users(key))}
        return sorted(found - {unit})


class Charges:
    """Keeps the pods on nodes up to date, pod by pod and claim by claim."""

    def __init__(self, store: Store, roster: Roster, nodes: Nodes) -> None:
        self._store = store
        self._roster = roster
        self._nodes = nodes
        self._counted: dict[ObjectKey, tuple[Pod, str]] = {}
        """The pods as they were counted, and their nodes"""
        self.assumed: dict[ObjectKey, str] = {}
        """The decided nodes of pods, while not known to be written"""

    def assume(self, key: ObjectKey, node: str) -> Hosted:
        """Count a pod on its decided node, until the pod itself names the node."""
        self.assumed[key] = node
        return self.pod(key)

    def forget(self, key: ObjectKey) -> Hosted:
        """Drop the assumed node of a pod. Returns what that means for pods that wait."""
        self.assumed.pop(key, None)
        return self.pod(key)

    def pod(self, key: ObjectKey) -> Hosted:
        """Update a changed or deleted pod. Returns what that means for pods that wait."""
        pod = self._store.pods.get(key)
        node = node_of(pod, self._store) if pod is not None else ""
        if pod is None or node or pod.finished:
            self.assumed.pop(key, None)
        else:
            node = self.assumed.get(key, "")
        if pod is None or not node:
            self._counted.pop(key, None)
            nominated = self._nodes.residents.nominate(key, pod)
            return _roomier(self._nodes.host(key, None), nominated)
        before, on = self._counted.get(key, (None, ""))
        shares = self._store.supply.counts_device_shares and claims_of(pod)
        if before is pod and on == node and not shares:  # else it changes with the claims and their devices
            return HERE  # most events of a claim come from our own writes
        self._counted[key] = pod, node
        nominated = self._nodes.residents.nominate(key, None)
        return _roomier(self._nodes.host(key, pod, node, demand_of(pod, self._store)), nominated)

    def claims(self, keys: Iterable[ObjectKey]) -> Hosted:
        """Update the pods of changed claims. Returns what that means for pods that wait."""
        pods = {pod for key in keys for pod in self._roster.users(key)}
        if len(pods) == 1:
            return self.pod(*pods)
        if not pods:  # claims that are managed by themselves
            return HERE
        return hosted(self.pod(pod) for pod in sorted(pods))


def _roomier(found: Hosted, nominated: bool) -> Hosted:
    """A change that also makes room if a nomination changed."""
    return found | Hosted(roomier=True, counted=False) if nominated else found


def hosted(changes: Iterable[Hosted]) -> Hosted:
    """All changes as one."""
    return reduce(Hosted.__or__, list(changes), HERE)
