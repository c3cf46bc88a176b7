"""A batch of equal claims, such as those of the pods of one template: one pass over the nodes places all.

Each claim gets what it would get if it were decided after the ones before it. First fit gives them the
devices of a node in order until no further copy fits there, and a node that has refused a copy refuses all
later ones, because nothing is released in between. This holds where the devices of a claim do not influence
each other; all other claims are decided one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.fit import groups_in_turn, taken_in_turn
from kernels.groups import distinct, group_code
from kernels.types import Amounts, Codes, Rows
from reconciler.allocation.dra.allocate import plausible
from reconciler.allocation.dra.availability import Available, available
from reconciler.allocation.dra.budget import STEPS, Fatal
from reconciler.allocation.dra.claim_shapes import ClaimShape, claim_shape
from reconciler.allocation.dra.constraints import shared_codes
from reconciler.allocation.dra.request_options import MAX_RESULTS, RequestOption
from reconciler.allocation.dra.result import PlainPlans, has_special_fields
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.errors import Rejected
from reconciler.state.caches import derived
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, View

CHUNK = 64
"""Nodes of which the devices are judged at once, at most"""
SPARE_NODES = 64
"""Nodes beyond the number of copies that are looked at before the rest is decided one by one"""


class Place(NamedTuple):
    """A node, and the devices of one copy on it."""

    at: int
    """Position of the node in the order of the topology"""
    view: View
    rows: tuple[list[int], ...]
    """Of each request: rows of the fleet, in first-fit order"""


class Template(Struct, frozen=True):
    """A claim of which copies are placed, and its requests, which do not influence each other."""

    shape: ClaimShape
    options: tuple[RequestOption, ...]
    """The only option of each request"""
    requests: tuple[Available, ...]
    """What is available for each request"""
    codes: Codes | None
    """(D,) the attribute that all devices of a copy must share; None without a constraint"""
    plans: PlainPlans

    def grant(self, claim: ResourceClaim, place: Place) -> Granted:
        """The answer for one copy."""
        plan = self.plans.plan(claim, place.view, place.rows)
        return Granted(plan.node, (plan,), sum([len(rows) for rows in place.rows]))


def template_of(claim: ResourceClaim, snapshot: Snapshot, *, steps: int = STEPS) -> Template | None:
    """The claim as a template for copies; None if copies must be decided one by one.

    Whether the devices permit one pass is decided node by node, by `places`.
    """
    try:
        shape = claim_shape([claim], snapshot)
    except Fatal:
        return None
    slots = shape.parsed.slots
    if not slots or not shape.quick(snapshot) or shape.overspent(snapshot):
        return None
    if any(len(slot.options) > 1 for slot in slots):
        return None
    options = [slot.options[0] for slot in slots]
    wanted = [option.source.wanted for option in options if not option.all and not option.admin]
    if len(wanted) < len(options) or min(wanted) < 1 or sum(wanted) > min(MAX_RESULTS, steps):
        return None
    requests = tuple([available(option, snapshot) for option in options])
    if any(one.static.fails or one.static.skips or not one.local for one in requests):
        return None
    codes = None
    if constraints := claim.spec.devices.constraints:
        name = constraints[0].match_attribute
        if len(constraints) > 1 or len(options) > 1 or not options[0].constraints or name is None:
            return None
        if options[0].derived:
            return None
        codes = shared_codes(name, snapshot.fleet)
        if codes is None:
            return None
    if len(requests) > 1 and _influence_each_other(requests, snapshot.fleet):
        return None
    return Template(shape, tuple(options), requests, codes, PlainPlans(claim, options, snapshot))


def _influence_each_other(requests: Sequence[Available], fleet: Fleet) -> bool:
    """Whether a device could serve two requests, or two of them draw from counters."""
    seen = np.zeros(fleet.size, dtype=np.bool_)
    drawing = 0
    for one in requests:
        if (seen & one.mask).any():
            return True
        seen |= one.mask
        drawing += bool((fleet.sets[one.mask] >= 0).any())
    return drawing > 1


def places(
    template: Template,
    snapshot: Snapshot,
    most: int,
    *,
    nodes: Iterable[str] | None = None,
    room: Amounts | None = None,
) -> list[Place]:
    """The places of up to `most` copies, in order, as if each were decided after the devices of those before
    it were taken.

    May be fewer although more would fit: the next copy must then be decided by itself. `nodes` limits the
    choice; None is all nodes. `room` (N,) is how many copies each node takes at most, in the order of the
    topology, since their pods need more than devices; None is any number.
    """
    _, among = plausible(template.shape, nodes, snapshot)
    found: list[Place] = []
    order = np.flatnonzero(among)[: most + SPARE_NODES]
    upto = np.cumsum(_most_on(template, order, room, snapshot))
    end, least = 0, 1
    while end < len(order):
        counted = upto[end - 1] if end else 0
        enough = np.searchsorted(upto, counted + most - len(found)) + 1 - end
        size, least = min(max(int(enough), least), CHUNK), min(2 * least, CHUNK)
        chunk = order[end : end + size].tolist()
        end += size
        of_nodes = list(_available_on(template, chunk, snapshot))
        taken = [
            _taken(template, number, [rows[number] for _, rows in of_nodes], snapshot)
            for number in range(len(template.options))
        ]
        judged = [one for one in taken if one is not None]
        if len(judged) < len(taken):
            break
        found += _joined(chunk, [view for view, _ in of_nodes], judged, room, most - len(found))
        if len(found) >= most or len(of_nodes) < len(chunk):
            break
    return found


def _most_on(template: Template, places: Rows, room: Amounts | None, snapshot: Snapshot) -> Amounts:
    """(n,) for (n,) nodes by position: as many copies as their devices are enough for, counted one by one,
    and their room. More may be too many, but never too few.
    """
    codes = np.maximum(snapshot.topology.order_codes[places], -1)
    counts = [
        one.per_node[codes] // option.source.wanted
        for one, option in zip(template.requests, template.options, strict=True)
    ]
    return np.minimum.reduce(counts if room is None else [*counts, room[places]])


def _available_on(
    template: Template, places: Sequence[int], snapshot: Snapshot
) -> Iterator[tuple[View, list[Rows]]]:
    """The views of nodes, with the rows that are available for each request. Stops at the first node that
    offers fewer devices than were counted: its pools need a closer look.
    """
    topology = snapshot.topology
    for place in places:
        try:
            view = topology.view(topology.order[place])
        except Rejected:
            return
        node = int(topology.order_codes[place])
        of_node = [view.rows[view.of(one.mask) & view.here] for one in template.requests]
        if any(len(rows) != one.per_node[node] for rows, one in zip(of_node, template.requests, strict=True)):
            return
        yield view, of_node


def _taken(
    template: Template, request: int, of_nodes: Sequence[Rows], snapshot: Snapshot
) -> tuple[Rows, Rows] | None:
    """What copies take for one request, whatever they take for the others.

    of_nodes  of each node: the rows that are available, in first-fit order
    ->  (m,) positions of the nodes of copies, and (m, count) rows of the fleet. None if taking a device may
        change what else can be taken in a way that is not judged here
    """
    rows = np.concatenate([*of_nodes, _NONE])
    if _is_entangled(rows, snapshot) or has_special_fields(snapshot.fleet, rows):
        return None
    fleet, count = snapshot.fleet, template.options[request].source.wanted
    on = np.repeat(np.arange(len(of_nodes)), [len(of_node) for of_node in of_nodes])
    sets = fleet.sets[rows]
    if (sets >= 0).any():
        if count > 1 or template.codes is not None or not _is_simple(sets, fleet):
            return None
        kept = taken_in_turn(snapshot.occupancy.left, fleet.table, sets[:, 0], fleet.draws[rows, 0])
        rows, on = rows[kept], on[kept]
    groups = on
    if template.codes is not None:
        values = template.codes[rows]
        rows, on, values = rows[values >= 0], on[values >= 0], values[values >= 0]
        groups = on * (int(template.codes.max()) + 1) + values
    taken = groups_in_turn(groups, count)
    return on[taken[:, 0]], rows[taken]


def _is_entangled(rows: Rows, snapshot: Snapshot) -> bool:
    """Whether a device is shared, excludes others, or may have another row."""
    fleet = snapshot.fleet
    found = fleet.shared[rows] | snapshot.occupancy.sharing[rows]
    if fleet.exclusion is not None:
        found |= fleet.exclusion.bound[rows]
    return bool(found.any()) or any(
        fleet.pools[at].repeats_names for at in distinct(fleet.pool_of[rows]).tolist()
    )


def _is_simple(sets: Codes, fleet: Fleet) -> bool:
    """Whether devices with the counter sets (n, K) draw from one set each, whose devices are on one node."""
    return not (sets[:, 1:] >= 0).any() and bool((_node_of_set(fleet)[sets[sets >= 0]] >= 0).all())


def _joined(
    at: Sequence[int],
    views: Sequence[View],
    taken: Sequence[tuple[Rows, Rows]],
    room: Amounts | None,
    most: int,
) -> list[Place]:
    """The first `most` copies that get devices for all requests, node by node."""
    copies = [np.bincount(on, minlength=len(views)) for on, _ in taken]
    least = np.minimum.reduce(copies if room is None else [*copies, room[at[: len(views)]]])
    of_requests = []
    for (on, rows), of_node in zip(taken, copies, strict=True):
        number = np.arange(len(on)) - np.repeat(np.cumsum(of_node) - of_node, of_node)
        of_requests.append(rows[number < least[on]][:most].tolist())
    of_copies = np.repeat(np.arange(len(views)), least)[:most].tolist()
    return [
        Place(at[one], views[one], rows)
        for one, rows in zip(of_copies, zip(*of_requests, strict=True), strict=True)
    ]


_NONE = np.zeros(0, dtype=np.intp)


@derived
def _node_of_set(fleet: Fleet) -> Codes:
    """(S,) the node that all devices of a counter set belong to; -1 if there are several or none."""
    rows, ks = np.nonzero(fleet.sets >= 0)
    return group_code(fleet.codes["node"][rows], fleet.sets[rows, ks].astype(np.intp), len(fleet.totals))


def allocate_batch(
    claims: Sequence[ResourceClaim],
    snapshot: Snapshot,
    *,
    nodes: Iterable[str] | None = None,
    room: Amounts | None = None,
    steps: int = STEPS,
) -> list[Granted]:
    """Devices for the first of some claims with equal specs: what `allocate` would answer for one after the
    other, each time with the devices of those before counted as held.

    May be shorter than `claims`, or empty: the next one must be decided by itself then. `nodes` and `room`
    are those of `places`. The steps of an answer count its devices only.
    """
    template = template_of(claims[0], snapshot, steps=steps)
    if template is None:
        return []
    found = places(template, snapshot, len(claims), nodes=nodes, room=room)
    return [template.grant(claim, place) for claim, place in zip(claims, found, strict=False)]
