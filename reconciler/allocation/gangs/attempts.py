"""Tries to put one more member on a node. Alike members on alike nodes are decided once and then repeated.

Devices of other members on the node are given anew if the member does not fit otherwise: so the answer is
complete where each device belongs to one node. Where several nodes reach a device, or where devices take of
their nodes, `refusing` names devices that a try may not use, and the search tries all alternatives.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec import Struct, field, structs

from kernels.types import Mask
from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.dra.charging import Charging
from reconciler.allocation.dra.node_attempt import Only
from reconciler.allocation.dra.result import pinned_to_node
from reconciler.allocation.gangs.kinds import Kind
from reconciler.allocation.gangs.places import Likeness
from reconciler.allocation.placement.device_room import charging_of
from reconciler.allocation.policies.policy import PodRoom
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.claims import Allocation, ResourceClaim
from reconciler.api.objects.model import Model
from reconciler.api.objects.plan import Granted, Plan, Reason
from reconciler.errors import ReconcilerError
from reconciler.state.devices.snapshot import NodeSubset, Snapshot
from reconciler.state.trial import Trial

Pair = tuple[str, str, int]
"""uid of a claim, request, row of the fleet"""


class OutOfSteps(ReconcilerError):
    """The steps are used up."""


class Pace(Struct):
    """How many steps remain. A step is one device or one node that is tried."""

    budget: Budget
    remaining: int
    taken: int = 0

    def step(self, number: int = 1) -> None:
        """Count steps. Raises OutOfSteps, and Unfinished as the budget does."""
        self.budget.spend()
        self.taken += number
        self.remaining -= number
        if self.remaining < 0:
            raise OutOfSteps


class PlacedMember(Struct, frozen=True):
    """A member on a node, with the claims that it brought."""

    kind: int
    member: int
    """Position in the kind"""
    claims: tuple[ResourceClaim, ...]


class NodeSeats(Struct):
    """One place and the members on it."""

    place: int
    seated: list[PlacedMember] = field(default_factory=list)

    @property
    def kinds(self) -> tuple[int, ...]:
        """In the order of arrival."""
        return tuple(one.kind for one in self.seated)


class Sample(Struct, frozen=True):
    """A plan as fields, from which others are made."""

    plan: Plan
    fields: dict[str, object]
    devices: dict[str, object]
    results: tuple[dict[str, object], ...]

    @classmethod
    def of(cls, plan: Plan) -> "Sample":
        """The fields that are set."""
        devices = plan.allocation.devices
        return cls(plan, _fields(plan.allocation), _fields(devices), tuple(map(_fields, devices.results)))


class Pattern(Struct, frozen=True):
    """The plans of all claims of a node by positions in its view, to be repeated on alike nodes."""

    samples: tuple[tuple["Sample", tuple[int, ...]], ...]
    """For each claim in order: a plan, and the positions of its devices"""
    renewed: int
    """How many claims, from the end, got new devices"""


class Attempts:
    """One search in one domain."""

    def __init__(
        self,
        trial: Trial,
        likeness: Likeness,
        devices: Mapping[str, Mask],
        pace: Pace,
        *,
        apart: bool,
        policies: Policies = PLAIN,
    ) -> None:
        """`devices`: uid of a claim -> (D,) what it may use; others may use all. `apart`: each device belongs
        to one node and takes nothing of it. `policies` order the devices inside a node.
        """
        self._trial, self._likeness, self._devices = trial, likeness, devices
        self._pace, self._apart, self._policies = pace, apart, policies
        self._base = trial.snapshot
        self._order = self._base.topology.order
        self._known: dict[Hashable, Pattern | None] = {}
        self._decided: list[tuple[int, tuple[int, ...], int, int, list[Plan] | None]] = []
        """Tries that are not in `_known` yet: place, members there, kind, number, plans"""
        self.gave_up = False
        """Whether a node was given up: that a member does not fit there is not proved"""

    def put(
        self,
        kind: Kind,
        claims: Sequence[ResourceClaim],
        seats: NodeSeats,
        number: int = 1,
        *,
        member: int = 0,
        refusing: frozenset[Pair] = frozenset(),
    ) -> list[Plan] | None:
        """Plans for the claims of members from `member` on, on a node; those of others there may change.

        They are held in the trial on return. None if they do not fit; the trial is unchanged then.
        """
        if not claims:
            return []
        charging = None if self._apart else self._charging(kind, member, claims)
        key = None if refusing or charging is not None else self._key(kind, seats, number)
        if key in self._known:
            pattern = self._known[key]
            return None if pattern is None else self._repeat(pattern, seats, claims)
        found, gave_up = self._decide(claims, seats, refusing, charging)
        if not refusing and not gave_up and charging is None:
            self._decided.append((seats.place, seats.kinds, kind.number, number, found))
        self.gave_up |= gave_up
        return found

    def _charging(self, kind: Kind, member: int, claims: Sequence[ResourceClaim]) -> Charging | None:
        """What the devices of a member may take of a node beside those that it has; None if none take any."""
        trial, of = self._trial, kind.members[member]
        plans = [plan for claim in kind.shared if (plan := trial.store.assumed(claim.metadata.uid))]
        held = (*of.held, *(kind.with_devices(plan) for plan in plans))
        found = charging_of(of.pod, held, trial.snapshot, trial.nodes)
        uids = {claim.metadata.uid for claim in kind.shared}
        shared = frozenset([at for at, claim in enumerate(claims) if claim.metadata.uid in uids])
        return found and structs.replace(found, shared=shared)

    def _key(self, kind: Kind, seats: NodeSeats, number: int) -> Hashable:
        """Equal for tries with equal outcomes; None if that is not known.

        Many gangs need one node: which nodes are alike is not asked before a second one is tried.
        """
        if not self._decided and not self._known:
            return None
        for place, kinds, of_kind, of_number, found in self._decided:
            if (like := self._likeness.of_devices(place)) is not None:
                pattern = None if found is None else self._pattern(found, place)
                self._known[like, kinds, of_kind, of_number] = pattern
        self._decided.clear()
        like = self._likeness.of_devices(seats.place)
        return None if like is None else (like, seats.kinds, kind.number, number)

    def _snapshot(self, seats: NodeSeats) -> Snapshot:
        """The state that matters for a node. Untouched nodes are as before, which saves time."""
        return self._base if self._apart and not seats.seated else self._trial.snapshot

    def _decide(
        self,
        claims: Sequence[ResourceClaim],
        seats: NodeSeats,
        refusing: frozenset[Pair],
        charging: Charging | None,
    ) -> tuple[list[Plan] | None, bool]:
        """The plans, and whether the search gave up."""
        outcome, gave_up = self._on(claims, seats, refusing, charging)
        if outcome is not None:
            for plan in outcome.plans:
                self._trial.assume(plan)
            return list(outcome.plans), False
        others = [claim for seated in seats.seated for claim in seated.claims]
        if not self._apart or not others:
            return None, gave_up
        mark = self._trial.mark()
        for claim in others:
            self._trial.release(claim.metadata.uid)
        try:
            outcome, gave_up = self._on([*others, *claims], seats, frozenset())
        except OutOfSteps:
            self._trial.back_to(mark)
            raise
        if outcome is None:
            self._trial.back_to(mark)
            return None, gave_up
        for plan in outcome.plans:
            self._trial.assume(plan)
        return list(outcome.plans), False

    def _on(
        self,
        claims: Sequence[ResourceClaim],
        seats: NodeSeats,
        refusing: frozenset[Pair],
        charging: Charging | None = None,
    ) -> tuple[Granted | None, bool]:
        self._pace.step()
        snapshot = self._snapshot(seats)
        outcome = decide(
            claims,
            snapshot,
            nodes=self._only([seats.place]),
            steps=max(self._pace.remaining, 1),
            budget=self._pace.budget,
            only=self._rows(claims, seats.place, refusing),
            policy=self._policies.of(claims, snapshot, self._pace.budget),
            charging=charging,
        )
        self._pace.step(outcome.steps)
        if isinstance(outcome, Granted):
            return outcome, False
        return None, outcome.reason is Reason.GAVE_UP

    def best_of(
        self, claims: Sequence[ResourceClaim], all_seats: Sequence[NodeSeats], pod: PodRoom | None = None
    ) -> int:
        """The place, among several, where the preferences of claims are met best; -1 if they fit on none.

        `pod` is what policies may know of the member.
        """
        self._pace.step()
        snapshot = self._trial.snapshot
        outcome = decide(
            claims,
            snapshot,
            nodes=self._only([seats.place for seats in all_seats]),
            steps=max(self._pace.remaining, 1),
            budget=self._pace.budget,
            only=self._rows(claims, None),
            policy=self._policies.of(claims, snapshot, self._pace.budget),
            pod=pod,
        )
        self._pace.step(outcome.steps)
        return self._order.index(outcome.node) if isinstance(outcome, Granted) else -1

    def _only(self, places: Sequence[int]) -> NodeSubset:
        mask = np.zeros(len(self._order), dtype=np.bool_)
        mask[list(places)] = True
        return NodeSubset(self._order, mask)

    def _rows(
        self, claims: Sequence[ResourceClaim], place: int | None, refusing: frozenset[Pair] = frozenset()
    ) -> Only | None:
        """Which devices of one place, or of all, the requests may use that may not use all of them."""
        if not self._devices and not refusing:
            return None
        topology = self._base.topology
        rows = np.arange(topology.fleet.size) if place is None else topology.view(self._order[place]).rows
        found: dict[tuple[int, str], frozenset[int]] = {}
        for at, claim in enumerate(claims):
            uid = claim.metadata.uid
            mask, named = self._devices.get(uid), {request for of, request, _ in refusing if of == uid}
            usable = frozenset((rows if mask is None else rows[mask[rows]]).tolist())
            for name in named if mask is None else _requests(claim):
                found[at, name] = usable - {row for *of, row in refusing if of == [uid, name]}
        return found

    def pairs(self, plans: Sequence[Plan]) -> Iterator[Pair]:
        """What plans use, in the form in which a try can be kept from it."""
        fleet = self._base.fleet
        for plan in plans:
            for result in plan.allocation.devices.results:
                for row in fleet.rows_of(result.id):
                    yield plan.uid, result.request.partition("/")[0], row

    def _pattern(self, plans: Sequence[Plan], place: int) -> Pattern:
        """The plans by positions."""
        view = self._base.topology.view(self._order[place])
        position = {int(row): at for at, row in enumerate(view.rows.tolist())}
        samples = []
        for plan in plans:
            rows = [self._base.fleet.rows_of(result.id) for result in plan.allocation.devices.results]
            # While a pool is published anew, a device has rows of both generations; the node has one.
            here = [next(position[row] for row in of_device if row in position) for of_device in rows]
            samples.append((Sample.of(plan), tuple(here)))
        return Pattern(tuple(samples), len(plans))

    def _repeat(self, pattern: Pattern, seats: NodeSeats, claims: Sequence[ResourceClaim]) -> list[Plan]:
        """The same plans for other claims on an alike node."""
        everyone = [claim for seated in seats.seated for claim in seated.claims] + list(claims)
        view = self._base.topology.view(self._order[seats.place])
        fleet, made = self._base.fleet, []
        for claim, (sample, positions) in zip(
            everyone[len(everyone) - pattern.renewed :], pattern.samples, strict=True
        ):
            results = [
                part | fleet.id_of(view.row(at))._asdict()
                for part, at in zip(sample.results, positions, strict=True)
            ]
            fields = sample.fields | {"devices": sample.devices | {"results": results}}
            if results:
                fields["node_selector"] = pinned_to_node(view)
            made.append(
                replace(
                    sample.plan,
                    claim=claim.key,
                    uid=claim.metadata.uid,
                    resource_version=claim.metadata.resource_version,
                    node=view.node.name,
                    allocation=Allocation.model_validate(fields),
                )
            )
        for plan in made[: len(made) - len(claims)]:
            self._trial.release(plan.uid)
        for plan in made:
            self._trial.assume(plan)
        return made


def _fields(model: Model) -> dict[str, object]:
    return {name: getattr(model, name) for name in model.model_fields_set}


def _requests(claim: ResourceClaim) -> list[str]:
    return [request.name for request in claim.spec.devices.requests]
