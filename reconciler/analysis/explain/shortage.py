"""What blocks claims: the requests or requirements without which they fit, and the counters that are
short.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kernels.fit import fits, total_draw
from kernels.groups import distinct
from kernels.types import Amounts, Codes, Rows
from reconciler.allocation.alignment.deciding import PreferenceKey, decide
from reconciler.allocation.alignment.preferences import narrowed
from reconciler.allocation.dra.consumption import RequestDraws, drawn_by
from reconciler.allocation.explanation import JointShortage, Shortage
from reconciler.api.objects.claims import DeviceRequest, ResourceClaim
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.api.objects.quantity import NANO, Format, Quantity
from reconciler.state.caches import Cache, share
from reconciler.state.devices.counters import Scale
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Trail
from reconciler.state.devices.snapshot import Snapshot

MOST_CONSTRAINTS = 8
MOST_REQUESTS = 32
"""Claims with more requests are not tested in parts, because each part needs a search."""
STEPS = 2_000
"""Maximum devices tried on one node in one search."""
EFFORT = 50_000
"""Maximum devices tried in all searches of one explanation, if a user waits for it."""

RequestName = tuple[ObjectKey, str]


class Conflict(NamedTuple):
    """Requests and constraints that cannot hold together, though all but any one of them can."""

    requests: tuple[RequestName, ...] = ()
    constraints: tuple[tuple[ObjectKey, int], ...] = ()
    """Of each: the claim, and the number in the claim"""


class Relaxation:
    """Asks the allocator about variations of refused claims, on the same snapshot."""

    def __init__(
        self,
        claims: Sequence[ResourceClaim],
        snapshot: Snapshot,
        nodes: Collection[str] | None,
        effort: int = EFFORT,
    ) -> None:
        """`effort` limits the devices tried in total. After that, all answers are unknown."""
        self._claims = claims
        self._world = snapshot
        self._nodes = nodes
        self._left = effort

    def blocking_constraints(self) -> Iterator[str]:
        """Attributes of the constraints that alone block the claims."""
        left = MOST_CONSTRAINTS
        for at, claim in enumerate(self._claims):
            constraints = claim.spec.devices.constraints
            for number, constraint in enumerate(constraints):
                if not left:
                    return
                left -= 1
                others = (*constraints[:number], *constraints[number + 1 :])
                changed = _with(claim, claim.spec.devices.requests, others)
                if self._fits([*self._claims[:at], changed, *self._claims[at + 1 :]], self._nodes) is True:
                    yield constraint.match_attribute or constraint.distinct_attribute or ""

    def blocking_preferences(self, described: Iterable[tuple[str, PreferenceKey]]) -> Iterator[str]:
        """Texts of the joint allocation requirements that alone block the claims."""
        for text, preference in islice(described, MOST_CONSTRAINTS):
            if self.fits_without([preference]) is True:
                yield text

    def fits_without(self, preference: Collection[PreferenceKey]) -> bool | None:
        """Whether the claims fit if some requirements are ignored; None if unknown."""
        return self._fits(self._claims, self._nodes, preference)

    @property
    def has_effort(self) -> bool:
        """Whether more devices may be tried. Without it, answers are unknown."""
        return self._left > 0

    def answer_on(
        self, snapshot: Snapshot, requests: Collection[RequestName]
    ) -> Granted | Unsatisfied | None:
        """The answer to some of the requests on another snapshot; None if unknown."""
        return self._answer(
            list(self._only(Conflict(tuple(requests), self._every.constraints))), self._nodes, snapshot
        )

    @property
    def _every(self) -> Conflict:
        claims = self._claims
        return Conflict(
            tuple([(claim.key, r.name) for claim in claims for r in claim.spec.devices.requests]),
            tuple([(c.key, number) for c in claims for number in range(len(c.spec.devices.constraints))]),
        )

    def conflict(self, among: Conflict | None = None, node: str = "") -> Conflict:
        """What cannot hold together, on one node or on all; found by leaving out one part after another.

        Empty for more than MOST_REQUESTS. `among` is known to be too much.
        """
        kept, nodes = among or self._every, (node,) if node else self._nodes
        if len(kept.requests) > MOST_REQUESTS:
            return Conflict()
        for request in kept.requests:
            fewer = kept._replace(requests=tuple([one for one in kept.requests if one != request]))
            if self._fits(list(self._only(fewer)), nodes) is False:
                kept = fewer
        kept = kept._replace(
            constraints=tuple([one for one in kept.constraints if self._concerns(one, kept)])
        )
        for constraint in kept.constraints[:MOST_REQUESTS]:
            fewer = kept._replace(constraints=tuple([one for one in kept.constraints if one != constraint]))
            if self._fits(list(self._only(fewer)), nodes) is False:
                kept = fewer
        return kept

    def _concerns(self, constraint: tuple[ObjectKey, int], kept: Conflict) -> bool:
        key, number = constraint
        claim = next(claim for claim in self._claims if claim.key == key)
        named = [name.partition("/")[0] for name in claim.spec.devices.constraints[number].requests]
        return any(of == key and (not named or name in named) for of, name in kept.requests)

    def described(self, conflict: Conflict) -> Iterator[tuple[ObjectKey, str]]:
        """The claim of each constraint, and `distinct d/gpu` or `match d/gpu`."""
        for claim in self._claims:
            for number, one in enumerate(claim.spec.devices.constraints):
                if (claim.key, number) in conflict.constraints:
                    kind = "match" if one.match_attribute is not None else "distinct"
                    yield claim.key, f"{kind} {one.match_attribute or one.distinct_attribute}"

    def largest_count(self, conflict: Conflict, node: str) -> tuple[str, int, int] | None:
        """The largest request of a conflict, how many devices fit on a node beside the others, and how many
        it wants; None if it wants 1 or has alternatives.
        """
        claims = list(self._only(conflict))
        exact = [
            (r.exactly.wanted, -at, r)
            for at, claim in enumerate(claims)
            for r in claim.spec.devices.requests
            if r.exactly is not None
        ]
        wanted, place, request = max(exact, key=lambda one: one[:2], default=(1, 0, None))
        if request is None or request.exactly is None or wanted < 2:
            return None
        fits, too_many, at = 0, wanted, -place
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            exactly = request.exactly.model_copy(update={"count": middle})
            fewer = request.model_copy(update={"exactly": exactly})
            others = tuple([fewer if r is request else r for r in claims[at].spec.devices.requests])
            alone = narrowed(_with(claims[at], others, claims[at].spec.devices.constraints), ())
            asked = [*claims[:at], alone, *claims[at + 1 :]]
            if self._fits(asked, (node,), [(at, request.name)]) is True:
                fits = middle
            else:
                too_many = middle
        return request.name, fits, wanted

    def _only(self, kept: Conflict) -> Iterator[ResourceClaim]:
        for claim in self._claims:
            requests = tuple(r for r in claim.spec.devices.requests if (claim.key, r.name) in kept.requests)
            if requests:
                every = enumerate(claim.spec.devices.constraints)
                constraints = tuple([one for number, one in every if (claim.key, number) in kept.constraints])
                fewer = _with(claim, requests, constraints)
                yield narrowed(fewer, {request.name for request in requests})

    def _fits(
        self,
        claims: Sequence[ResourceClaim],
        nodes: Collection[str] | None,
        without: Collection[PreferenceKey] = (),
    ) -> bool | None:
        """None if the search gave up: the answer is unknown."""
        answer = self._answer(claims, nodes, self._world, without)
        if answer is None or isinstance(answer, Granted):
            return None if answer is None else True
        return None if answer.reason is Reason.GAVE_UP else False

    def _answer(
        self,
        claims: Sequence[ResourceClaim],
        nodes: Collection[str] | None,
        snapshot: Snapshot,
        without: Collection[PreferenceKey] = (),
    ) -> Granted | Unsatisfied | None:
        """None if no effort is left."""
        if self._left <= 0:
            return None
        answer = decide(claims, snapshot, nodes=nodes, steps=min(STEPS, self._left), without=without)
        self._left -= answer.steps + 1
        return answer


def _with(claim: ResourceClaim, requests: tuple[DeviceRequest, ...], constraints: object) -> ResourceClaim:
    devices = claim.spec.devices.model_copy(update={"requests": requests, "constraints": constraints})
    return claim.replacing("spec", devices=devices)


CHUNK = 1 << 16
"""Devices compared at once; limits memory use only."""
MOST_HOLDERS = 3
"""Maximum holders that are named."""
MEBI = 1 << 20


def shortages(rows: Rows, snapshot: Snapshot, asks: RequestDraws | None = None) -> tuple[Shortage, ...]:
    """Each counter that is short for some of the devices in `rows` (n,), with its smallest shortage. `asks`
    is what they draw as a request says.

    Counters of the same name in sets of the same kind count as one. The order is by the missing part of the
    needed amount, smallest first.
    """
    best: dict[tuple[int, int], tuple[float, int, int]] = {}
    counted: dict[tuple[int, int], int] = {}
    for start in range(0, len(rows), CHUNK):
        some = rows[start : start + CHUNK]
        for set_kind, column, part, row, k, count in _smallest(some, snapshot, asks):
            key = set_kind, column
            counted[key] = counted.get(key, 0) + count
            best[key] = min(best.get(key, (part, row, k)), (part, row, k))
    order = sorted(best, key=lambda key: best[key])
    return tuple(_shortage(*best[key][1:], key[1], counted[key], snapshot, asks) for key in order)


def relative_shortage(rows: Rows, snapshot: Snapshot) -> np.ndarray:
    """(n,) float: the missing part of the needed amount of each device's scarcest counter."""
    worst = np.zeros(len(rows))
    for _, short, wanted in _short(rows, snapshot, None):
        part = np.where(short > 0, short / np.maximum(wanted, 1), 0.0).max(axis=1, initial=0.0)
        worst = np.maximum(worst, part)
    return worst


