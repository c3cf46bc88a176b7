"""The decision over all nodes: which nodes to try, in which order, and why none fits."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.availability import available
from reconciler.allocation.dra.budget import STEPS, UNLIMITED, Budget, Fatal, SelectorsNotRun
from reconciler.allocation.dra.charging import Charging, Companions
from reconciler.allocation.dra.claim_shapes import ClaimShape, claim_shape
from reconciler.allocation.dra.constraints import nodes_with_a_value, shared_codes
from reconciler.allocation.dra.node_attempt import NodeGrant, NodeRefusal, Only, attempt
from reconciler.allocation.dra.off_gates import with_lists
from reconciler.allocation.dra.preferred import PreferredDevices, nodes_in_order, prefers
from reconciler.allocation.dra.refusal_counts import unsatisfied
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.allocation.policies.policy import PodRoom, Policy, PolicyQuestion
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.cel.errors import DECISION_COST_LIMIT
from reconciler.errors import Rejected
from reconciler.state.caches import Cache
from reconciler.state.devices.readiness import readiness
from reconciler.state.devices.snapshot import NodeSubset, Snapshot, Topology

MISSING = -(1 << 30)
"""Stands for no value. Below all differences of codes"""
SEEN = ("shape", "driver")
"""Columns in which alike devices are equal"""


class _Layouts(NamedTuple):
    """What does not depend on the holds, for N nodes and the m devices that belong to one of them."""

    rows: Rows
    """(m,) rows of the fleet, node by node"""
    begins: Rows
    """(N + 1,) where each node begins in `rows`"""
    sets: tuple[Codes, Codes]
    """(N,) the first counter set that devices of the node draw from, and the first behind the last one"""
    numbers: Codes
    """(N,) equal numbers for nodes that are laid out alike; -1 for nodes that are not compared"""


def compared_attributes(parsed: ParsedClaims) -> tuple[str, ...]:
    """The attributes that constraints of claims compare."""
    constraints = [one for claim in parsed.claims for one in claim.spec.devices.constraints]
    return tuple(sorted({one.match_attribute or one.distinct_attribute or "" for one in constraints}))


class NodeStates(Struct, frozen=True, eq=False):
    """Nodes by their states.

    Nodes with equal numbers have, in equal positions of their views, devices that are alike for the request
    options, for constraints on the attributes, and for the masks each.
    """

    numbers: Codes
    """(N,) of each node; -1 for those that are not compared"""

    @classmethod
    def by(
        cls,
        options: Iterable[RequestOption],
        attributes: tuple[str, ...],
        snapshot: Snapshot,
        places: Rows,
        masks: Iterable[Mask] = (),
    ) -> "NodeStates | None":
        """For request options, constraints on attributes, and `masks` (D,) each.

        places (P,)  the nodes that are compared

        None if nodes cannot be compared: with shared devices, devices of several nodes, errors, exclusion,
        requests in mode All or for administrators, and attributes that are derived or lists.
        """
        fleet, occupancy = snapshot.fleet, snapshot.occupancy
        seen, several = list(masks), fleet.shared | occupancy.sharing
        for option in {option.key: option for option in options}.values():
            current = available(option, snapshot)
            if option.all or option.admin or option.derived or current.fails or current.static.skips:
                return None
            if not current.local or (current.concerned & several).any():
                return None
            seen.append(current.mask)
        columns = [shared_codes(attribute, fleet) for attribute in attributes]
        if fleet.exclusion is not None or not seen or any(column is None for column in columns):
            return None
        of_topology, plain = _LAYOUTS.of(snapshot.topology)
        if attributes not in of_topology:
            values = [one for one in columns if one is not None]
            of_topology[attributes] = _with_values(plain, values) if values else plain
        return cls(_states_of(of_topology[attributes], places, seen, occupancy.left))

    def of(self, place: int) -> int:
        """The number of a node at a place; -1 if it is not compared."""
        return self.numbers.item(place)


def _states_of(layouts: _Layouts, places: Rows, seen: Sequence[Mask], left: Amounts) -> Codes:
    """(N,) equal numbers for nodes that are laid out alike, with equal masks and equal counter sets.

    places (P,)   the nodes that are compared; others have -1
    seen   (D,)   each: a mask of devices
    left   (S, C) what is left of the counter sets
    """
    first, behind = layouts.sets
    places = places[np.argsort(layouts.numbers[places], kind="stable")]
    _, begins = np.unique(layouts.numbers[places], return_index=True)
    found, known = np.full(len(layouts.numbers), -1, dtype=np.int32), 0
    for alike in np.split(places, begins[1:]) if len(places) else ():
        if layouts.numbers[alike[0]] < 0:
            continue
        one = int(alike[0])
        devices = layouts.begins[alike][:, None] + np.arange(layouts.begins[one + 1] - layouts.begins[one])
        devices, sets = layouts.rows[devices], first[alike][:, None] + np.arange(behind[one] - first[one])
        parts = [np.packbits(mask[devices], axis=1) for mask in seen]
        parts.append(np.ascontiguousarray(left[sets]).reshape(len(alike), -1).view(np.uint8))
        rows = np.concatenate(parts, axis=1)
        _, of = np.unique(rows.view(f"V{rows.shape[1]}"), return_inverse=True)
        found[alike] = known + of.reshape(-1)
        known += int(of.max()) + 1
    return found


_LAYOUTS: Cache[Topology, tuple[dict[tuple[str, ...], _Layouts], _Layouts]] = Cache(
    lambda topology: ({}, _layouts(topology)), on_fork=lambda known: (dict(known[0]), known[1])
)
"""By the attributes that are compared, and without any"""


def _layouts(topology: Topology) -> _Layouts:
    fleet, size = topology.fleet, len(topology.order)
    nodes = fleet.codes["node"]
    places = np.where(nodes >= 0, topology.place_of[nodes], -1)
    rows = np.flatnonzero(places >= 0)
    rows = rows[np.argsort(places[rows], kind="stable")]
    counts = np.bincount(places[rows], minlength=size)
    begins = np.concatenate([[0], np.cumsum(counts)])
    first, behind = np.zeros((2, size), dtype=np.int32)
    columns = [*(fleet.codes[name][rows] for name in SEEN), *np.ascontiguousarray(fleet.draws[rows].T)]
    if sets := [np.ascontiguousarray(one)[rows] for one in fleet.sets.T]:
        relative, first = _from_least(sets, begins)
        columns += relative
        if len(rows):
            filled = np.flatnonzero(counts)
            behind[filled] = np.maximum.reduceat(np.maximum.reduce(sets), begins[filled]) + 1
    numbers = _numbered(columns, begins, np.zeros(size, dtype=np.int32))
    numbers[_unclear(topology, rows, np.repeat(np.arange(size), counts))] = -1
    return _Layouts(rows, begins, (first, behind), numbers)


def _with_values(plain: _Layouts, values: Sequence[Codes]) -> _Layouts:
    """The layouts of nodes of which these columns (D,) each are compared, too."""
    columns = [column for one in values for column in _from_least([one[plain.rows]], plain.begins)[0]]
    return plain._replace(numbers=_numbered(columns, plain.begins, plain.numbers))


def _from_least(columns: Sequence[Codes], begins: Rows) -> tuple[list[Codes], Codes]:
    """Columns (m,) less the least value of each node, and (N,) that value. Nodes may have other codes for
    what is alike in them.
    """
    counts = np.diff(begins)
    lowest, filled = np.zeros(len(counts), dtype=np.int32), np.flatnonzero(counts)
    if len(filled):
        known = np.minimum.reduce([np.where(one < 0, -MISSING, one) for one in columns])
        lowest[filled] = np.minimum.reduceat(known, begins[filled])
    least = np.repeat(lowest, counts)
    return [np.where(one < 0, MISSING, one - least) for one in columns], lowest


def _numbered(columns: Sequence[Codes], begins: Rows, before: Codes) -> Codes:
    """(N,) equal numbers for nodes with equal columns (m,) and equal numbers `before`; -1 for no devices."""
    content, known_as = np.stack(columns), dict[tuple[int, bytes], int]()
    numbers = np.full(len(before), -1, dtype=np.int32)
    for place, (number, begin, end) in enumerate(
        zip(before.tolist(), begins.tolist(), begins[1:].tolist(), strict=False)
    ):
        if number >= 0 and begin < end:
            key = number, content[:, begin:end].tobytes()
            numbers[place] = known_as.setdefault(key, len(known_as))
    return numbers


def _unclear(topology: Topology, rows: Rows, of: Rows) -> Mask:
    """(N,) nodes that are not compared: views may have another order, or devices draw what requests say.

    rows, of (m,)  devices, and the node that each belongs to
    """
    fleet = topology.fleet
    place_of = {name: place for place, name in enumerate(topology.order)}
    found = np.zeros(len(place_of), dtype=np.bool_)
    for at in readiness(topology).problems:
        pool = fleet.pools[at]
        if pool.nodes is None:
            return ~found
        found[[place_of[name] for name in pool.nodes if name in place_of]] = True
    # Pools with binding conditions are tried last; amounts that requests say depend on policies of sets.
    for column in ("binding", "asked"):
        found[of[fleet.codes[column][rows] >= 0]] = True
    return found


HARD_NODES = 10
"""Nodes on which a decision may use all its steps before it gives up."""

MOST_PREFERRED = 8
"""Preferred nodes on which the devices turn out not to fit, until first fit takes over."""

MOST_APART = 4
"""Nodes that are tried before it is asked which nodes are in equal states."""

Attempt = Callable[..., NodeGrant | NodeRefusal]
"""`node_attempt.attempt` for the claims of a decision: the name of a node, and `better_than`"""

OVERSPENT = (
    f"the selectors need more than {DECISION_COST_LIMIT} steps in total on all devices; "
    "use fewer requests for each pod, or simpler selectors"
)


def allocate(
    claims: Sequence[ResourceClaim],
    snapshot: Snapshot,
    *,
    nodes: Iterable[str] | None = None,
    steps: int = STEPS,
    budget: Budget = UNLIMITED,
    only: Only | None = None,
    companions: Companions | None = None,
    charging: Charging | None = None,
    policy: Policy | None = None,
    pod: PodRoom | None = None,
) -> Granted | Unsatisfied:
    """Devices for all claims together on one node, or why there are none.

    The first node in order of names that fits wins; with `firstAvailable` the node whose choice ranks best
    (SC-1), equal ranks by name. An error on one node excludes that node only, except that a derived attribute
    that fails ends the decision (CON-13). `nodes` limits the choice; None is all nodes. `only` restricts
    requests to some devices, `companions` are pods that must fit on the nodes that reach the devices,
    `charging` is the pod that must fit beside what they take of the node; the counts of a refusal ignore all.
    `steps` bounds the devices tried on a node; ten times as many are tried
    on all nodes. Steps are counted, not timed: the same fleet gives the same answer on a slow machine. The
    steps of selectors are bounded too. `policy` orders nodes of equal rank and the devices inside; None is
    first fit, which also answers, with steps of its own, where the order of the policy leads nowhere. `pod`
    is what the policy may know of the pod; what the pod prefers may order nodes without a policy, too. Raises
    Unfinished as `budget` does.
    """
    try:
        shape = claim_shape(claims, snapshot)
        if budget.skips_slow_selectors and not shape.quick(snapshot):
            raise SelectorsNotRun("the selectors must run on the fleet first")
        if shape.overspent(snapshot):
            return Unsatisfied(tuple(claim.key for claim in claims), Reason.GAVE_UP, OVERSPENT)
        considered, among = plausible(shape, nodes, snapshot)
        by_name = policy is None and not prefers(pod)
        if by_name and only is None and companions is None and charging is None:
            granted = _at_once(shape, claims[0], among, snapshot, steps, budget) if claims else None
            if granted is not None:
                return granted
        parsed = ParsedClaims(tuple(claims), shape.parsed.slots)
        attempt_on = partial(
            attempt,
            parsed,
            snapshot=snapshot,
            steps=steps,
            budget=budget,
            only=only,
            companions=companions,
            charging=charging,
        )
        if not by_name and among.any():
            question = PolicyQuestion(parsed, snapshot, pod)
            on_node: Attempt = attempt_on
            if policy is not None:
                on_node = PreferredDevices(question, policy, attempt_on, budget).attempt
            in_order = nodes_in_order(question, policy, among, shape.node_filter.least)
            numbered = ((least, number, place) for number, (least, place) in enumerate(in_order))
            preferred = _NodeLoop(snapshot, on_node, budget).run(
                numbered, MOST_PREFERRED * steps, MOST_PREFERRED
            )
            if preferred is not None:
                return preferred
        first_fit = _NodeLoop(snapshot, attempt_on, budget)
        if companions is None and charging is None:
            first_fit.states = partial(_states, parsed, only, among, snapshot)
        in_name_order = ((least, place, place) for least, place in shape.node_filter.in_order(among))
        granted = first_fit.run(in_name_order, HARD_NODES * steps)
        if granted is not None:
            return granted
        everywhere = considered == len(snapshot.topology.order)
        names = None if everywhere else sorted(set(nodes or ()).intersection(snapshot.topology.nodes))

        def fits_with_lists() -> bool:
            other = allocate(claims, with_lists(snapshot), nodes=names, steps=steps, budget=budget)
            return isinstance(other, Granted)

        return unsatisfied(parsed, snapshot, names, first_fit.refused, first_fit.steps, fits_with_lists)
    except Fatal as fatal:
        return Unsatisfied(tuple(claim.key for claim in claims), fatal.reason, str(fatal))


def _at_once(
    shape: ClaimShape,
    claim: ResourceClaim,
    among: Mask,
    snapshot: Snapshot,
    steps: int,
    budget: Budget,
) -> Granted | None:
    """The fast path: the answer of the first node by counts, which most claims with one plain request get.

    None if a search has to decide.
    """
    plain = shape.plain(snapshot, steps)
    first = next(shape.node_filter.in_order(among), None) if plain is not None else None
    if plain is None or first is None:
        return None
    least, place = first
    name = snapshot.topology.order[place]
    budget.spend()
    try:
        found = plain.first_fit(claim, snapshot.topology.view(name), least)
    except (Rejected, Fatal):  # the attempt on the node reports it
        return None
    if found is None or found[1] != least:  # another node may have a better rank
        return None
    budget.spend()
    return Granted(name, (found[0],), plain.options[least].count)


class _NodeLoop:
    """Tries nodes in an order, until no later node can be better."""

    def __init__(self, snapshot: Snapshot, attempt_on: Attempt, budget: Budget) -> None:
        """`attempt_on` is asked with the name of a node and `better_than`."""
        self._order = snapshot.topology.order
        self._attempt_on = attempt_on
        self._budget = budget
        self.states: Callable[[], NodeStates | None] | None = None
        """Asked once some nodes are tried: nodes in equal states are tried once"""
        self.refused: list[tuple[str, NodeRefusal]] = []
        self.steps = 0

    def run(
        self, nodes: Iterable[tuple[int, int, int]], most_steps: int, most_in_vain: int | None = None
    ) -> Granted | None:
        """Devices on the node with the best rank, of equal ones on the first; None if no node fits.

        nodes  (best possible rank, number in the order, place) of each node; the ranks rise

        `most_in_vain` is how many nodes may be tried before one fits; with it, an order that takes too many
        steps is no answer at all, since a node that was not tried may have a better rank.
        """
        best: tuple[int, int, str, NodeGrant] | None = None
        tried_at: dict[int, NodeGrant | NodeRefusal] = {}
        by_state: dict[int, NodeGrant | NodeRefusal] = {}
        states: NodeStates | None = None
        for tried, (least, number, place) in enumerate(nodes):
            if best is not None and (least, number) >= best[:2]:
                continue
            name = self._order[place]
            if self.states is not None and states is None and len(tried_at) == MOST_APART:
                states = self.states()
                if states is not None:
                    by_state = {states.of(other): known for other, known in tried_at.items()}
            state = -1 if states is None else states.of(place)
            if state >= 0 and state in by_state:  # no better than the earlier node
                known = by_state[state]
                if isinstance(known, NodeRefusal):
                    self.refused.append((name, known))
                continue
            if most_in_vain is not None and (
                (best is None and tried == most_in_vain) or self.steps >= most_steps
            ):
                return None
            if self.steps >= most_steps:
                self.refused.append(
                    (name, NodeRefusal(Reason.GAVE_UP, f"gave up after {self.steps} steps", 0))
                )
                break
            self._budget.spend()
            better_than = best[0] + (number < best[1]) if best is not None else None
            outcome = self._attempt_on(name, better_than=better_than)
            self.steps += outcome.steps
            tried_at[place] = by_state[state] = outcome
            if isinstance(outcome, NodeRefusal):
                if outcome.reason is Reason.DERIVED_ATTRIBUTE:
                    raise Fatal(outcome.reason, f"node {name}: {outcome.message}")
                self.refused.append((name, outcome))
            elif better_than is None or outcome.rank < better_than:
                best = outcome.rank, number, name, outcome
                if outcome.rank == least:  # no later node can rank better
                    break
        return None if best is None else Granted(node=best[2], plans=best[3].plans, steps=self.steps)


def _states(parsed: ParsedClaims, only: Only | None, among: Mask, snapshot: Snapshot) -> NodeStates | None:
    """The states of nodes (N,) for claims."""
    masks = []
    for rows in (only or {}).values():
        mask = np.zeros(snapshot.fleet.size, dtype=np.bool_)
        mask[list(rows)] = True
        masks.append(mask)
    options = [option for slot in parsed.slots for option in slot.options]
    return NodeStates.by(options, compared_attributes(parsed), snapshot, np.flatnonzero(among), masks)


def plausible(shape: ClaimShape, nodes: Iterable[str] | None, snapshot: Snapshot) -> tuple[int, Mask]:
    """How many nodes are considered, and (N,) those that the counts do not exclude.

    A node where selectors fail on a device is never excluded, so that the error is reported.
    """
    node_filter = shape.node_filter
    node_filter.follow(snapshot)
    among = node_filter.open
    considered = len(among)
    if nodes is not None:
        possible = _possible(nodes, snapshot)
        considered = int(np.count_nonzero(possible))
        among = among & possible
    if np.count_nonzero(among) > MOST_APART:  # fewer are tried sooner than judged
        allowed = nodes_with_a_value(shape.match_groups(snapshot), snapshot)
        if allowed is not None:
            among = among & (allowed[np.maximum(snapshot.topology.order_codes, -1)] | node_filter.failing)
    return considered, among


def _possible(nodes: Iterable[str], snapshot: Snapshot) -> Mask:
    """(N,) nodes that may be chosen."""
    order = snapshot.topology.order
    if isinstance(nodes, NodeSubset) and nodes.order is order:
        return nodes.mask
    chosen = set(nodes)
    return np.array([name in chosen for name in order], dtype=np.bool_)
