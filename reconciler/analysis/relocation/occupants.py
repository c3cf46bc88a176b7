"""Who can leave: pods, what goes with them, and which budgets let them go. Source: MAKE-1 to MAKE-3.

A pod leaves alone, or with its whole gang if the gang would have too few pods without it, or if its PodGroup
is disrupted only as a whole. A claim is free when all its users are gone; a claim without users is never
freed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import groupby

from msgspec import Struct

from reconciler.analysis.world import World
from reconciler.api.objects.claims import Allocation, ConsumerReference, ResourceClaim
from reconciler.api.objects.core import Pod, PodDisruptionBudget, claims_of, controller_of, is_live
from reconciler.api.objects.gangs import GangKey, GangRules, GangSource, gang_of
from reconciler.api.objects.meta import ObjectKey, OwnerReference
from reconciler.api.objects.selectors import Selector
from reconciler.state.pods.groups import rules_of
from reconciler.state.pods.placed import allocation_of, node_of
from reconciler.state.pods.terms import covered_by
from reconciler.state.store import Store


class Budgets:
    """The budgets of some pods."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._known = sorted(budgets, key=lambda one: one.key)
        self.allowed = [max(one.status.disruptions_allowed, 0) for one in self._known]
        """How many pods each budget lets go now"""
        self._by_namespace: dict[str, list[tuple[int, Selector]]] = {}
        for number, one in enumerate(self._known):
            if (selector := covered_by(one)) is not None:
                self._by_namespace.setdefault(one.key.namespace, []).append((number, selector))

    def of(self, pod: Pod) -> tuple[int, ...]:
        """The numbers of the budgets that an eviction of a pod would use."""
        found = self._by_namespace.get(pod.key.namespace)
        if found is None:
            return ()
        labels, name = pod.metadata.labels, pod.key.name
        covering = [number for number, selector in found if selector.matches(labels)]
        if len(covering) == 1 and self._known[covering[0]].ignores(pod):  # of several, none lets a pod go
            return ()
        return tuple(one for one in covering if name not in self._known[one].status.disrupted_pods)

    def key(self, number: int) -> ObjectKey:
        """Namespace and name of a budget."""
        return self._known[number].key

    def violating(self, pods: Iterable[tuple[int, ...]]) -> int:
        """How many pods, leaving one after another, violate a budget. `pods` has the budgets of each pod.

        A pod counts once, however many budgets it violates.
        """
        left, found = dict(enumerate(self.allowed)), 0
        for of_pod in pods:
            for number in of_pod:
                left[number] -= 1
            found += any(left[number] < 0 for number in of_pod)
        return found

    def violated(self, pods: Iterable[tuple[int, ...]]) -> Mapping[int, int]:
        """Number of a budget -> evictions beyond what it allows. `pods` has the budgets of each pod."""
        used = Counter(number for of_pod in pods for number in of_pod)
        return {
            number: count - self.allowed[number]
            for number, count in sorted(used.items())
            if count > self.allowed[number]
        }


MIRROR = "kubernetes.io/config.mirror"
"""Annotation of pods that a kubelet runs on its own: nobody can evict them"""
DAEMON_SET = "DaemonSet"
"""The kind of controller whose pods come back to their node"""

Pods = frozenset[ObjectKey]


class Occupant(Struct, frozen=True):
    """A pod that has a node or holds devices."""

    pod: Pod
    node: str
    """Empty if it has none yet"""
    claims: tuple[ObjectKey, ...]
    """Allocated claims that it uses"""
    budgets: tuple[int, ...]
    """The budgets that its eviction would use"""
    gang: GangKey | None
    """The gang whose minimum it counts for, or the group that it leaves with"""

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def controller(self) -> OwnerReference | None:
        """Who replaces the pod when it is evicted; None if nobody does."""
        return controller_of(self.pod)

    @property
    def movable(self) -> bool:
        """Whether something replaces the pod that may run on another node."""
        owner = self.controller
        return self.evictable and owner is not None and owner.kind != DAEMON_SET

    @property
    def evictable(self) -> bool:
        """Whether the pod can be evicted at all."""
        return is_live(self.pod) and MIRROR not in self.pod.metadata.annotations


class Gang(Struct, frozen=True):
    """The members of a gang that have a node or hold devices."""

    members: Pods
    spare: int
    """How many of them may leave without the others"""
    rules: GangRules | None
    """None if they are not known"""