def _smallest(
    rows: Rows, snapshot: Snapshot, asks: RequestDraws | None
) -> Iterator[tuple[int, int, float, int, int, int]]:
    """Kind of set, counter, missing part, row, index among the device's sets, number of affected devices."""
    kinds = _SET_KINDS.of(snapshot.fleet)
    for k, short, wanted in _short(rows, snapshot, asks):
        kind = kinds[snapshot.fleet.sets[rows, k]]
        for code in distinct(kind).tolist():
            of_kind = np.flatnonzero(kind == code)
            part = np.where(short[of_kind] > 0, short[of_kind] / np.maximum(wanted[of_kind], 1), np.inf)
            for column in np.flatnonzero(np.isfinite(part).any(axis=0)).tolist():
                at = int(part[:, column].argmin())
                count = int(np.isfinite(part[:, column]).sum())
                yield code, column, float(part[at, column]), int(rows[of_kind[at]]), k, count


def _short(
    rows: Rows, snapshot: Snapshot, asks: RequestDraws | None
) -> Iterator[tuple[int, Amounts, Amounts]]:
    """For each index k of a device's sets: k, (n, C) missing amounts, (n, C) needed amounts."""
    fleet, left = snapshot.fleet, snapshot.occupancy.left
    for k in range(fleet.sets.shape[1]):
        sets = fleet.sets[rows, k]
        if not (sets >= 0).any():
            continue
        wanted = drawn_by(asks, rows, k, fleet)
        missing = np.maximum(wanted - left.take(sets, axis=0, mode="clip"), 0)
        yield k, np.where((sets >= 0)[:, np.newaxis] & (wanted > 0), missing, 0), wanted


