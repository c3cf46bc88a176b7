"""Places for many copies of one claim in one pass over the nodes, as from deciding them one after the other.

Copies are claims of equal specs, of which each is a decision of its own. First fit gives them the devices of
a node in order until no further copy fits there, and a node that has refused a copy refuses all later ones,
because nothing is released in between. So one pass over nodes and devices finds all places. This holds where
the devices of a claim do not influence each other; all other claims are decided one by one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernels.groups import group_code
from kernels.taking import taken_in_turn
from kernels.types import Codes, Mask, Rows
from reconciler.allocation.dra.allocate import DEFAULT_STEPS, plausible
from reconciler.allocation.dra.availability import Available, available
from reconciler.allocation.dra.claim_shapes import ClaimShape, claim_shape
from reconciler.allocation.dra.constraints import ANY_DOMAIN, all_scalar
from reconciler.allocation.dra.fast_path import first_with_enough
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import MAX_RESULTS, RequestOption
from reconciler.allocation.dra.result import has_special_fields, plain_plan
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.errors import Rejected
from reconciler.state.caches import Cache, share
from reconciler.state.devices.encoding.vocabulary import Name
from reconciler.state.devices.pools.fleet import Fleet
from reconciler.state.devices.snapshot.snapshot import Snapshot, View

CHUNK = 64
"""Nodes of which the devices are judged at once"""
SPARE_NODES = 64
"""Nodes beyond the number of copies that are looked at before the rest is decided one by one"""


class Place(NamedTuple):
    """A node, and the devices of one copy on it."""

    view: View
    rows: tuple[tuple[int, ...], ...]
    """Of each request: rows of the fleet, rising"""


@dataclass(frozen=True, slots=True)
class Template:
    """A claim of which copies are placed, and its requests, which do not influence each other."""

    shape: ClaimShape
    requests: tuple[Available, ...]
    """What is available for each request"""
    codes: Codes | None
    """(D,) the attribute that all devices of a copy must share; None without a constraint"""

    @property
    def options(self) -> tuple[RequestOption, ...]:
        """The only option of each request."""
        return tuple([slot.options[0] for slot in self.shape.parsed.slots])


def template_of(claim: ResourceClaim, snapshot: Snapshot, *, steps: int = DEFAULT_STEPS) -> Template | None:
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
        codes = _shared_codes(name, snapshot.fleet)
        if codes is None:
            return None
    overlap = np.zeros(snapshot.fleet.size, dtype=np.bool_)
    for one in requests if len(requests) > 1 else ():
        if (overlap & one.mask).any():
            return None  # a device could serve two requests, so one may have to leave it to the other
        overlap |= one.mask
    return Template(shape, requests, codes)


def _shared_codes(attribute: str, fleet: Fleet) -> Codes | None:
    """(D,) codes of an attribute of which devices have one value or none; None for any other."""
    domain, _, id_ = attribute.partition("/")
    if domain == ANY_DOMAIN or (column := fleet.cel.attributes.get((domain, id_))) is None:
        return None
    return column.codes if all_scalar(Name(domain, id_), fleet) else None


def places(
    template: Template, snapshot: Snapshot, most: int, *, nodes: Iterable[str] | None = None
) -> list[Place]:
    """The places of up to `most` copies, in order, as if each were decided after the devices of those before
    it were taken.

    May be fewer although more would fit: the next copy must then be decided by itself. `nodes` limits the
    choice; None is all nodes.
    """
    _, among = plausible(template.shape, nodes, snapshot)
    found: list[Place] = []
    order = np.flatnonzero(among)[: most + SPARE_NODES].tolist()
    for start in range(0, len(order), CHUNK):
        chunk = list(_views(template, order[start : start + CHUNK], snapshot))
        by_request = []
        for at, option in enumerate(template.options):
            usable = _usable([rows[at] for _, rows in chunk], option, template.codes, snapshot)
            if usable is None:
                return found
            by_request.append(usable)
        for (view, _), of_node in zip(chunk, zip(*by_request, strict=True), strict=True):
            found += _on_node(template, view, of_node, most - len(found))
            if len(found) >= most:
                return found
        if len(chunk) < len(order[start : start + CHUNK]):
            return found
    return found


def _views(template: Template, order: Sequence[int], snapshot: Snapshot) -> Iterator[tuple[View, list[Rows]]]:
    """The views of nodes, with the rows that are available for each request. Stops at the first node that
    offers fewer devices than were counted, so that its pools need a closer look.
    """
    topology = snapshot.topology
    for place in order:
        try:
            view = topology.view(topology.order[place])
        except Rejected:
            return
        node = int(topology.order_codes[place])
        of_view = []
        for one in template.requests:
            rows = view.rows[view.of(one.mask) & view.here]
            if len(rows) != one.per_node[node]:
                return
            of_view.append(rows)
        yield view, of_view


def _usable(
    rows: list[Rows], option: RequestOption, codes: Codes | None, snapshot: Snapshot
) -> list[Rows] | None:
    """Of each node, the rows that copies take in turn. None if taking one may change what else can be taken
    in a way that is not judged here.
    """
    fleet = snapshot.fleet
    joined = np.concatenate(rows) if rows else np.zeros(0, dtype=np.intp)
    tied = fleet.shared[joined] | snapshot.occupancy.sharing[joined]
    if fleet.exclusion is not None:
        tied |= fleet.exclusion.bound[joined]
    if (repeated := _REPEATED.of(fleet)) is not None:
        tied |= repeated[fleet.pool_of[joined]]
    if tied.any() or has_special_fields(fleet, joined):
        return None
    sets = fleet.sets[joined]
    if not (sets >= 0).any():
        return rows
    if option.source.wanted > 1 or codes is not None or (sets[:, 1:] >= 0).any():
        return None
    if (_NODE_OF_SET.of(fleet)[sets[sets >= 0]] < 0).any():
        return None
    taken = taken_in_turn(snapshot.occupancy.left, fleet.table, sets[:, 0], fleet.draws[joined, 0])
    ends = np.cumsum([len(of_node) for of_node in rows])[:-1]
    return [of_node[chosen] for of_node, chosen in zip(rows, np.split(taken, ends), strict=True)]


def _on_node(template: Template, view: View, rows: Sequence[Rows], most: int) -> list[Place]:
    """The places on one node, from the rows for each request."""
    of_copy = []
    for option, of_request in zip(template.options, rows, strict=True):
        count = option.source.wanted
        if template.codes is not None:
            of_copy.append(list(_sharing(of_request, template.codes[of_request], count, most)))
            continue
        copies = min(len(of_request) // count, most)
        of_copy.append([tuple(one) for one in of_request[: copies * count].reshape(copies, count).tolist()])
    return [Place(view, found) for found in zip(*of_copy, strict=False)]


def _sharing(rows: Rows, values: Codes, count: int, most: int) -> Iterator[tuple[int, ...]]:
    """The rows of up to `most` copies, of which each shares one value."""
    rows, values = rows[values >= 0], values[values >= 0]
    for _ in range(most):
        found = first_with_enough(rows, values, count)
        if not len(found):
            return
        yield tuple(found.tolist())
        kept = ~np.isin(rows, found)
        rows, values = rows[kept], values[kept]


def _node_of_set(fleet: Fleet) -> Codes:
    """(S,) the node that all devices of a counter set belong to; -1 if there are several or none."""
    rows, ks = np.nonzero(fleet.sets >= 0)
    return group_code(fleet.codes["node"][rows], fleet.sets[rows, ks].astype(np.intp), len(fleet.totals))


def _repeated(fleet: Fleet) -> Mask | None:
    """(pools,) pools in which two devices have one name; None if there are none."""
    found = np.array([pool.repeats_names for pool in fleet.pools], dtype=np.bool_)
    return found if found.any() else None


_NODE_OF_SET = Cache(_node_of_set, on_fork=share)
_REPEATED = Cache(_repeated, on_fork=share)


def grant(claim: ResourceClaim, template: Template, place: Place, snapshot: Snapshot) -> Granted:
    """The answer for one copy."""
    plan = plain_plan(claim, template.options, place.view, place.rows, snapshot)
    return Granted(place.view.node.name, (plan,), sum(map(len, place.rows)))


def allocate_copies(
    claims: Sequence[ResourceClaim],
    snapshot: Snapshot,
    *,
    nodes: Iterable[str] | None = None,
    steps: int = DEFAULT_STEPS,
) -> list[Granted]:
    """Devices for the first of some claims with equal specs: what `allocate` would answer for one after the
    other, each time with the devices of those before counted as held.

    May be shorter than `claims`: the next one must be decided by itself then. The steps of an answer count
    its devices only.
    """
    template = template_of(claims[0], snapshot, steps=steps) if claims else None
    if template is None:
        return []
    found = places(template, snapshot, len(claims), nodes=nodes)
    return [grant(claim, template, place, snapshot) for claim, place in zip(claims, found, strict=False)]
