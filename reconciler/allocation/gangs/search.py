"""The search for places of one gang in one domain. Complete within its steps. Source: GANG-8, GANG-12.

Members are placed one after another, the nodes in a fixed order, or as a placement policy prefers them beside
the members that have a place. Alike members are tried once, and so are alike nodes and states that failed.
Members of one kind without claims in common, whose pods mind only room and whose devices belong to one node
each, fill node after node: no other choice can place more.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.gangs.attempts import Attempts, NodeSeats, OutOfSteps, Pace, Pair, PlacedMember
from reconciler.allocation.gangs.kinds import Kind, PodInteractions
from reconciler.allocation.gangs.limits import Limits
from reconciler.allocation.gangs.places import Likeness, PlaceOrder, Places, takes
from reconciler.allocation.policies.selection import PLAIN, Policies
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.state.trial import Trial


class Taken(Struct, frozen=True):
    """One member's place."""

    kind: int
    member: int
    place: int


class PlacesFound(Struct, frozen=True):
    """What a search in one domain found."""

    taken: tuple[Taken, ...] | None
    """The places, which are held in the trial; None if the domain has too few"""
    most: int
    """No more members fit into the domain"""
    fits: int
    """So many were placed together"""


class Partial(Struct, frozen=True):
    """Places of some members."""

    taken: tuple[Taken, ...] = ()
    plans: tuple[Plan, ...] = ()

    def place(self, field: "Field") -> None:
        """Place them again, in a trial without them."""
        for plan in self.plans:
            field.trial.assume(plan)
        for one in self.taken:
            kind = field.kinds[one.kind]
            node, wanted = field.order[one.place], takes(kind, one.member, field.trial)
            field.trial.host(kind.members[one.member].pod, node, wanted)


class Field(Struct, eq=False):
    """What all searches of one decision share."""

    kinds: Sequence[Kind]
    company: PodInteractions
    places: Places
    trial: Trial
    apart: bool
    """Whether each device that the gang could use belongs to one node and takes nothing of it, and each
    counter belongs to one node too
    """
    order: tuple[str, ...]
    """The names of the nodes, by place"""
    policies: Policies = PLAIN
    """Which nodes of a domain, and which devices of a node, to prefer"""
    spare: Sequence[int] = ()
    """In a tree: how many members of each group may be left out"""

    @property
    def shares(self) -> bool:
        """Whether members have claims in common."""
        return any(kind.shared for kind in self.kinds)


