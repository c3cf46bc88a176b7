"""Which nodes a member of a gang may use, in which order, which are alike, and whether a plan still fits."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from kernels.types import Mask, Rows
from reconciler.allocation.alignment.partitions import partitioned_requests
from reconciler.allocation.alignment.preferences import NODE, alignments, limit
from reconciler.allocation.dra.allocate import NodeStates, compared_attributes
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.dra.preferred import preferred_places
from reconciler.allocation.dra.refusal_counts import unready_pools
from reconciler.allocation.gangs.kinds import (
    GangGranted,
    GangQuestion,
    Kind,
    PodInteractions,
    kinds_of,
    pod_interactions,
)
from reconciler.allocation.placement.placing import Placement
from reconciler.allocation.policies.policy import PodRoom
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Plan
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot, still_valid, wants_all
from reconciler.state.nodes.room import Wanted
from reconciler.state.pods.device_shares import demand_of, use_of
from reconciler.state.trial import Trial


class Places:
    """The nodes as the pods see them."""

    def __init__(self, kinds: Sequence[Kind], company: PodInteractions, trial: Trial) -> None:
        """Raises Rejected and Unlisted as `Placement` does."""
        self._trial, self._company = trial, company
        self._placement = Placement(trial.nodes, supposed=trial.supposed)
        snapshot = trial.snapshot
        self._size = len(snapshot.topology.order)
        first = {kind.like: kind for kind in reversed(kinds)}
        of_like = {like: self._possible(kind, snapshot) for like, kind in first.items()}
        self.at_first = [of_like[kind.like] for kind in kinds]
        """(N,) of each kind: nodes that its members may use, wherever the others are"""

    def now(self, kind: Kind, member: int, allocated: Sequence[Plan], snapshot: Snapshot) -> Mask:
        """(N,) nodes that a member may use now, if they have room. `allocated` are plans of shared claims."""
        if not self._company.crowding and not allocated:
            return self.at_first[kind.number]
        return self._choose(kind, member, allocated, snapshot)

    def room(self, kind: Kind, member: int, policies: Policies, snapshot: Snapshot) -> PodRoom | None:
        """What policies may know of a member, and what it prefers; the others count where they are now."""
        return self._placement.room(kind.members[member].pod, snapshot, policies)

    def has_room(self, kind: Kind, node: str) -> bool:
        """Whether a node has room for one more member now."""
        row = self._trial.nodes.row_of(node)
        return row is not None and self._trial.nodes.room.holds(row, kind.wanted, kind.waived)

    def fits_with_devices(self, kind: Kind, member: int, node: str) -> bool:
        """Whether a member whose claims have devices in the trial has room for what these take of its node.

        Claims of several members have no device that stands for a resource of the node (NAR-4).
        """
        store = self._trial.store
        if not store.supply.counts_device_shares:
            return True
        plans = [store.assumed(claim.metadata.uid) for claim in kind.shared]
        if any(
            plan is not None and use_of(plan.allocation, store.supply.node_uses).is_mapped for plan in plans
        ):
            return False
        row = self._trial.nodes.row_of(node)
        wanted = takes(kind, member, self._trial)
        return row is not None and self._trial.nodes.room.holds(row, wanted, kind.waived)

    def left_out(self, kind: Kind, snapshot: Snapshot) -> str:
        """Why nodes and pools are left out for a kind; empty if none is."""
        return left_out(kind, self._placement, snapshot)

    def _possible(self, kind: Kind, snapshot: Snapshot) -> Mask:
        if self._company.ordered:
            return self._placement.if_others_come(kind.pod, kind.held, snapshot).mask
        return self._choose(kind, 0, (), snapshot)

    def _choose(self, kind: Kind, member: int, allocated: Sequence[Plan], snapshot: Snapshot) -> Mask:
        # The member's own pod: a pod is never in its own way, but the first of its kind may have a place.
        of = kind.members[member]
        held = (*of.held, *map(kind.with_devices, allocated))
        partners = self._company.pods
        nodes = self._placement.before_binding(of.pod, held, snapshot, partners=partners).nodes
        return np.ones(self._size, dtype=np.bool_) if nodes is None else nodes.mask


def left_out(kind: Kind, placement: Placement, snapshot: Snapshot) -> str:
    """Why nodes are left out for the pod of a kind, and pools for its claims; empty if none is."""
    pools = unready_pools(kind.shape.parsed, snapshot) if kind.shape is not None else ""
    return "; ".join(filter(None, [placement.left_out(kind.pod, kind.held, snapshot), pools]))


def takes(kind: Kind, member: int, trial: Trial) -> Wanted:
    """What a member takes of its node, with the devices that its claims have in a trial."""
    if not trial.store.supply.counts_device_shares:
        return kind.wanted
    of = kind.members[member]
    plans = [plan for claim in of.claims if (plan := trial.store.assumed(claim.metadata.uid)) is not None]
    return demand_of(of.pod, trial.store, plans)


def leave(question: GangQuestion, trial: Trial) -> dict[ObjectKey, str]:
    """Take the members off the nodes on which they are counted; return those nodes."""
    found = {}
    for member in question.members:
        charge = trial.nodes.room.charged(member.pod.key)
        if charge is not None:
            found[member.pod.key] = charge.node
            trial.remove(member.pod.key)
    return found


class Likeness:
    """Which nodes are alike before any member has a place: what fits one fits the other, in equal positions.

    Unknown (None) for nodes that `NodeStates` does not compare, where devices take of their nodes, and for
    partition tables, which name devices.
    """

    def __init__(
        self,
        kinds: Sequence[Kind],
        allowed: Mask,
        parts: Sequence[Rows],
        devices: Iterable[Mask],
        trial: Trial,
        *,
        joined: bool,
    ) -> None:
        """`allowed` (K, N) are the places of each kind; those in `parts` are compared. `devices`: (D,) masks
        of what claims may use; others may use all. `joined`: claims that several members use exist.
        """
        self._masks, self._parts = allowed, parts
        self._shapes = [kind.shape for kind in kinds if kind.shape is not None]
        self._preferring = [kind for kind in kinds if kind.error is None and kind.prefers]
        self._devices = list({id(mask): mask for mask in devices}.values())
        self._snapshot, self._nodes = trial.snapshot, trial.nodes
        self._known = not joined and not trial.store.supply.counts_device_shares
        self._alike = self._known and not self._shapes
        self._room = trial.nodes.room.free(frozenset(), but=())

    def of_devices(self, place: int) -> Hashable | None:
        """Equal for nodes whose devices are alike; None if that is not known."""
        if self._alike:
            return 0
        number = -1 if self._states is None else self._states.of(place)
        return number if number >= 0 else None

    def of_node(self, place: int) -> Hashable | None:
        """Equal for nodes that are alike for pods, too, as long as pods mind only room."""
        devices = self.of_devices(place)
        if devices is None:
            return None
        row = self._nodes.row_of(self._snapshot.topology.order[place])
        assert row is not None
        return devices, self._masks[:, place].tobytes(), self._room[:, row].tobytes()

    @cached_property
    def _states(self) -> NodeStates | None:
        """Asked for on first use: many gangs need one node."""
        kinds, snapshot = self._preferring, self._snapshot
        if not self._known or any(partitioned_requests(kind.members[0].claims, snapshot) for kind in kinds):
            return None
        attributes = {name for shape in self._shapes for name in compared_attributes(shape.parsed)}
        for claim in (claim for kind in kinds for claim in kind.members[0].claims):
            tiers = (tier for one in alignments(claim, snapshot.classes) for tier in one.accepted)
            attributes |= {limit(tier, ()).match_attribute or "" for tier in tiers if tier != NODE}
        options = (option for shape in self._shapes for slot in shape.parsed.slots for option in slot.options)
        places = np.concatenate(self._parts)
        return NodeStates.by(options, tuple(sorted(attributes)), snapshot, places, self._devices)


class PlaceOrder:
    """Orders the places of one domain."""

    def __init__(
        self, parts: Sequence[Rows], places: Places, trial: Trial, policies: Policies, budget: Budget
    ) -> None:
        """`parts` are the places of the domain in the order in which they are tried; policies order each."""
        self._parts, self._places, self._trial = parts, places, trial
        self._policies, self._budget = policies, budget
        self.fixed = policies.order_nothing
        """Whether the order is always that of the parts"""

    def of(self, kind: Kind, member: int, claims: Sequence[ResourceClaim], allowed: Mask) -> Iterator[int]:
        """The allowed places (N,) in order. `claims` are those that the member brings.

        Whenever another place is asked for, the trial is as it was at first.
        """
        parts = [part[allowed[part]] for part in self._parts]
        for part in parts:
            if self.fixed or len(part) < 2:
                yield from part.tolist()
                continue
            among = np.zeros(len(allowed), dtype=np.bool_)
            among[part] = True
            yield (first := next(self._preferred(kind, member, claims, among)))
            # Ordered again, so that no snapshot is kept while others are placed: each would copy columns.
            yield from [place for place in self._preferred(kind, member, claims, among) if place != first]

    def room(self, kind: Kind, member: int) -> PodRoom | None:
        """What policies may know of a member, and what it prefers."""
        return self._places.room(kind, member, self._policies, self._trial.snapshot)

    def _preferred(
        self, kind: Kind, member: int, claims: Sequence[ResourceClaim], among: Mask
    ) -> Iterator[int]:
        """The places in `among` (N,) in the order of the policy for these claims; none orders pods alone."""
        snapshot = self._trial.snapshot
        policy = self._policies.of(claims, snapshot, self._budget) if claims else None
        prefer = preferred_places(claims, snapshot, policy, self.room(kind, member))
        return iter(np.flatnonzero(among).tolist()) if prefer is None else prefer(among)


def gang_still_fits(question: GangQuestion, granted: GangGranted, before: Snapshot, trial: Trial) -> bool:
    """Whether all seats are possible in the state of a trial, which is as before on return.

    Sound, not complete: the devices of the seats, their counters and their nodes must not have changed since
    `before`; other pods may have come if each member still suits its node beside them, one member after
    another in the order in which they were placed.
    """
    mark = trial.mark()
    try:
        return _devices_fit(granted, question, before, trial.snapshot) and _pods_fit(granted, question, trial)
    except Rejected:
        return False
    finally:
        trial.back_to(mark)


def _devices_fit(granted: GangGranted, question: GangQuestion, before: Snapshot, now: Snapshot) -> bool:
    claims = chain.from_iterable(member.claims for member in question.members)
    whole = any(map(wants_all, claims))
    return all(
        still_valid(seat.node, [one.id for one in plan.allocation.devices.results], before, now, whole=whole)
        for seat in granted.seats
        for plan in seat.plans
    )


def _pods_fit(granted: GangGranted, question: GangQuestion, trial: Trial) -> bool:
    leave(question, trial)
    company = pod_interactions(question.members, trial.nodes)
    kinds = kinds_of(question.members, trial.snapshot, trial.nodes, company, question.tree)
    places = Places(kinds, company, trial)
    order = trial.snapshot.topology.order
    place_of = {name: at for at, name in enumerate(order)}
    seats = {seat.pod: seat for seat in granted.seats}
    member_of = {
        member.pod.key: (kind, number) for kind in kinds for number, member in enumerate(kind.members)
    }
    for plan in chain.from_iterable(seat.plans for seat in granted.seats):
        trial.assume(plan)
    for pod in granted.order:
        (kind, number), node = member_of[pod], seats[pod].node
        if node not in place_of:
            return False
        plans = [trial.store.assumed(claim.metadata.uid) for claim in kind.shared]
        known = [plan for plan in plans if plan is not None]
        allowed = places.now(kind, number, known, trial.snapshot)[place_of[node]]
        if not (allowed and places.at_first[kind.number][place_of[node]] and places.has_room(kind, node)):
            return False
        if not places.fits_with_devices(kind, number, node):
            return False
        trial.host(kind.members[number].pod, node, takes(kind, number, trial))
    return True
