"""The members of a gang: what is asked, the answers, and which members are alike.

Alike are equal pods with equal claims. Each kind is planned once.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from msgspec import Struct, structs

from reconciler.allocation.alignment.partitions import partitioned_requests
from reconciler.allocation.alignment.preferences import alignments, has_preferences, preferences_of
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.claim_shapes import ClaimShape, claim_shape
from reconciler.allocation.placement.device_room import backed_resources
from reconciler.allocation.placement.volumes import minds_other_pods
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangRules, GangSource, Tier, gang_of
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.plan import Plan, Reason
from reconciler.api.objects.selectors import Selector
from reconciler.api.objects.storage import SELECTED_NODE
from reconciler.errors import Malformed
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.room import Wanted, demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.pods.placed import Placed
from reconciler.state.pods.terms import affinity_of, anti_affinity_of, ports_of, spread_of

UNPLACED = "GangUnplaced"
NO_TOPOLOGY = "GangTopologyUnknown"


class Member(Struct, frozen=True):
    """A gated pod of the gang."""

    pod: Pod
    claims: tuple[ResourceClaim, ...]
    """To be allocated for it. A claim that several members share is in each of them"""
    held: tuple[ResourceClaim, ...] = ()
    """Its claims that are allocated already"""

    @property
    def devices(self) -> Iterator[DeviceID]:
        """What it holds already."""
        for allocation in (claim.allocation for claim in self.held):
            yield from allocation.held if allocation is not None else ()


class AskedGroup(Struct, frozen=True):
    """A group in a tree of groups, and what it still needs."""

    name: str
    least: int
    """How many of its members must get a place; of a group of groups, how many of its groups"""
    tiers: tuple[Tier, ...] = ()
    """All required"""
    nodes: tuple[str, ...] = ()
    """Nodes of its pods that have a place already. They determine its domain of tiers by label"""
    devices: tuple[DeviceID, ...] = ()
    """Devices that its pods hold already. They determine its domain of tiers by attribute"""
    members: tuple[int, ...] = ()
    """Of a group of pods: the positions of its members in the question"""
    groups: tuple["AskedGroup", ...] = ()
    """Of a group of groups: those in it"""

    def pod_groups(self) -> Iterator["AskedGroup"]:
        """The groups of pods in it, or itself."""
        if not self.groups:
            yield self
        for group in self.groups:
            yield from group.pod_groups()

    @property
    def is_done(self) -> bool:
        """Whether it needs nothing more."""
        return sum(group.is_done for group in self.groups) >= self.least if self.groups else not self.least

    @property
    def least_pods(self) -> int:
        """How many members must get a place at least."""
        if not self.groups:
            return self.least
        return sum(sorted(group.least_pods for group in self.groups)[: self.least])

    def whole(self) -> Self:
        """The same where all members must get a place."""
        groups = tuple(group.whole() for group in self.groups)
        return structs.replace(self, least=len(groups) or len(self.members), groups=groups)

    @classmethod
    def of(cls, rules: GangRules, members: Sequence[Member], there: Mapping[str, Placed]) -> Self:
        """What a tree still needs. `there` are its pods that have a place already, by their group."""
        if rules.groups:
            groups = tuple(cls.of(group, members, there) for group in rules.groups)
            nodes = dict.fromkeys(node for group in groups for node in group.nodes)
            devices = dict.fromkeys(device for group in groups for device in group.devices)
            return cls(rules.name, rules.least, rules.tiers, tuple(nodes), tuple(devices), groups=groups)
        mine = [at for at, member in enumerate(members) if _group_name(member.pod) == rules.name]
        placed = there.get(rules.name, Placed())
        devices = dict.fromkeys((*placed.devices, *(one for at in mine for one in members[at].devices)))
        least = max(rules.least - placed.pods, 0)
        return cls(rules.name, least, rules.tiers, tuple(placed.nodes), tuple(devices), tuple(mine))


def _group_name(pod: Pod) -> str:
    gang = gang_of(pod)
    return gang.name if gang is not None else ""


@dataclass(frozen=True, slots=True)
class GangQuestion:
    """A gang and its members that have no place yet."""

    gang: GangKey
    members: tuple[Member, ...]
    """In their order (`placement.place`): the first are preferred if not all fit"""
    least: int
    """How many of the members must get a place: the gang's minimum without those in `nodes`"""
    tiers: tuple[Tier, ...] = ()
    """The tightest first"""
    nodes: tuple[str, ...] = ()
    """Nodes of members that have a place already. They determine the domain of tiers by label"""
    devices: tuple[DeviceID, ...] = ()
    """Devices of members that have a place already. They determine the domain of tiers by attribute"""
    policies: Policies = field(default=PLAIN, compare=False)
    """Which nodes of a domain, and which devices of a node, to prefer"""
    tree: AskedGroup | None = None
    """Of a tree of groups: what is needed in place of `tiers` and `nodes`; `least` is what that adds up to"""

    @classmethod
    def of(
        cls,
        gang: GangKey,
        members: Sequence[Member],
        rules: GangRules,
        there: Mapping[str, Placed],
        policies: Policies = PLAIN,
    ) -> Self:
        """What a gang still needs. `there` are its pods that have a place already, by their group."""
        tree = AskedGroup.of(rules, members, there) if rules.groups else None
        nodes = tuple(node for of_group in there.values() for node in of_group.nodes)
        devices = tuple(device for of_group in there.values() for device in of_group.devices)
        pods = sum(of_group.pods for of_group in there.values())
        least = max(tree.least_pods if tree is not None else rules.least - pods, 1)
        return cls(gang, tuple(members), least, rules.tiers, nodes, devices, policies, tree)

    @property
    def groups(self) -> list[GangKey]:
        """The gangs that its pods name: itself, or the groups of pods in its tree."""
        if self.tree is None:
            return [self.gang]
        names = (group.name for group in self.tree.pod_groups())
        return [GangKey(self.gang.namespace, GangSource.POD_GROUP, name) for name in names]


