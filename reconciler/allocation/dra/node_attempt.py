"""The attempt on one node. The answer is that of kube-scheduler's allocator."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from reconciler.allocation.dra.budget import UNLIMITED, Budget, Fatal, GaveUp
from reconciler.allocation.dra.candidates import Candidates, find_candidates
from reconciler.allocation.dra.charging import Charging, Companions, NodeCharging, Reach
from reconciler.allocation.dra.request_options import MAX_RESULTS, ParsedClaims, read_claims
from reconciler.allocation.dra.result import plans
from reconciler.allocation.dra.search import Search
from reconciler.allocation.dra.state import Choice, NodeProblem, set_up
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Plan, Reason
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot, View


class NodeGrant(Struct, frozen=True):
    """Devices for every claim on one node."""

    plans: tuple[Plan, ...]
    rank: int
    """Sum of the positions of the chosen alternatives in their lists; smaller is better (SC-1)"""
    steps: int


class NodeRefusal(Struct, frozen=True):
    """The claims do not fit this node. `reason` is None if the devices simply do not suffice."""

    reason: Reason | None
    message: str
    steps: int


NO_BETTER = "another node has the same rank or a better one"

Only = Mapping[tuple[int, str], frozenset[int]]
"""(position of the claim, name of the request) -> rows of the fleet that the request may use"""


Ordered = Callable[[list[list[Candidates]], View], list[list[Candidates]]]
"""Sets the order in which the candidates of each alternative of each slot are tried"""


ChooseSet = Callable[[NodeProblem, tuple[Choice, ...], Reach | None], tuple[tuple[Choice, ...], int]]
"""A set of devices at least as good as one that fits, with the same alternatives; and the devices tried"""


def attempt(
    parsed: ParsedClaims,
    node: str,
    snapshot: Snapshot,
    *,
    steps: int,
    better_than: int | None = None,
    pruned: bool = True,
    budget: Budget = UNLIMITED,
    only: Only | None = None,
    companions: Companions | None = None,
    charging: Charging | None = None,
    ordered: Ordered | None = None,
    choose_set: ChooseSet | None = None,
) -> NodeGrant | NodeRefusal:
    """Try to allocate all claims on one node, with a better rank than `better_than` if that is set.

    `companions` are pods that must fit on the nodes that reach the devices; `charging` is the pod that must
    fit beside what the devices take of the node.
    `pruned=False` searches without bounds and does not skip equal devices: the same answers, slower.
    `ordered` sets the order in which candidates are tried; None for first fit. `choose_set` may replace
    what is found by a set that is preferred. Raises what `budget` raises.
    """
    search: Search | None = None
    try:
        view = snapshot.topology.view(node)
        by_slot = _candidates(parsed, view, snapshot, only)
        if ordered is not None:
            by_slot = ordered(by_slot, view)
        reach = None
        if companions is not None:
            reach = Reach(companions, len(parsed.claims), view, snapshot, budget)
            by_slot = [[_for_all(reach, one) for one in of_slot] for of_slot in by_slot]
        problem = set_up(parsed, view, snapshot)
        charged = None if charging is None else NodeCharging(charging, parsed, view, snapshot)
        if charged is not None and pruned and charged.is_impossible(by_slot):
            return NodeRefusal(Reason.NODE_ROOM, charged.refusal, 0)
        search = Search(problem, parsed.slots, by_slot, steps, pruned, budget, reach, charged)
        chosen = search.run()
        spent = search.steps
        if chosen is not None:
            rank = _rank(parsed, chosen)
            if better_than is not None and rank >= better_than:
                return NodeRefusal(None, NO_BETTER, spent)
            if choose_set is not None and charged is None and len(chosen) > 1:
                chosen, tried = choose_set(problem, chosen, reach)
                spent += tried
            if ordered is not None:  # results list devices by position, however they were tried
                chosen = tuple(sorted(chosen, key=lambda choice: (choice.slot, choice.at)))
            return NodeGrant(plans(parsed, view, snapshot, chosen), rank, spent)
    except Fatal as fatal:
        message = str(fatal)
        if fatal.claim is not None:
            message = f"claim {parsed.claims[fatal.claim].key}, {message}"
        return NodeRefusal(fatal.reason, message, search.steps if search else 0)
    except Rejected as rejected:
        return NodeRefusal(Reason.NODE_SELECTOR, str(rejected), 0)
    except GaveUp as gave_up:
        return NodeRefusal(Reason.GAVE_UP, str(gave_up), steps)
    if charged is not None and charged.refusal:
        return NodeRefusal(Reason.NODE_ROOM, charged.refusal, spent)
    invalid = view.invalid
    if invalid is not None:  # POOL-13: an error only if the search fails
        return NodeRefusal(Reason.INVALID_POOL, f"pool {invalid.pool} is invalid: {invalid.problem}", spent)
    return NodeRefusal(None, "the devices do not suffice", spent)


def _candidates(
    parsed: ParsedClaims, view: View, snapshot: Snapshot, only: Only | None = None
) -> list[list[Candidates]]:
    """The candidates of every alternative of every slot, claim by claim.

    Raises Fatal where mode All meets an error (PREP-8), and for a claim that needs too many devices with
    any alternatives (PREP-9), whichever comes first.
    """
    by_slot: list[list[Candidates]] = []
    for at, claim in enumerate(parsed.claims):
        least = 0
        for slot in parsed.slots:
            if slot.claim == at:
                of_slot = [find_candidates(option, view, snapshot) for option in slot.options]
                least += min([candidates.count for candidates in of_slot])
                by_slot.append(of_slot)
        if least > MAX_RESULTS:
            raise Fatal(
                Reason.TOO_MANY_DEVICES,
                f"claim {claim.key} needs at least {least} devices; a claim can hold {MAX_RESULTS}",
            )
    if only:
        by_slot = [[_restricted(only, one, view) for one in of_slot] for of_slot in by_slot]
    return by_slot


def _restricted(only: Only, candidates: Candidates, view: View) -> Candidates:
    """The candidates without devices that the request may not use."""
    rows = only.get((candidates.option.claim, candidates.option.request))
    if rows is None:
        return candidates
    among = np.isin(view.rows, list(rows))
    return replace(candidates, available=candidates.available & among)


def _for_all(reach: Reach, candidates: Candidates) -> Candidates:
    """The candidates with which all companions fit. Mode All needs every device."""
    if candidates.listed is not None:
        return candidates
    return replace(candidates, available=candidates.available & reach.usable(candidates))


def _rank(parsed: ParsedClaims, chosen: tuple[Choice, ...]) -> int:
    alternatives = {choice.slot: name for choice in chosen if (name := choice.candidates.option.alternative)}
    return sum([
        [option.alternative for option in parsed.slots[slot].options].index(name)
        for slot, name in alternatives.items()
    ])  # fmt: skip


def only_rows(claims: Sequence[ResourceClaim], rows: Iterable[int], snapshot: Snapshot) -> Only:
    """Only these rows of the fleet, for each request. Raises Fatal if the claims are invalid."""
    chosen = frozenset(rows)
    slots = read_claims(claims, snapshot.classes, snapshot.rules).slots
    return {(slot.claim, slot.options[0].request): chosen for slot in slots}
