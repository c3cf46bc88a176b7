"""Whether anything that a plan to evict pods rests on has changed while it was made. Source: MAKE-9.

A plan is made in a thread, on a copy of the state. Pods, devices and budgets may change meanwhile, so that it
would evict for nothing, or too many. What is compared is what the plan names: the pods that leave and their
gangs, the claims that become free, the pods and claims that wait, with their volumes and the pods that they
must mind, the budgets of the pods that leave, and the nodes and pools on which it frees or takes anything.
Changes elsewhere do not stop it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import NamedTuple, TypeVar

from reconciler.allocation.placement.filters import surroundings
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.core import Pod, PodDisruptionBudget
from reconciler.api.objects.gangs import GangKey, gang_of
from reconciler.api.objects.meta import ObjectKey, PoolID, time_of
from reconciler.api.objects.slices import DeviceTaintRule
from reconciler.state.devices.fleet import Fleet
from reconciler.state.nodes.table import Nodes, relevant
from reconciler.state.nominations import NOBODY, HeldPlace, Nomination, Nominee
from reconciler.state.pods.groups import PodGroups
from reconciler.state.pods.terms import covered_by
from reconciler.state.store import Store
from reconciler.state.trial import with_plans

Thing = TypeVar("Thing")
Facts = tuple[object, ...] | None
"""What counts of an object; None if it does not exist"""


class Victim(NamedTuple):
    """A pod to evict."""

    key: ObjectKey
    uid: str
    frees: tuple[tuple[ObjectKey, str], ...]
    """(key, uid) of the claims that are free without it, and those before it"""
    group: str = ""
    """The group that leaves whole with it; empty if it leaves alone"""


def is_deleted(victim: Victim, store: Store) -> bool:
    """Whether a pod is being deleted, or gone."""
    pod = store.pods.get(victim.key)
    return pod is None or pod.metadata.uid != victim.uid or pod.metadata.deletion_timestamp is not None


def is_leaving(victim: Victim, store: Store) -> bool:
    """Whether a pod is being deleted, finished, or gone."""
    return is_deleted(victim, store) or store.pods[victim.key].finished


def has_left(victim: Victim, store: Store) -> bool:
    """Whether a pod is gone and what it held is free."""
    pod = store.pods.get(victim.key)
    if pod is not None and pod.metadata.uid == victim.uid and not pod.finished:
        return False
    claims = ((store.claims.get(key), uid) for key, uid in victim.frees)
    return all(
        claim is None or claim.metadata.uid != uid or claim.allocation is None for claim, uid in claims
    )


def started_after(moment: datetime, pod: Pod) -> bool:
    """Whether a pod started after a moment, or has not started. One without a valid time has."""
    started = time_of(pod.status.start_time or "")
    return started is None or started > moment


class Ground(NamedTuple):
    """The state at one moment. Its objects are replaced when they change."""

    pods: Mapping[ObjectKey, Pod]
    claims: Mapping[ObjectKey, ResourceClaim]
    """With assumed plans as if they were written"""
    fleet: Fleet
    classes: Mapping[str, DeviceClass]
    taint_rules: tuple[DeviceTaintRule, ...]
    nodes: Nodes
    groups: PodGroups
    budgets: tuple[PodDisruptionBudget, ...]
    nominations: tuple[Nomination, ...]

    @classmethod
    def of(
        cls, store: Store, nodes: Nodes, groups: PodGroups, budgets: tuple[PodDisruptionBudget, ...]
    ) -> "Ground":
        """The present state. Only forks of `nodes` and `groups` keep it."""
        snapshot = store.snapshot()
        return cls(
            dict(store.pods),
            with_plans(store.claims, store.assumptions),
            snapshot.fleet,
            snapshot.classes,
            store.supply.taint_rules,
            nodes,
            groups,
            budgets,
            tuple(store.nominations),
        )


def changed(
    before: Ground,
    now: Ground,
    leaving: Sequence[Victim],
    places: Sequence[HeldPlace],
    *,
    waiting: Sequence[Pod] = (),
    wanted: Iterable[ObjectKey] = (),
    own: frozenset[Nominee] = NOBODY,
) -> str:
    """What of a plan has changed, for people; empty if nothing has.

    `leaving` are the pods to evict, `places` where something goes then. `waiting` are the pods that go there,
    or that are replaced there, `wanted` their claims, `own` those for whom room may be held that they use.
    """
    victims = [victim.key for victim in leaving]
    freed = [key for victim in leaving for key, _ in victim.frees]
    claims, pods = [*freed, *wanted], [*victims, *(pod.key for pod in waiting)]
    gangs = {gang for key in pods if (pod := before.pods.get(key)) and (gang := gang_of(pod))}
    there = [place.node for place in places]
    nodes = {*there, *(before.pods[key].spec.node_name for key in victims if key in before.pods)}
    pools = {device.pool_id for place in places for device in place.devices}
    pools |= {pool for key in freed for pool in _pools(before.claims.get(key))}

    def who(ground: Ground) -> Named:
        for key in pods:
            yield f"pod {key}", _pod(ground.pods.get(key))
        for key in claims:
            yield f"claim {key}", _claim(ground.claims.get(key))
        for gang in sorted(gangs):
            yield f"gang {gang}", (group := ground.groups.get(gang)) and group.spec

    def where(ground: Ground) -> Named:
        for key in victims:
            yield f"the budgets of pod {key}", _budgets(ground, key)
        for name in sorted(nodes):
            yield f"node {name}", (node := ground.nodes.get(name)) and relevant(node)
            yield f"the pods on node {name}", _hosted(ground, name)
        for pod in waiting:
            what = f"the volumes of pod {pod.key}, or pods that it must be near to or away from,"
            yield what, surroundings(pod, there, ground.nodes)
        yield "a DeviceClass", ground.classes
        yield "a DeviceTaintRule", ground.taint_rules

    found = chain(
        _different(who, before, now),
        _members(gangs, before, now),
        _different(where, before, now),
        # A pool is built anew when one of its slices changes.
        (f"pool {one} changed" for one in sorted(pools) if before.fleet.pool(one) is not now.fleet.pool(one)),
        _held_in(pools, before, now),
        _nominated(nodes, pools, own, before, now),
    )
    return next(found, "")


Named = Iterator[tuple[str, object]]
"""The names of things, for people, and what counts of each"""


def _different(named: Callable[[Ground], Named], before: Ground, now: Ground) -> Iterator[str]:
    """The things for which something differs."""
    for (what, then), (_, there) in zip(named(before), named(now), strict=True):
        if then != there:
            yield f"{what} changed"


def _pod(pod: Pod | None) -> Facts:
    if pod is None:
        return None
    metadata = pod.metadata
    return (
        metadata.uid,
        metadata.deletion_timestamp,
        metadata.labels,
        metadata.owner_references,
        gang_of(pod),
        pod.spec,
        pod.status.start_time,
        pod.finished,
    )


def _claim(claim: ResourceClaim | None) -> Facts:
    if claim is None:
        return None
    users = frozenset(user.uid for user in claim.status.reserved_for)
    return claim.metadata.uid, claim.deleting, claim.spec, users, _results(claim)


def _results(claim: ResourceClaim) -> Facts:
    return None if claim.allocation is None else claim.allocation.devices.results


def _members(gangs: set[GangKey], before: Ground, now: Ground) -> Iterator[str]:
    """Pods of these gangs that came, changed, or went."""
    for key in _other(before.pods, now.pods) if gangs else ():
        pods = before.pods.get(key), now.pods.get(key)
        concerned = any(pod is not None and gang_of(pod) in gangs for pod in pods)
        if concerned and _pod(pods[0]) != _pod(pods[1]):
            yield f"pod {key}, which is of a gang of the plan, changed"


def _budgets(ground: Ground, key: ObjectKey) -> Facts:
    """The budgets that cover a pod, and how many pods they let go."""
    pod = ground.pods.get(key)
    return (
        None
        if pod is None
        else tuple(
            (
                *(one.key, one.metadata.uid, one.status.disruptions_allowed),
                *(key.name in one.status.disrupted_pods, one.ignores(pod)),
            )
            for one in sorted(ground.budgets, key=lambda one: one.key)
            if one.key.namespace == key.namespace
            and (selector := covered_by(one)) is not None
            and selector.matches(pod.metadata.labels)
        )
    )


def _hosted(ground: Ground, name: str) -> Facts:
    """What each pod takes on a node, and the labels by which others avoid it."""
    charges = {key: charge for key, charge in ground.nodes.room.on(name).items() if key.namespace}
    labels = {key: pod.metadata.labels for key in charges if (pod := ground.pods.get(key)) is not None}
    return charges, labels


def _held_in(pools: set[PoolID], before: Ground, now: Ground) -> Iterator[str]:
    """Claims that got, kept otherwise, or lost devices of these pools."""
    for key in _other(before.claims, now.claims):
        then, there = before.claims.get(key), now.claims.get(key)
        touched = {*_pools(then), *_pools(there)} & pools
        if touched and _claim(then) != _claim(there):
            yield f"claim {key}, which holds devices of pool {min(touched)}, changed"


def _pools(claim: ResourceClaim | None) -> Iterator[PoolID]:
    if claim is not None and claim.allocation is not None:
        yield from (result.id.pool_id for result in claim.allocation.devices.results)


def _nominated(
    nodes: set[str], pools: set[PoolID], own: frozenset[Nominee], before: Ground, now: Ground
) -> Iterator[str]:
    """Room on these nodes or of these pools that is held for others. A later deadline changes nothing."""

    def held(ground: Ground) -> dict[Nominee, object]:
        return {
            one.nominee: one.places
            for one in ground.nominations
            if one.nominee not in own
            and any(
                place.node in nodes or pools & {device.pool_id for device in place.devices}
                for place in one.places
            )
        }

    then, there = held(before), held(now)
    for nominee in sorted(then.keys() | there.keys()):
        if then.get(nominee) != there.get(nominee):
            yield f"the room that is held for {nominee} changed"


def _other(before: Mapping[ObjectKey, Thing], now: Mapping[ObjectKey, Thing]) -> Iterator[ObjectKey]:
    """Keys whose object was replaced, added or removed."""
    for key, thing in now.items():
        if before.get(key) is not thing:
            yield key
    yield from before.keys() - now.keys()
