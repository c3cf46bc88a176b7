"""The decision over all nodes: which nodes to try, in which order, and why none fits."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kernels.types import Mask
from reconciler.allocation.dra.budget import STEPS, UNLIMITED, Budget, Fatal, SelectorsNotRun
from reconciler.allocation.dra.claim_shapes import ClaimShape, claim_shape
from reconciler.allocation.dra.companions import Companions
from reconciler.allocation.dra.constraints import nodes_with_a_value
from reconciler.allocation.dra.node_attempt import Found, NotFound, Only, attempt, random_share
from reconciler.allocation.dra.preferred import PreferredSearch, prefers
from reconciler.allocation.dra.refusal_counts import unsatisfied
from reconciler.allocation.dra.request_options import ParsedClaims
from reconciler.allocation.policies.policy import PodRoom, Policy, PolicyQuestion
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.cel.errors import DECISION_COST_LIMIT
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import NodeSubset, Snapshot

HARD_NODES = 10
"""Nodes on which a decision may use all its steps before it gives up."""

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
    new_share: Callable[[], str] = random_share,
    budget: Budget = UNLIMITED,
    only: Only | None = None,
    companions: Companions | None = None,
    policy: Policy | None = None,
    pod: PodRoom | None = None,
) -> Granted | Unsatisfied:
    """Devices for all claims together on one node, or why there are none.

    The first node in order of names that fits wins; with `firstAvailable` the node whose choice ranks best
    (SC-1), equal ranks by name. An error on one node excludes that node only. `nodes` limits the choice;
    None is all nodes. `only` restricts requests to some devices, `companions` are pods that must fit on the
    nodes that reach the devices; the counts of a refusal ignore both. `steps`
    bounds the devices tried on a node; ten times as many are tried on all nodes. Steps are counted, not
    timed: the same fleet gives the same answer on a slow machine. The steps of selectors are bounded too.
    `policy` orders nodes of equal rank and the devices inside; None is first fit, which also answers, with
    steps of its own, where the order of the policy leads nowhere. `pod` is what the policy may know of the
    pod; what the pod prefers may order nodes without a policy, too. Raises Unfinished as `budget` does.
    """
    try:
        shape = claim_shape(claims, snapshot)
    except Fatal as fatal:
        return Unsatisfied(tuple(claim.key for claim in claims), fatal.reason, str(fatal))
    by_name = policy is None and not prefers(pod)
    unrestricted = by_name and only is None and companions is None
    on_first = _on_first(shape, claims, nodes, snapshot, steps, budget) if unrestricted else None
    if on_first is not None:
        return on_first
    if budget.skips_slow_selectors and not shape.quick(snapshot):
        raise SelectorsNotRun("the selectors must run on the fleet first")
    if shape.overspent(snapshot):
        return Unsatisfied(tuple(claim.key for claim in claims), Reason.GAVE_UP, OVERSPENT)
    considered, among = plausible(shape, nodes, snapshot)
    plain = shape.plain(snapshot, steps) if only is None and companions is None else None
    parsed = ParsedClaims(tuple(claims), shape.parsed.slots)
    best: tuple[int, int, Found] | None = None
    refused: list[tuple[str, NotFound]] = []
    tried = 0
    if not by_name and among.any():
        search = PreferredSearch(
            PolicyQuestion(parsed, snapshot, pod),
            policy,
            steps=steps,
            new_share=new_share,
            budget=budget,
            only=only,
            companions=companions,
        )
        granted = search.run(among, shape.node_filter.least)
        if granted is not None:
            return granted
    for least, place in shape.node_filter.in_order(among):
        name = snapshot.topology.order[place]
        if best is not None and (least, place) >= best[:2]:
            continue
        if tried >= HARD_NODES * steps:
            refused.append((name, NotFound(Reason.GAVE_UP, f"gave up after {tried} steps", 0)))
            break
        budget.spend()
        better_than = best[0] + (place < best[1]) if best is not None else None
        outcome = None
        if plain is not None:
            outcome = plain.attempt(
                claims[0], name, snapshot, least=least, better_than=better_than, budget=budget
            )
        outcome = outcome or attempt(
            parsed,
            name,
            snapshot,
            steps=steps,
            new_share=new_share,
            better_than=better_than,
            budget=budget,
            only=only,
            companions=companions,
        )
        tried += outcome.steps
        if isinstance(outcome, NotFound):
            refused.append((name, outcome))
            continue
        best = outcome.rank, place, outcome
        if outcome.rank == least:  # no later node can rank better
            break
    if best is not None:
        return Granted(node=snapshot.topology.order[best[1]], plans=best[2].plans, steps=tried)
    everywhere = considered == len(snapshot.topology.order)
    names = None if everywhere else sorted(set(nodes or ()).intersection(snapshot.topology.nodes))
    return unsatisfied(parsed, snapshot, names, refused, tried)


def _on_first(
    shape: ClaimShape,
    claims: Sequence[ResourceClaim],
    nodes: Iterable[str] | None,
    snapshot: Snapshot,
    steps: int,
    budget: Budget,
) -> Granted | None:
    """The answer of the first node with enough devices, which most claims get whose spec is known.

    None if more than counts must be looked at, or if that node does not fit.
    """
    option = shape.only_option(snapshot)
    if option is None or option.count > steps:
        return None
    order = snapshot.topology.order
    if nodes is None:
        first = shape.node_filter.first
    elif isinstance(nodes, NodeSubset) and nodes.order is order:
        among = shape.node_filter.open & nodes.mask
        first = int(among.argmax()) if among.any() else -1
    else:
        return None
    if first < 0:
        return None
    budget.spend()
    name = order[first]
    try:
        plan = option.plan(claims[0], snapshot.topology.view(name))
    except (Rejected, Fatal):
        return None
    if plan is None:
        return None
    budget.spend()
    return Granted(name, (plan,), option.count, snapshot.version)


def plausible(shape: ClaimShape, nodes: Iterable[str] | None, snapshot: Snapshot) -> tuple[int, Mask]:
    """How many nodes are considered, and (N,) those that the counts do not exclude.

    A node where selectors fail on a device is never excluded, so that the error is reported.
    """
    node_filter = shape.node_filter
    node_filter.follow(snapshot)
    among = node_filter.open
    considered = len(among)
    allowed = nodes_with_a_value(shape.match_groups(snapshot), snapshot)
    if allowed is not None:
        among = among & (allowed[np.maximum(snapshot.topology.order_codes, -1)] | node_filter.failing)
    if nodes is not None:
        possible = _possible(nodes, snapshot)
        considered = int(np.count_nonzero(possible))
        among = among & possible
    return considered, among


def _possible(nodes: Iterable[str], snapshot: Snapshot) -> Mask:
    """(N,) nodes that may be chosen."""
    order = snapshot.topology.order
    if isinstance(nodes, NodeSubset) and nodes.order is order:
        return nodes.mask
    chosen = set(nodes)
    return np.array([name in chosen for name in order], dtype=np.bool_)
