"""Builds an explanation: the funnels, the near misses, and the answers of the allocator to smaller claims."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from reconciler.allocation import explanation as explained
from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import STEPS, Fatal
from reconciler.allocation.dra.claim_shapes import claim_shape
from reconciler.allocation.dra.off_gates import ignored_fields
from reconciler.allocation.dra.request_options import ParsedClaims, read_claims
from reconciler.allocation.reason_table import remedy
from reconciler.analysis.explain import joint_gates
from reconciler.analysis.explain.funnel import GateResult, apply_gates, funnel, near_misses, smallest_sets
from reconciler.analysis.explain.shortage import EFFORT, Conflict, Relaxation, deciding_counters
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted, Reason, Unsatisfied
from reconciler.errors import Malformed
from reconciler.state.devices.readiness import NodeReach
from reconciler.state.devices.snapshot import Snapshot

MOST_SELECTORS = 256
"""Maximum different selectors of claims whose requests are explained."""
_JOINT = {Reason.ALIGNMENT: explained.Kind.ALIGNMENT, Reason.PARTITION: explained.Kind.PARTITION}
"""Reason of joint allocation -> the gate that refuses"""


def explain(
    claims: Sequence[ResourceClaim],
    snapshot: Snapshot,
    *,
    nodes: Collection[str] | None = None,
    answer: Granted | Unsatisfied | None = None,
    steps: int = STEPS,
    effort: int = EFFORT,
) -> explained.Explanation:
    """Explain why claims can or cannot be allocated together on one of `nodes`; None means all nodes.

    `answer` is the allocator's answer for the same claims; without it the allocator is called with `steps`.
    The cost is some passes over the fleet and up to a few dozen searches that try `effort` devices in total,
    so do not call it on the path of a decision.
    """
    if answer is None:
        answer = decide(claims, snapshot, nodes=nodes, steps=steps)
    reach = NodeReach(snapshot.topology, nodes)
    explanation = explained.Explanation(
        claims=tuple(claim.key for claim in claims),
        node=answer.node if isinstance(answer, Granted) else "",
        reason="" if isinstance(answer, Granted) else str(answer.reason),
        message="" if isinstance(answer, Granted) else answer.message,
        remedy="" if isinstance(answer, Granted) else remedy(answer.reason),
        nodes=len(reach.names),
    )
    try:
        parsed = read_claims(claims, snapshot.classes, snapshot.rules)
    except Fatal:
        return explanation  # no device was considered
    if _has_too_many_selectors(parsed) or claim_shape(claims, snapshot).overspent(snapshot):
        return explanation
    results = [[apply_gates(option, snapshot, reach) for option in slot.options] for slot in parsed.slots]
    left = {id(result.option): result.left for alternatives in results for result in alternatives}
    relaxation = Relaxation(claims, snapshot, nodes, effort)
    reason = answer.reason if isinstance(answer, Unsatisfied) else None
    try:
        joint = joint_gates.joint_requirements(parsed, left, snapshot, reach, reason, relaxation)
    except Malformed:  # the refusal names the error
        joint = joint_gates.JointRequirements()
    explanation = replace(
        explanation, requests=tuple(_requests(parsed, results, joint, reason, snapshot, reach))
    )
    if isinstance(answer, Granted):
        return explanation
    if answer.reason in _JOINT:
        nearest = tuple(joint_gates.joint_near_misses(joint, left, results, snapshot, reach))
    else:
        nearest = tuple(near_misses(parsed, results, snapshot, reach))
    errors = dict(answer.nodes_refused)
    nearest = tuple(replace(miss, together=errors.get(miss.node, miss.together)) for miss in nearest)
    possible = all(any(one.enough.any() for one in alternatives) for alternatives in results)
    if answer.reason.is_error or not possible:
        return replace(explanation, nearest=tuple(miss for miss in nearest if miss.lacks or miss.together))
    conflict = relaxation.conflict() if answer.reason is not Reason.GAVE_UP else Conflict()
    return replace(
        explanation,
        nearest=tuple(_with_joint_limit(miss, conflict, reach, relaxation) for miss in nearest),
        constraints=tuple(dict.fromkeys(relaxation.blocking_constraints())),
        preferences=tuple(dict.fromkeys(relaxation.blocking_preferences(joint.described())))
        if answer.reason in _JOINT
        else (),
        conflict=conflict.requests,
        conflicting=tuple(relaxation.described(conflict)),
        deciding=deciding_counters(conflict.requests, snapshot, relaxation)
        if answer.reason in (Reason.TOGETHER, Reason.NEVER)
        else (),
    )


def _has_too_many_selectors(parsed: ParsedClaims) -> bool:
    """Whether the cache of compiled selectors is too small, so that each would be compiled again."""
    uses = {use.expression for slot in parsed.slots for option in slot.options for use in option.selectors}
    return len(uses) > MOST_SELECTORS


def _requests(
    parsed: ParsedClaims,
    results: Sequence[Sequence[GateResult]],
    joint: joint_gates.JointRequirements,
    reason: Reason | None,
    snapshot: Snapshot,
    reach: NodeReach,
) -> Iterator[explained.Request]:
    together = np.ones(len(reach.names), dtype=np.bool_)
    for alternatives in results:
        together &= np.any([result.enough for result in alternatives], axis=0)
    every = [result for alternatives in results for result in alternatives]
    left = {id(result.option): result.left for result in every}
    selected = {id(result.option): result.selected for result in every}
    refusing = _JOINT.get(reason, explained.Kind.TOGETHER) if reason is not None else None
    gates = joint_gates.MultiDeviceGates(together, joint, refusing, left, selected)
    constraints = joint_gates.constraint_gates(parsed, left, snapshot, reach)
    for result in every:
        option = result.option
        steps, shortages, failing = funnel(result, snapshot)
        own = [constraints[option.claim, number] for number in option.constraints]
        wanted = None if option.all else option.source.wanted
        yield explained.Request(
            claim=parsed.claims[option.claim].key,
            request=option.name,
            wanted=wanted,
            devices=snapshot.fleet.size,
            funnel=(*steps, *gates.steps(result, own, reach, snapshot)),
            smallest=smallest_sets(result.gates, wanted, reach),
            shortages=shortages,
            failing=failing,
            possible=bool(result.enough.any()),
            ignored=tuple(ignored_fields(option, snapshot)),
        )


def _with_joint_limit(
    miss: explained.NearMiss, conflict: Conflict, reach: NodeReach, relaxation: Relaxation
) -> explained.NearMiss:
    """Add what does not fit together, if each request alone finds enough devices on the node."""
    if miss.lacks or miss.together or not conflict.requests:
        return miss
    here = conflict if len(reach.names) == 1 else relaxation.conflict(conflict, miss.node)
    found = relaxation.largest_count(here, miss.node)
    constraints = [text for _, text in relaxation.described(here)]
    *names, last = [*(name for _, name in here.requests), *constraints]
    if found is not None and len(here.requests) == 1:
        name, have, wanted = found
        rest = f" with {' and '.join(constraints)}" if constraints else ""
        return replace(miss, together=f"{have} of {wanted} devices for request {name} fit together{rest}")
    if not names:
        return miss
    together = f"{', '.join(names)} and {last} cannot hold together"
    if found is not None:
        name, have, wanted = found
        together += f"; beside the others, {have} of {wanted} devices fit for request {name}"
    return replace(miss, together=together)


FEW_STEPS = 200
"""Maximum devices tried in one search; all searches together try ten times as many. The event loop is blocked
meanwhile."""


def explain_briefly(
    claims: Sequence[ResourceClaim], snapshot: Snapshot, nodes: Iterable[str] | None
) -> explained.Explanation:
    """Like `explain`; `nodes` None means all nodes."""
    allowed = None if nodes is None else frozenset(nodes)
    return explain(claims, snapshot, nodes=allowed, steps=FEW_STEPS, effort=10 * FEW_STEPS)


def as_json(explanation: explained.Explanation) -> dict[str, Any]:
    """The whole explanation."""
    return {
        "claims": [str(key) for key in explanation.claims],
        "pod": str(explanation.pod) if explanation.pod is not None else None,
        "allocatable": explanation.allocatable,
        "node": explanation.node or None,
        "reason": explanation.reason or None,
        "message": explanation.message,
        "remedy": explanation.remedy,
        "nodesConsidered": explanation.nodes,
        "requests": [_request(request) for request in explanation.requests],
        "nearest": [_miss(miss) for miss in explanation.nearest],
        "constraintsInTheWay": list(explanation.constraints),
        "wishesInTheWay": list(explanation.preferences),
        "notTogether": [{"claim": str(key), "request": name} for key, name in explanation.conflict],
        "constraintsNotTogether": [
            {"claim": str(key), "constraint": text} for key, text in explanation.conflicting
        ],
        "decidingCounters": [_joint(short) for short in explanation.deciding],
    }


def _request(request: explained.Request) -> dict[str, Any]:
    return {
        "claim": str(request.claim),
        "request": request.request,
        "wanted": "All" if request.wanted is None else request.wanted,
        "devices": request.devices,
        "left": request.left,
        "funnel": [
            {
                "gate": str(step.kind),
                "about": step.about,
                "left": step.left,
                "errors": step.errors,
                "detail": step.detail,
                "nodes": step.nodes,
            }
            for step in request.funnel
        ],
        "smallestSets": [list(names) for names in request.smallest],
        "shortages": [_shortage(shortage) for shortage in request.shortages],
        "errors": [_failing(failing) for failing in request.failing],
        "ignored": list(request.ignored),
    }


def _shortage(shortage: explained.Shortage) -> dict[str, Any]:
    return {
        "counter": shortage.counter,
        "counterSet": shortage.set,
        "driver": shortage.pool.driver,
        "pool": shortage.pool.pool,
        "device": shortage.device.device,
        "wanted": str(shortage.wanted),
        "left": str(shortage.left),
        "short": str(shortage.short),
        "devices": shortage.devices,
        "holders": [str(key) for key in shortage.holders],
    }


def _joint(short: explained.JointShortage) -> dict[str, Any]:
    return {
        "counter": short.counter,
        "counterSet": short.set,
        "driver": short.pool.driver,
        "pool": short.pool.pool,
        "node": short.node or None,
        "wanted": str(short.wanted),
        "left": str(short.left),
        "holders": [str(key) for key in short.holders],
    }


def _failing(failing: explained.Failing) -> dict[str, Any]:
    return {
        "where": failing.where,
        "expression": failing.expression or None,
        "device": str(failing.device),
        "problem": failing.problem,
        "devices": failing.devices,
    }


def _miss(miss: explained.NearMiss) -> dict[str, Any]:
    return {"node": miss.node, "lacks": [_lack(lack) for lack in miss.lacks], "together": miss.together}


def _lack(lack: explained.Lack) -> dict[str, Any]:
    return {
        "claim": str(lack.claim),
        "request": lack.request,
        "have": lack.have,
        "wanted": lack.wanted,
        "why": list(lack.why),
    }