class Seat(Struct, frozen=True):
    """A place for one member."""

    pod: ObjectKey
    node: str
    plans: tuple[Plan, ...]
    """For its claims that no earlier seat allocates"""


@dataclass(frozen=True, slots=True)
class GangGranted:
    """Places for at least the minimum."""

    seats: tuple[Seat, ...]
    """In the order of the members"""
    left_out: tuple[ObjectKey, ...] = ()
    """Members without a place; they are decided alone later"""
    domain: tuple[tuple[Tier, str], ...] = ()
    """The tiers that are met, each with the value that all seats share"""
    steps: int = 0
    policy: str = field(default="", compare=False)
    """The placement policies that ordered nodes and devices; empty for first fit"""
    order: tuple[ObjectKey, ...] = field(default=(), compare=False)
    """The members with a seat in the order in which each suited its node beside those before it"""


class GangUnsatisfied(Struct, frozen=True):
    """No places for enough members."""

    reason: str
    """An identifier of `reasons`"""
    message: str
    fits: int = 0
    """How many members fit together at most, as far as the search found"""
    short: tuple[tuple[str, int], ...] = ()
    """What is short in the best domain, with amounts"""
    steps: int = 0


class Kind(Struct, frozen=True, eq=False):
    """Members that are alike."""

    number: int
    """Position among the kinds"""
    members: tuple[Member, ...]
    positions: tuple[int, ...]
    """Of the members, in the question"""
    own: tuple[int, ...]
    """Positions of the claims that no other member uses"""
    shared: tuple[ResourceClaim, ...]
    """Claims that other members use, too"""
    wanted: Wanted
    """What a pod takes of its node"""
    waived: frozenset[str]
    """Resources that a node need not offer"""
    shape: ClaimShape | None = None
    """Of its own claims; None if it has none, or if no node can meet them"""
    error: Fatal | None = None
    """Why no node can meet its claims, whatever is free"""
    prefers: bool = False
    """Whether its claims have preferences"""
    has_alternatives: bool = False
    """Whether nodes differ in more than whether they fit: by preferences, or alternatives"""
    group: int = 0
    """In a tree: which of the groups of pods"""
    like: int = 0
    """Equal for kinds that differ only in their group"""

    @property
    def pod(self) -> Pod:
        """The first of the pods."""
        return self.members[0].pod

    @property
    def held(self) -> tuple[ResourceClaim, ...]:
        """Allocated claims of the first member; those of the others are allocated to the same nodes."""
        return self.members[0].held

    def with_devices(self, plan: Plan) -> ResourceClaim:
        """A claim that other members use, too, with the devices of a plan."""
        claim = next(claim for claim in self.shared if claim.metadata.uid == plan.uid)
        return claim.replacing("status", allocation=plan.allocation)

    def own_claims(self, member: int) -> list[ResourceClaim]:
        """The claims that only this member uses."""
        return [self.members[member].claims[at] for at in self.own]