class Search:
    """One search."""

    def __init__(
        self,
        field: Field,
        limits: Limits,
        likeness: Likeness,
        devices: Mapping[str, Mask],
        parts: Sequence[Rows],
        pace: Pace,
        *,
        but: Sequence[Kind] = (),
    ) -> None:
        """`parts` are the places of the domain in the order in which they are tried. `devices`: uid of a
        claim -> (D,) what it may use; others may use all.

        A policy orders the places of a part. No member of the kinds in `but` gets a place.
        """
        self._field, self._limits, self._likeness, self._pace = field, limits, likeness, pace
        self._kinds, self._trial = [kind for kind in field.kinds if kind not in but], field.trial
        self._among: Rows = np.concatenate(parts)
        self._in_order = PlaceOrder(parts, field.places, field.trial, field.policies, pace.budget)
        self._attempts = Attempts(
            field.trial, likeness, devices, pace, apart=field.apart, policies=field.policies
        )
        self._order = field.order
        self._seats = {place: NodeSeats(place) for place in self._among.tolist()}
        self._placed = [0] * len(field.kinds)
        self._skipped = [0] * len(field.kinds)
        self._taken: list[Taken] = []
        self._used = {key: np.zeros(len(self._order), dtype=np.int64) for key in limits.supplies}
        self._failed: set[Hashable] = set()
        self._preferred: dict[tuple[int, ...], int] = {}
        """Kind, and codes of places in order -> the code of the best place; 0 if it fits on none"""
        self._codes: dict[Hashable, int] = {}
        self._alike: Codes = np.zeros(len(self._order), dtype=np.int32)
        """(N,) equal codes: devices that are alike now. Kept only if nodes differ in preferences"""
        self._backtracked = False
        self._filling = (
            len(self._kinds) == 1 and field.apart and not field.company.crowding and not field.shares
        )
        self._hard_first = sorted(
            self._kinds, key=lambda kind: int(limits.each[kind.number][self._among].sum())
        )
        self.best = Partial()
        """The most members that were placed together so far"""

    @property
    def _total(self) -> int:
        return sum(len(kind.members) for kind in self._kinds)

    def run(self, target: int) -> PlacesFound:
        """Place so many members. Raises OutOfSteps; the trial is as before then, and if too few fit."""
        mark = self._trial.mark()
        try:
            done = self._solve(target)
        except OutOfSteps:
            self._note_best()
            self._trial.back_to(mark)
            raise
        if done:
            return PlacesFound(tuple(self._taken), len(self._taken), len(self._taken))
        self._trial.back_to(mark)
        if self._attempts.gave_up:
            raise OutOfSteps
        most = len(self.best.taken) if self._filling else target - 1
        return PlacesFound(None, most, len(self.best.taken))

    def _solve(self, target: int) -> bool:
        stack = [self._moves(target)]
        while stack:
            if len(self._taken) >= target and self._is_enough():
                return True
            if next(stack[-1], False):
                stack.append(self._moves(target))
                continue
            self._note_best()
            self._backtracked = True
            stack.pop()
        return False

    def _moves(self, target: int) -> Iterator[bool]:
        """Every way to go on from here, each undone before the next; the last stays if nobody asks again."""
        state = self._state() if self._backtracked else None
        if state is not None and (state in self._failed or self._too_few(target)):
            return
        slack = self._total - target - sum(self._skipped)
        waiting = [
            kind
            for kind in (self._hard_first if slack == 0 and not any(self._skipped) else self._kinds)
            if self._placed[kind.number] + self._skipped[kind.number] < len(kind.members)
        ]
        for kind in waiting if self._field.company.ordered else waiting[:1]:
            if self._filling:
                yield from self._fill(kind, target)
                continue
            if not self._skipped[kind.number]:  # members of a kind are skipped from the end
                yield from self._seat(kind)
            if slack > 0 and self._may_skip(kind):
                self._skipped[kind.number] += 1
                yield True
                self._skipped[kind.number] -= 1
        self._failed.add(self._state())

    def _may_skip(self, kind: Kind) -> bool:
        """Whether a group of a tree has enough members without one more of a kind."""
        spare = self._field.spare
        skipped = (self._skipped[one.number] for one in self._kinds if one.group == kind.group)
        return not spare or sum(skipped) < spare[kind.group]

    def _is_enough(self) -> bool:
        """Whether each group of a tree has enough members in their places."""
        lacking = [0] * len(self._field.spare)
        for kind in self._kinds if lacking else ():
            lacking[kind.group] += len(kind.members) - self._placed[kind.number]
        return all(number <= spare for number, spare in zip(lacking, self._field.spare, strict=True))

    def _seat(self, kind: Kind) -> Iterator[bool]:
        """Every way to place the next member of a kind."""
        member = self._placed[kind.number]
        claims = self._claims(kind, member)
        tried: set[Hashable] = set()
        for place in self._candidates(kind, claims):
            seats = self._seats[place]
            if tried and self._like(seats) in tried:
                continue
            self._pace.step()
            if not self._field.places.has_room(kind, self._order[place]):
                tried.add(self._like(seats))
                continue
            for _ in self._ways(kind, member, claims, seats):
                if not self._field.places.fits_with_devices(kind, member, self._order[place]):
                    continue
                self._sit(kind, member, claims, seats)
                yield True
                self._stand(kind, seats)
            tried.add(self._like(seats))

    def _fill(self, kind: Kind, target: int) -> Iterator[bool]:
        """One way to place more members of the only kind: as many as fit on the first node with room.

        Where policies order nodes, one member: the next one may prefer another node.
        """
        first, one_by_one = self._placed[kind.number], self._trial.store.supply.counts_device_shares
        tried: set[Hashable] = set()
        for place in self._candidates(kind, self._claims(kind, first)):
            seats = self._seats[place]
            if tried and self._like(seats) in tried:
                continue
            most = 1
            if (
                self._in_order.fixed
                and not one_by_one
                and not (seats.seated or kind.prefers or kind.has_alternatives)
            ):
                most = min(int(self._limits.each[kind.number][place]), target - first)
            for number in (most, 1) if most > 1 else (1,):
                self._pace.step()
                members = range(first, first + number)
                claims = [kind.own_claims(member) for member in members]
                if not self._field.places.has_room(kind, self._order[place]):
                    break
                mark = self._trial.mark()
                asked = list(chain.from_iterable(claims))
                if self._attempts.put(kind, asked, seats, number, member=first) is None:
                    continue
                if not self._field.places.fits_with_devices(kind, first, self._order[place]):
                    self._trial.back_to(mark)
                    continue
                for member, own in zip(members, claims, strict=True):
                    self._sit(kind, member, own, seats)
                yield True
                return  # no other choice can place more
            tried.add(self._like(seats))

    def _ways(
        self, kind: Kind, member: int, claims: Sequence[ResourceClaim], seats: NodeSeats
    ) -> Iterator[None]:
        """Every choice of devices that matters, held in the trial one after another.

        If each device belongs to one node and takes nothing of it, the first is enough: devices may be given
        anew later.
        """
        mark = self._trial.mark()
        refusals: list[frozenset[Pair]] = [frozenset()]
        seen = set(refusals)
        while refusals:
            refusing = refusals.pop()
            plans = self._attempts.put(kind, claims, seats, member=member, refusing=refusing)
            if plans is None:
                continue
            yield
            self._trial.back_to(mark)
            if self._field.apart:
                return
            if any(request.first_available for claim in claims for request in claim.spec.devices.requests):
                self._attempts.gave_up = True  # alternatives cannot be refused one by one
            for pair in self._attempts.pairs(plans):
                other = refusing | {pair}
                if other not in seen:
                    seen.add(other)
                    refusals.append(other)

    def _claims(self, kind: Kind, member: int) -> list[ResourceClaim]:
        """The claims of a member that have no devices yet."""
        own = kind.own_claims(member)
        return own + [claim for claim in kind.shared if self._allocated(claim) is None]

    def _allocated(self, claim: ResourceClaim) -> Plan | None:
        return self._trial.store.assumed(claim.metadata.uid)

    def _candidates(self, kind: Kind, claims: Sequence[ResourceClaim]) -> Iterator[int]:
        """Places that may have room for one more member of a kind."""
        plans = [plan for claim in kind.shared if (plan := self._allocated(claim)) is not None]
        allowed = self._limits.each[kind.number] > 0
        if plans or self._field.company.crowding:
            allowed = allowed & self._field.places.now(
                kind, self._placed[kind.number], plans, self._trial.snapshot
            )
        for key, need in self._limits.needs[kind.number].items():
            supply = self._limits.supplies[key]
            if not supply.far:
                allowed = allowed & (supply.local - self._used[key] >= need)
        found = self._in_order.of(kind, self._placed[kind.number], claims, allowed)
        if kind.has_alternatives:
            yield from self._best_first(kind, claims, list(found))
        else:
            yield from found

    def _best_first(self, kind: Kind, claims: Sequence[ResourceClaim], found: list[int]) -> list[int]:
        """The place first where the preferences of the claims are met best; of alike places one is asked."""
        if len(found) < 2:
            return found
        for place in found if not self._alike.any() else ():
            self._note_alike(self._seats[place])
        _, first = np.unique(self._alike[found], return_index=True)
        if len(first) == 1:
            return found
        asked = [found[at] for at in sorted(first.tolist())]
        key = (kind.number, *self._alike[asked].tolist())
        if key not in self._preferred or not self._field.apart or self._field.shares:
            room = self._in_order.room(kind, self._placed[kind.number])
            best = self._attempts.best_of(claims, [self._seats[place] for place in asked], room)
            self._preferred[key] = int(self._alike[best]) if best >= 0 else 0
        code = self._preferred[key]
        alike = [place for place in found if self._alike[place] == code][:1]
        return [*alike, *(place for place in found if place not in alike)]

    def _note_alike(self, seats: NodeSeats) -> None:
        """Note which devices are alike, as codes from 1."""
        like = self._likeness.of_devices(seats.place)
        key = (seats.place if like is None else like, seats.kinds)
        self._alike[seats.place] = self._codes.setdefault(key, len(self._codes) + 1)

    def _like(self, seats: NodeSeats) -> Hashable:
        """Equal for places of which one needs to be tried."""
        like = None if self._field.company.crowding else self._likeness.of_node(seats.place)
        return seats.place if like is None else (like, tuple(sorted(seats.kinds)))

    def _sit(self, kind: Kind, member: int, claims: Sequence[ResourceClaim], seats: NodeSeats) -> None:
        wanted = takes(kind, member, self._trial)
        self._trial.host(kind.members[member].pod, self._order[seats.place], wanted)
        seats.seated.append(PlacedMember(kind.number, member, tuple(claims)))
        self._taken.append(Taken(kind.number, member, seats.place))
        self._placed[kind.number] += 1
        self._count(kind, seats, 1)

    def _stand(self, kind: Kind, seats: NodeSeats) -> None:
        """Undo `_sit`, without the trial."""
        seats.seated.pop()
        self._taken.pop()
        self._placed[kind.number] -= 1
        self._count(kind, seats, -1)

    def _count(self, kind: Kind, seats: NodeSeats, sign: int) -> None:
        for key, need in self._limits.needs[kind.number].items():
            self._used[key][seats.place] += sign * need
        if self._alike.any():
            self._note_alike(seats)

    def _note_best(self) -> None:
        if len(self._taken) > len(self.best.taken):
            self.best = Partial(tuple(self._taken), tuple(self._plans()))

    def _plans(self) -> Iterator[Plan]:
        """The plans of all members that have a place."""
        for seats in self._seats.values():
            for seated in seats.seated:
                for claim in seated.claims:
                    plan = self._allocated(claim)
                    assert plan is not None  # the member has a place
                    yield plan

    def _state(self) -> Hashable:
        """Equal states have equal futures."""
        all_seats: dict[Hashable, int] = {}
        for seats in self._seats.values():
            if seats.seated:
                like = self._like(seats)
                if isinstance(like, int):
                    like = (like, tuple(sorted(seats.kinds)))
                all_seats[like] = all_seats.get(like, 0) + 1
        devices = None
        if not self._field.apart or self._field.shares:
            devices = frozenset(self._attempts.pairs(list(self._plans())))
        return frozenset(all_seats.items()), tuple(self._skipped), devices

    def _too_few(self, target: int) -> bool:
        """Whether counting shows that too few of the others fit now."""
        self._pace.step()
        numbers: Amounts = np.array(
            [
                len(kind.members) - self._placed[kind.number] - self._skipped[kind.number]
                for kind in self._kinds
            ],
            dtype=np.int64,
        )
        each = self._remaining()
        possible = sum(min(int(fits), int(number)) for fits, number in zip(each, numbers, strict=True))
        return len(self._taken) + possible < target

    def _remaining(self) -> list[int]:
        """Of each kind: how many more members fit by the counts of devices, without the others."""
        found = []
        for kind in self._kinds:
            each = self._limits.each[kind.number][self._among]
            for key, need in self._limits.needs[kind.number].items():
                supply = self._limits.supplies[key]
                left = supply.local[self._among] - self._used[key][self._among] + supply.far
                each = np.minimum(each, left // need)
            found.append(int(np.maximum(each, 0).sum()))
        return found
