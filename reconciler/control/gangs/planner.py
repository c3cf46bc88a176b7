"""Determines from the present state what a gang needs next. Decides nothing about nodes and devices.

Everything is read from the objects, so that a successor continues where a predecessor stopped: gated members
whose claims are allocated have a seat, and ungated ones run. Seats count only together: as soon as the
minimum has seats, gates are removed; until then all seats are given back if the rest does not fit.
Source: GANG-20 to GANG-22, TREE-7.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from reconciler.allocation.gangs.kinds import GangQuestion, Member
from reconciler.allocation.placement.order import queue_key
from reconciler.api.objects.claims import ResourceClaim, is_ours
from reconciler.api.objects.core import Pod, claims_of, is_live
from reconciler.api.objects.gangs import (
    SEAT,
    GangKey,
    GangRules,
    GangSource,
    Tier,
    gang_of,
    seat_mark,
    seated_on,
)
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import NodeSelector
from reconciler.control.handler import Blocked, Idle
from reconciler.control.intake import Intake
from reconciler.control.planner import Planner
from reconciler.control.units import Kind, Unit, UnitLookup
from reconciler.errors import Rejected
from reconciler.state.on_demand import NOT_LISTED, KindsOnDemand
from reconciler.state.pods.groups import INCOMPLETE, NoRules, rules_of
from reconciler.state.pods.placed import node_of, pinned_to, placed, placed_by_group


class Place(Struct, frozen=True):
    """A gated member with a seat."""

    pod: Pod
    node: str
    pinned: bool
    """Whether its allocations allow only this node"""


class Seats(Struct, frozen=True):
    """What was written for a gang that may have to be given back."""

    gang: GangKey
    claims: tuple[ResourceClaim, ...] = ()
    pods: tuple[Pod, ...] = ()
    """Gated pods with a recorded node"""

    def __bool__(self) -> bool:
        return bool(self.claims or self.pods)


class Solve(Struct, frozen=True):
    """Nodes and devices are needed for the members that have no seat."""

    question: GangQuestion
    rules: GangRules
    returned: Seats
    """To be given back if the question is refused"""


class UngateAll(Struct, frozen=True):
    """The minimum has seats: remove the gates of these pods."""

    gang: GangKey
    places: tuple[Place, ...]
    pinning: bool = False
    """Whether all pods are pinned, not only those whose allocations allow several nodes"""


class GiveBack(Struct, frozen=True):
    """The gang cannot be completed now: it keeps nothing while it waits."""

    seats: Seats
    why: str


GangStep = Idle | Blocked | Solve | UngateAll | GiveBack


class GangPlanner(Struct, eq=False):
    """Reads the state. Changes nothing."""

    _units: UnitLookup
    _claims: Planner
    """Judges single claims and pods"""
    _on_demand: KindsOnDemand
    unsuited: Callable[[ObjectKey], Blocked | None] = lambda _: None
    """Why a pod cannot be placed with a gang"""

    def serves(self, unit: Unit) -> bool:
        """Whether a unit is a gang, or a gated pod of one, which is decided with its gang."""
        if unit.kind is Kind.GANG:
            return True
        pod = self._units.store.pods.get(unit.key) if unit.kind is Kind.POD else None
        if pod is None or not pod.gated:
            return False
        gang = gang_of(pod)
        return gang is not None and self._rules(self._units.groups.root(gang), [pod]) is not None

    def next(self, gang: GangKey) -> GangStep:
        """What a gang needs."""
        if self._units.groups.root(gang) != gang:
            return Idle()  # the root of its tree is the gang
        pods = [self._units.store.pods[key] for key in self._units.gangs.members(gang)]
        members = sorted((pod for pod in pods if is_live(pod)), key=queue_key)
        gated = [pod for pod in members if pod.gated]
        rules = self._rules(gang, members) if gated else None
        if rules is None:
            return Idle()
        keys = tuple(dict.fromkeys(key for pod in gated for key in claims_of(pod)))
        apart = self._claims.apart(keys)
        if isinstance(apart, Idle):
            return apart
        if any(
            self._claims.pending(c) for key in keys if (c := self._units.store.claims.get(key)) is not None
        ):
            return Idle()  # its writer requeues the gang afterwards
        running = [pod for pod in members if not pod.gated]
        running += [pod for pod in pods if pod.status.phase == "Succeeded"]
        places = self._together(gang, rules, running, [found for pod in gated if (found := self._place(pod))])
        ready = self._ready(gang, running, places, keys, rules)
        if ready:
            return UngateAll(gang, ready, pinning=_tries_every_domain(gang, rules))
        returned = self._returned(gang, gated)
        answer: Blocked | Solve | None = apart or self._unplaceable(gated, rules)
        if answer is None and isinstance(rules, GangRules):
            answer = self._solve(gang, gated, running, places, rules, returned)
        if isinstance(rules, NoRules) and rules.reason == NOT_LISTED:
            return Blocked(keys, rules.reason, rules.message)  # known in a moment: keep the seats until then
        assert isinstance(answer, Blocked | Solve)
        if isinstance(answer, Blocked) and returned:
            return GiveBack(returned, answer.message)
        return answer if isinstance(answer, Solve) else Blocked(keys, answer.reason, answer.message)

    def kept(self, gang: GangKey, keys: Sequence[ObjectKey]) -> Seats:
        """What an earlier decision wrote for these members alone, if they are still gated."""
        found = (self._units.store.pods.get(key) for key in keys)
        return self._returned(gang, [pod for pod in found if pod is not None and pod.gated])

    def _together(
        self, gang: GangKey, rules: GangRules | NoRules, running: Sequence[Pod], places: Sequence[Place]
    ) -> tuple[Place, ...]:
        """The seats that share the required labels: claims may be allocated before there is a gang."""
        found = tuple(places)
        if isinstance(rules, NoRules):
            return found
        for group in rules.walk():
            keys = [tier.key for tier in group.tiers if tier.required]
            names = {one.name for one in group.walk()}
            mine = [one for one in found if rules.group_of(one.pod) in names]
            kept = self._in_domain(gang, keys, [pod for pod in running if rules.group_of(pod) in names], mine)
            found = tuple(one for one in found if one not in mine or one in kept)
        return found

    def _in_domain(
        self, gang: GangKey, keys: Sequence[str], running: Sequence[Pod], places: Sequence[Place]
    ) -> Sequence[Place]:
        """The seats that share the values of some labels with those that are certain."""
        if not keys or not places:
            return places
        known = self._units.store.snapshot().topology.nodes

        def domain(node: str) -> tuple[str | None, ...]:
            return tuple(known[node].labels.get(key) for key in keys) if node in known else ()

        decided = {one.pod.key for one in places if self._was_gated(gang, one.pod, ())}
        nodes = [node_of(pod, self._units.store) for pod in running]
        fixed = {domain(node) for node in nodes if node}
        fixed |= {domain(one.node) for one in places if one.pod.key in decided}
        fixed = fixed or {domain(one.node) for one in places}
        return [
            one for one in places if one.pod.key in decided or (len(fixed) == 1 and domain(one.node) in fixed)
        ]

    def _ready(
        self,
        gang: GangKey,
        running: Sequence[Pod],
        places: Sequence[Place],
        keys: Sequence[ObjectKey],
        rules: GangRules | NoRules,
    ) -> tuple[Place, ...]:
        """The seats whose gates may be removed: the minimum has seats, or a gate was removed before; in a
        tree, that of their group.

        From then on the gates of all seats are removed: they cannot come back. `keys` are the claims of gated
        members; a mark on them says nothing about ungated ones.
        """
        begun = [pod for pod in running if places and self._was_gated(gang, pod, keys)]
        if isinstance(rules, NoRules):
            return tuple(places) if begun else ()
        names = {rules.group_of(pod) for pod in begun}
        names |= {*rules.met(Counter(map(rules.group_of, (*running, *(one.pod for one in places)))))}
        return tuple(one for one in places if rules.group_of(one.pod) in names)

    def _was_gated(self, gang: GangKey, pod: Pod, keys: Sequence[ObjectKey]) -> bool:
        """Whether an ungated pod had a seat of the gang."""
        if any(seat_mark(pod, one) is not None for one in self._units.groups.pod_groups(gang)):
            return True
        own = (self._units.store.claims.get(key) for key in claims_of(pod) if key not in keys)
        return any(claim is not None and self._is_seat(claim, gang) for claim in own)

    def _is_seat(self, claim: ResourceClaim, gang: GangKey) -> bool:
        """Whether a claim holds devices that we allocated for a gang."""
        if claim.allocation is None or not is_ours(claim):
            return False
        return any(seat_mark(claim, one) is not None for one in self._units.groups.pod_groups(gang))

    def _rules(self, gang: GangKey, pods: Sequence[Pod]) -> GangRules | NoRules | None:
        return rules_of(gang, pods, self._units.groups, self._on_demand)

    def _place(self, pod: Pod) -> Place | None:
        """The seat of a gated member: all its claims are allocated, and all of them to one known node."""
        if self._claims.defect(pod) is not None:
            return None
        held = [self._units.store.claims[key].allocation for key in claims_of(pod)]
        selectors = [one.node_selector for one in held if one is not None and one.node_selector is not None]
        if None in held:
            return None
        only = next(filter(None, map(pinned_to, selectors)), "")
        node = only or seated_on(pod)
        return Place(pod, node, pinned=bool(only)) if node and self._allow(selectors, node) else None

    def _allow(self, selectors: Sequence[NodeSelector], node: str) -> bool:
        """Whether allocations can be used on a node. Of a node that is gone, only the name is known."""
        others = [selector for selector in selectors if pinned_to(selector) != node]
        if not others:
            return True
        known = self._units.store.snapshot().topology.nodes.get(node)
        if known is None:
            return not any(map(pinned_to, others))
        try:
            return all(selector.matches(node, known.labels) for selector in others)
        except Rejected:
            return False

    def _returned(self, gang: GangKey, gated: Sequence[Pod]) -> Seats:
        """What was written for gated members, and is not used by others.

        Nothing if another controller owns their devices: it may be writing the rest.
        """
        own = {pod.key for pod in gated}
        keys = dict.fromkeys(key for pod in gated for key in claims_of(pod))
        found = (self._units.store.claims.get(key) for key in keys if self._units.roster.users(key) <= own)
        claims = [c for c in found if c is not None and not c.deleting and self._is_seat(c, gang)]
        if not all(map(self._claims.owns, claims)):
            return Seats(gang)
        return Seats(
            gang,
            tuple(claim for claim in claims if not claim.status.reserved_for),
            tuple(pod for pod in gated if SEAT in pod.metadata.annotations),
        )

    def _unplaceable(self, gated: Sequence[Pod], rules: GangRules | NoRules) -> Blocked | None:
        """Why no place is looked for, whatever devices are free."""
        if isinstance(rules, NoRules):
            return Blocked((), rules.reason, rules.message)
        return next(filter(None, (self.unsuited(pod.key) for pod in gated)), None)

    def _solve(
        self,
        gang: GangKey,
        gated: Sequence[Pod],
        running: Sequence[Pod],
        places: Sequence[Place],
        rules: GangRules,
        returned: Seats,
    ) -> Blocked | Solve:
        """The question for the members without a seat, or why it cannot be asked yet."""
        exist = Counter(map(rules.group_of, (*gated, *running)))
        if not rules.is_met(exist):
            return Blocked((), INCOMPLETE, _incomplete(rules, exist))
        seated = {one.pod.key for one in places}
        members, defects = [], []
        for pod in gated:
            if pod.key in seated:
                continue
            defect = self._claims.defect(pod) or self._claims.left(pod)
            if defect is None:
                members.append(self._member(pod))
            else:
                defects.append(defect)
        settled = [*running, *(one.pod for one in places)]
        there = placed_by_group(settled, rules, self._units.store)
        question = GangQuestion.of(gang, members, rules, there, self._claims.policies)
        usable = Counter(map(rules.group_of, (*(one.pod for one in members), *settled)))
        if len(members) < question.least or not rules.is_met(usable):
            return defects[0] if defects else Blocked((), INCOMPLETE, _incomplete(rules, usable))
        todo = {claim.key: claim for member in members for claim in member.claims}
        if (foreign := self._claims.allowed(tuple(todo.values()))) is not None:
            return foreign
        return Solve(question, rules, returned)

    def _member(self, pod: Pod) -> Member:
        claims = [self._units.store.claims[key] for key in claims_of(pod)]
        return Member(
            self._units.groups.ranked(pod),
            tuple(claim for claim in claims if claim.allocation is None),
            tuple(claim for claim in claims if claim.allocation is not None),
        )


def _tries_every_domain(gang: GangKey, rules: GangRules | NoRules) -> bool:
    """Whether kube-scheduler may try the members in each domain of a topology (GANG-26).

    Where their devices are not, it would take these away. It tries no other node for a pod that names its
    node.
    """
    of_kubernetes = gang.source in (GangSource.POD_GROUP, GangSource.COMPOSITE)
    return of_kubernetes and isinstance(rules, GangRules) and any(group.tiers for group in rules.walk())


def _incomplete(rules: GangRules, exist: Mapping[str, int]) -> str:
    """Which pods are missing."""
    if not rules.groups:
        return f"{exist.get(rules.name, 0)} of {rules.least} pods exist"
    enough = sum(group.is_met(exist) for group in rules.groups)
    lacking = next((group for group in rules.groups if not group.is_met(exist)), None)
    what = f"{rules.name}: {enough} of {rules.least} groups have enough pods"
    return f"{what}; {lacking.name}: {_incomplete(lacking, exist)}" if lacking is not None else what


class GangLine(Struct, frozen=True):
    """One gang."""

    gang: GangKey
    least: int | None
    """Pods that must run together; None if the declaration cannot be used"""
    gated: int
    bound: int
    """Pods that are bound to a node"""
    released: int
    """Pods without our gate that are not bound yet"""
    nodes: int
    """Nodes that its pods have, or will have"""
    domain: tuple[tuple[str, str], ...]
    """Node labels of its topology that these nodes share -> value"""

    @property
    def waits(self) -> bool:
        """Whether pods of it are gated."""
        return self.gated > 0


class GangOverview:
    """Reads the state. Changes nothing."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def keys(self) -> tuple[list[GangKey], list[GangKey]]:
        """The gangs with gated pods, and the others; sorted. PodGroups that are no gang may be among them."""
        known = self._intake.gangs.known
        waiting = {gang for gang in known if self._intake.gangs.waits(gang)}
        return sorted(waiting), sorted(known - waiting)

    def line(self, gang: GangKey) -> GangLine | None:
        """What is known about a gang; None if it is none, or has no live pod."""
        intake = self._intake
        pods = [intake.store.pods[key] for key in sorted(intake.gangs.members(gang))]
        pods = [pod for pod in pods if is_live(pod)]
        rules = rules_of(gang, pods, intake.groups, intake.nodes.on_demand) if pods else None
        if rules is None:
            return None
        there = placed(pods, intake.store)
        nodes = sorted(set(there.nodes))
        tiers = rules.tiers if isinstance(rules, GangRules) else ()
        bound, gated = sum(map(_is_bound, pods)), sum(pod.gated for pod in pods)
        return GangLine(
            gang,
            rules.least_pods if isinstance(rules, GangRules) else None,
            gated,
            bound,
            len(pods) - gated - bound,
            len(nodes),
            tuple(self._shared(tiers, nodes)),
        )

    def _shared(self, tiers: tuple[Tier, ...], nodes: list[str]) -> Iterator[tuple[str, str]]:
        for tier in tiers if nodes else ():
            values = {self._intake.nodes.label(name, tier.key) for name in nodes}
            if len(values) == 1 and (value := values.pop()) is not None:
                yield tier.key, value


def _is_bound(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.gated