def _set_kinds(fleet: Fleet) -> Codes:
    """(S + 1,) sets with the same counters in the same units have the same kind; -1, the last, is no set."""
    known: dict[Scale, int] = {}
    kinds = [known.setdefault(columns.scale, len(known)) for columns in fleet.set_columns]
    return np.array([*kinds, -1], dtype=np.int32)


_SET_KINDS = Cache(_set_kinds, on_fork=share)


def _shortage(
    row: int, k: int, column: int, count: int, snapshot: Snapshot, asks: RequestDraws | None
) -> Shortage:
    fleet = snapshot.fleet
    number = int(fleet.sets[row, k])
    columns = fleet.set_columns[number]
    unit = columns.units[column]
    device = fleet.id_of(row)
    return Shortage(
        counter=columns.counters[column],
        set=columns.id.name,
        pool=device.pool_id,
        device=device,
        wanted=amount(int(drawn_by(asks, np.array([row]), k, fleet)[0, column]) * unit),
        left=amount(int(snapshot.occupancy.left[number, column]) * unit),
        devices=count,
        holders=holders_of(number, snapshot),
        by_request=asks is not None and bool(asks.asking[row]),
    )


def holders_of(number: int, snapshot: Snapshot) -> tuple[ObjectKey, ...]:
    """Some of the claims that hold parts of a counter set."""
    members = snapshot.fleet.by_set.of(number)
    taken = members[(snapshot.occupancy.held | snapshot.occupancy.sharing)[members]]
    found: dict[ObjectKey, None] = {}
    for row in taken.tolist():
        found.update(dict.fromkeys(snapshot.occupancy.claims_of(snapshot.fleet.id_of(row))))
        if len(found) >= MOST_HOLDERS:
            break
    return tuple(found)[:MOST_HOLDERS]