class PodInteractions(Struct, frozen=True):
    """What the pods of a gang ask of the pods around them."""

    crowding: bool
    """Whether placing one member may exclude nodes for another by more than room"""
    ordered: bool
    """Whether placing one member may open nodes for another"""
    selectors: tuple[Selector, ...] = ()
    """Of all affinity, anti-affinity and spread of the members: other labels do not matter"""
    pods: frozenset[ObjectKey] = frozenset()
    """The members"""


def pod_interactions(members: Sequence[Member], nodes: Nodes) -> PodInteractions:
    """Whether the pods of a gang mind one another. Raises Rejected for a selector that cannot be read."""
    ordered = crowding = False
    selectors: dict[Selector, None] = {}
    for pod in (member.pod for member in members):
        spec = pod.spec
        if spec.affinity is not None or spec.topology_spread_constraints:
            spread, opening = spread_of(pod), affinity_of(pod)
            asked = (*opening, *anti_affinity_of(pod))
            selectors |= dict.fromkeys([one.selector for one in asked] + [one.selector for one in spread])
            ordered |= bool(opening or spread)
            crowding |= bool(asked or spread)
        crowding = crowding or bool(ports_of(pod)) or bool(nodes.residents.nominated(pod))
        crowding = crowding or minds_other_pods(pod, nodes)
    return PodInteractions(
        crowding, ordered, tuple(selectors), frozenset(member.pod.key for member in members)
    )


def kinds_of(
    members: Sequence[Member],
    snapshot: Snapshot,
    nodes: Nodes,
    company: PodInteractions,
    tree: AskedGroup | None = None,
) -> tuple[Kind, ...]:
    """The kinds of a gang, in the order of their first members. Members of different groups are not alike."""
    groups = {} if tree is None else _numbers(tree)
    users = Counter(claim.metadata.uid for member in members for claim in member.claims)
    shared = {uid for uid, number in users.items() if number > 1}
    of_key: dict[tuple[int, Hashable], list[int]] = {}
    likes: dict[Hashable, int] = {}
    texts: dict[int, bytes] = {}
    for at, member in enumerate(members):
        key = _key(member, shared, texts, nodes, company)
        likes.setdefault(key, len(likes))
        of_key.setdefault((groups.get(at, 0), key), []).append(at)
    return tuple(
        structs.replace(
            _kind(number, [members[at] for at in positions], positions, shared, snapshot),
            group=group,
            like=likes[key],
        )
        for number, ((group, key), positions) in enumerate(of_key.items())
    )


def _numbers(tree: AskedGroup) -> dict[int, int]:
    """Position of a member -> the number of its group among the groups of pods."""
    return {at: number for number, group in enumerate(tree.pod_groups()) for at in group.members}


def kind_of(member: Member, snapshot: Snapshot) -> Kind:
    """The kind of a member that shares no claim with others."""
    return _kind(0, [member], [0], set(), snapshot)