class Tree(Struct, frozen=True):
    """A group of groups of which pods have a node or hold devices. Source: TREE-8."""

    members: Pods
    groups: tuple[Pods, ...]
    """Those of each group in it that has any"""
    spare: int
    """How many of these may leave without the others; -1 if no pod may"""

    def loses_all(self, gone: Set[ObjectKey]) -> bool:
        """Whether the rest has to leave, too."""
        if self.spare < 0:
            return not gone.isdisjoint(self.members)
        return sum(group <= gone for group in self.groups) > self.spare


class Unit(Struct, frozen=True):
    """Pods that leave together, and what is free without them."""

    pods: tuple[ObjectKey, ...]
    claims: tuple[ObjectKey, ...]
    gang: GangKey | None = None
    """Set if these are all members of a gang"""


class Occupants:
    """All pods that have a node or hold devices, and the claims that are free without them."""

    def __init__(self, world: World, *, gone: Pods = frozenset()) -> None:
        """`gone` are pods that count as gone, with the claims that only they use."""
        store = world.store
        self.budgets = Budgets(world.budgets)
        self.users: dict[ObjectKey, Pods] = {}
        """Allocated claim -> the pods without which it is free; empty if it has none"""
        self.allocations: dict[ObjectKey, Allocation] = {}
        """Allocated claim -> what it holds"""
        self.pods: dict[ObjectKey, Occupant] = {}
        self.gangs: dict[GangKey, Gang] = {}
        """Also trees, of which each group of pods is a gang, too"""
        self.root = world.groups.root
        """The tree of a gang, or the gang itself"""
        self._trees: list[Tree] = []
        """The inner ones first"""
        self._whole: dict[GangKey, GangKey] = {}
        """Group of pods -> the group that leaves only as a whole, itself or one that it is in"""
        self._read_claims(store)
        if gone:
            self.users = {
                claim: users - gone for claim, users in self.users.items() if not users or users - gone
            }
        of_pod: dict[ObjectKey, list[ObjectKey]] = {}
        for claim, users in self.users.items():
            for key in users:
                of_pod.setdefault(key, []).append(claim)
        members: dict[GangKey, list[Pod]] = {}
        for key, pod in store.pods.items():
            if (gang := gang_of(pod)) is not None and is_live(pod):
                members.setdefault(gang, []).append(pod)
            node, claims = node_of(pod, store), tuple(sorted(of_pod.get(key, ())))
            if (node or claims) and key not in gone:
                ranked = world.groups.ranked(pod)
                self.pods[key] = Occupant(ranked, node, claims, self.budgets.of(pod), gang)
        for root, gangs in groupby(sorted(members, key=self.root), key=self.root):
            self._count(root, {gang: members[gang] for gang in gangs}, world)

    def _read_claims(self, store: Store) -> None:
        """Find the users of allocated claims: the pods in `reservedFor`, or if it is empty, pods that name
        the claim.
        """
        unreserved = []
        for key, claim in store.claims.items():
            allocation = allocation_of(store, key)
            if allocation is None:
                continue
            self.allocations[key] = allocation
            if claim.status.reserved_for:
                self.users[key] = self._reserved(claim, store)
            else:
                unreserved.append(key)
        if unreserved:
            naming: dict[ObjectKey, list[ObjectKey]] = {key: [] for key in unreserved}
            for key, pod in store.pods.items():
                for name in () if pod.finished else claims_of(pod):
                    if name in naming:
                        naming[name].append(key)
            self.users |= {key: frozenset(users) for key, users in naming.items()}

    def _reserved(self, claim: ResourceClaim, store: Store) -> Pods:
        """The existing pods that a claim is reserved for; none if others than pods use it."""
        found: list[ObjectKey] = []
        for user in claim.status.reserved_for:
            key = ObjectKey(claim.key.namespace, user.name)
            if user.resource == "podgroups":
                gang = GangKey(key.namespace, GangSource.POD_GROUP, key.name)
                found += [
                    name for name, pod in store.pods.items() if not pod.finished and gang_of(pod) == gang
                ]
            elif user.resource != "pods":
                return frozenset()
            elif (pod := store.pods.get(key)) is not None and _is_user(pod, user):
                found.append(key)
        return frozenset(found)

    def _count(self, root: GangKey, pods: Mapping[GangKey, Sequence[Pod]], world: World) -> None:
        """Count the members of a gang or tree that run. One whose rules are unknown leaves as a whole."""
        everyone = [pod for of_gang in pods.values() for pod in of_gang]
        found = rules_of(root, everyone, world.groups, world.nodes.on_demand)
        rules = found if isinstance(found, GangRules) else None
        leaves = {one.name: one for one in rules.walk()} if rules is not None else {}
        for gang, of_gang in pods.items():
            own = leaves.get("" if gang == root else gang.name)
            whole = world.groups.leaves_whole(gang)
            if found is None and not whole:  # the group is no gang
                continue
            members = frozenset(pod.key for pod in of_gang if pod.key in self.pods)
            if whole:
                self._whole[gang] = gang
            spare = max(len(members) - own.least, 0) if own is not None and not whole else 0
            if members:
                self.gangs[gang] = Gang(members, spare, own)
        if rules is not None and rules.groups:
            members = self._count_tree(root, rules, world)
            self.gangs[root] = Gang(members, 0, rules)

    def _count_tree(self, gang: GangKey, rules: GangRules, world: World) -> Pods:
        """Count the groups in a group that run. Returns the pods."""
        if not rules.groups:
            known = self.gangs.get(gang)
            return known.members if known is not None else frozenset()
        inside = {(one.name, one.source is GangSource.COMPOSITE): one for one in world.groups.inside(gang)}
        found = [
            self._count_tree(inside[group.name, bool(group.groups)], group, world) for group in rules.groups
        ]
        running = tuple(filter(None, found))
        members = frozenset[ObjectKey]().union(*running)
        whole = world.groups.leaves_whole(gang)
        self._trees.append(Tree(members, running, -1 if whole else max(len(running) - rules.least, 0)))
        if whole:
            self._whole |= dict.fromkeys(world.groups.pod_groups(gang), gang)
        return members

    def together(self, pods: Iterable[ObjectKey]) -> Pods:
        """These pods, and those that have to leave with them: gangs and trees that would be too small leave
        whole.
        """
        found = set(pods)
        leaving: dict[GangKey, int] = {}
        for key in found:
            gang = self.pods[key].gang
            if gang is not None:
                leaving[gang] = leaving.get(gang, 0) + 1
        for gang, count in leaving.items():
            known = self.gangs.get(gang)
            if known is not None and count > known.spare:
                found |= known.members
        for tree in self._trees:
            if tree.loses_all(found):
                found |= tree.members
        return frozenset(found)

    def fellows(self, pods: Pods, among: Pods) -> Pods:
        """All members of the gangs and trees that some pods are in and that are among others as a whole."""
        named = {gang for one in pods if (gang := self.pods[one].gang) is not None}
        gangs = [self.gangs[gang].members for gang in named if gang in self.gangs]
        trees = [tree.members for tree in self._trees if not tree.members.isdisjoint(pods)]
        return pods.union(*(members for members in (*gangs, *trees) if members <= among))

    def wholes(self, pods: Iterable[Occupant]) -> int:
        """How many of the groups of some pods leave only as a whole."""
        named = {one.gang for one in pods if one.gang is not None}
        return len({self._whole[gang] for gang in named if gang in self._whole})

    def freed(self, pods: Pods) -> tuple[ObjectKey, ...]:
        """The claims that are free when these pods are gone, in order."""
        concerned = {claim for key in pods for claim in self.pods[key].claims}
        return tuple(sorted(claim for claim in concerned if self.users[claim] <= pods))

    def units(self, pods: Iterable[ObjectKey]) -> tuple[Unit, ...]:
        """A set of pods as units that leave one after another: whole trees and gangs, and single pods."""
        left, found, of = set(pods), [], dict[Pods, GangKey]()
        for key in sorted(left):
            named = self.pods[key].gang
            for gang in (self.root(named), named) if key in left and named is not None else ():
                known = self.gangs.get(gang)
                if known is not None and known.members <= left:
                    of[known.members] = gang
                    found.append(frozenset(known.members))
                    left -= known.members
                    break
        found += [frozenset([key]) for key in left]
        gone: Pods = frozenset()
        units = []
        for one in sorted(found, key=min):
            before, gone = set(self.freed(gone)), gone | one
            claims = tuple(claim for claim in self.freed(gone) if claim not in before)
            units.append(Unit(tuple(sorted(one)), claims, of.get(one)))
        return tuple(units)


def _is_user(pod: Pod, user: ConsumerReference) -> bool:
    """Whether a claim is reserved for this pod, not for an earlier one of its name, and it still runs."""
    return pod.metadata.uid == user.uid and not pod.finished