def amount(nanos: int) -> Quantity:
    """A quantity that is readable: whole mebibytes have binary suffixes."""
    whole = nanos % NANO == 0 and nanos and (nanos // NANO) % MEBI == 0
    return Quantity(nanos, Format.BINARY if whole else Format.DECIMAL)


MOST_COUNTERS = 40
"""Most names of counters that are tried: each needs a search. A GPU has about 15."""
PLENTY = 1 << 60
"""More than any device draws, in any unit"""


def deciding_counters(
    conflict: Collection[RequestName], snapshot: Snapshot, relaxation: Relaxation
) -> tuple[JointShortage, ...]:
    """A smallest set of counters without whose limits the requests fit together, where each is short.

    Empty if other things prevent it too, or if the search gives up.
    """
    names = {name for columns in snapshot.fleet.set_columns for name in columns.counters}
    if not conflict or not 0 < len(names) <= MOST_COUNTERS:
        return ()
    answer = relaxation.answer_on(_without(names, snapshot), conflict)
    if not isinstance(answer, Granted):
        return ()
    kept = set(names)
    for name in sorted(names):
        fewer = kept - {name}
        found = relaxation.answer_on(_without(fewer, snapshot), conflict) if fewer else None
        if isinstance(found, Granted):
            kept, answer = fewer, found
    return tuple(_overdrawn(answer, kept, snapshot)) if relaxation.has_effort else ()


def _without(names: Collection[str], snapshot: Snapshot) -> Snapshot:
    """The snapshot with plenty left of some counters. It has caches of its own."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    left = occupancy.left.copy()
    for number, columns in enumerate(fleet.set_columns):
        for place, name in enumerate(columns.counters):
            if name in names:
                left[number, place] = PLENTY
    fitting = fits(left, fleet.table, fleet.sets, fleet.draws)
    over = np.isin(fleet.set_group, fleet.set_group[(left < 0).any(axis=1)])
    fitting &= ~((fleet.sets >= 0) & np.append(over, False)[fleet.sets]).any(axis=1)
    if occupancy.open is not None:
        fitting &= occupancy.open
    changed = replace(
        occupancy,
        left=left,
        fits=fitting,
        free=(fitting | occupancy.sharing) & ~occupancy.held,
        trail=Trail(),
        serial=0,
    )
    return replace(snapshot.fork(), occupancy=changed)


def _overdrawn(answer: Granted, names: Collection[str], snapshot: Snapshot) -> Iterator[JointShortage]:
    """The counters that the devices of an answer would overdraw."""
    fleet, occupancy = snapshot.fleet, snapshot.occupancy
    devices = dict.fromkeys(r.id for plan in answer.plans for r in plan.allocation.devices.results)
    rows = [row for device in devices for row in fleet.rows_of(device) if not occupancy.sharing[row]]
    drawn = total_draw(len(fleet.totals), fleet.table, fleet.sets[rows], fleet.draws[rows])
    for number, place in np.argwhere(drawn > np.maximum(occupancy.left, 0)).tolist():
        columns = fleet.set_columns[number]
        if place < len(columns.counters) and columns.counters[place] in names:
            unit = columns.units[place]
            yield JointShortage(
                counter=columns.counters[place],
                set=columns.id.name,
                pool=fleet.id_of(int(fleet.by_set.of(number)[0])).pool_id,
                node=answer.node,
                wanted=amount(int(drawn[number, place]) * unit),
                left=amount(int(occupancy.left[number, place]) * unit),
                holders=holders_of(number, snapshot),
            )