def likeness(member: Member, nodes: Nodes, company: PodInteractions) -> Hashable:
    """Equal for members of one kind, none of which shares a claim with others."""
    return _key(member, set(), {}, nodes, company)


def _kind(
    number: int, members: Sequence[Member], positions: Iterable[int], shared: set[str], snapshot: Snapshot
) -> Kind:
    first = members[0]
    own = tuple(at for at, claim in enumerate(first.claims) if claim.metadata.uid not in shared)
    claims = [first.claims[at] for at in own]
    others = tuple(claim for claim in first.claims if claim.metadata.uid in shared)
    shape, error = None, None
    try:
        _check_preferences(first.claims, snapshot)
        if others:
            claim_shape(others, snapshot)
        shape = claim_shape(claims, snapshot) if claims else None
    except Fatal as fatal:
        error = fatal
    return Kind(
        number,
        tuple(members),
        tuple(positions),
        own,
        others,
        demand(first.pod),
        backed_resources(snapshot, first.pod),
        shape,
        error,
        prefers=has_preferences(first.claims, snapshot.classes),
        has_alternatives=error is None and _has_alternatives(first.claims, snapshot),
    )


def _check_preferences(claims: Sequence[ResourceClaim], snapshot: Snapshot) -> None:
    """Raise Fatal for preferences that cannot be read."""
    if not has_preferences(claims, snapshot.classes):
        return
    try:
        for claim in claims:
            alignments(claim, snapshot.classes)
        partitioned_requests(claims, snapshot)
    except Malformed as exc:
        raise Fatal(Reason.PREFERENCES_INVALID, str(exc)) from exc


def _has_alternatives(claims: Sequence[ResourceClaim], snapshot: Snapshot) -> bool:
    if any(request.first_available for claim in claims for request in claim.spec.devices.requests):
        return True
    if not has_preferences(claims, snapshot.classes):
        return False
    aligned = [one for claim in claims for one in alignments(claim, snapshot.classes)]
    return any(len(one.accepted) > 1 for one in aligned) or bool(partitioned_requests(claims, snapshot))


def _key(
    member: Member, shared: set[str], texts: dict[int, bytes], nodes: Nodes, company: PodInteractions
) -> Hashable:
    pod = member.pod
    # Labels differ from pod to pod in a StatefulSet. They matter only to affinity and spread.
    labels = (
        tuple(nodes.residents.against(pod)),
        tuple(selector.matches(pod.metadata.labels) for selector in company.selectors),
        spread_of(pod) if pod.spec.topology_spread_constraints else (),
    )
    return (
        pod.key.namespace,
        _text(pod, texts),
        (pod.status.container_statuses, pod.status.init_container_statuses),
        labels,
        tuple(_own_volumes(pod, nodes)),
        tuple(
            (claim.metadata.uid, "")
            if claim.metadata.uid in shared
            else (claim.spec.key or claim.metadata.uid.encode(), preferences_of(claim))
            for claim in member.claims
        ),
        tuple(claim.allocation.node_selector for claim in member.held if claim.allocation is not None),
    )


def _own_volumes(pod: Pod, nodes: Nodes) -> Iterator[Hashable]:
    """What may differ between the claims of ephemeral volumes, which are made from one template."""
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None:
            claim = nodes.volumes.objects.claim_of(pod, volume)
            selected = claim.metadata.annotations.get(SELECTED_NODE) if claim is not None else None
            yield claim and (claim.spec.volume_name, claim.status.phase, selected)


def _text(pod: Pod, texts: dict[int, bytes]) -> bytes:
    """The spec of a pod without the names of its claims and its group."""
    found = texts.get(id(pod.spec))
    if found is None:
        try:
            excluded = {"resource_claims", "scheduling_group"}
            found = pod.spec.__pydantic_serializer__.to_json(pod.spec, exclude=excluded)
        except ValueError:  # text that is not Unicode: such a pod is like no other
            found = str(pod.key).encode()
        texts[id(pod.spec)] = found
    return found
