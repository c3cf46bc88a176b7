"""Converts decisions about gangs to JSON. They are recorded, and not made again by `replay`."""

from typing import Any

from reconciler.allocation.gangs.question import GangGranted, GangUnsatisfied
from reconciler.control.gangs.planner import Solve

GANG = "gang"
"""The type of the entry"""


def write_gang(name: str, solve: Solve, answer: GangGranted | GangUnsatisfied) -> dict[str, Any]:
    """The question about a gang, and its answer."""
    question = solve.question
    entry: dict[str, Any] = {
        "t": GANG,
        "id": name,
        "gang": list(question.gang),
        "size": solve.rules.least,
        "least": question.least,
        "tiers": [[tier.key, "required" if tier.required else "preferred"] for tier in question.tiers],
        "nodes": list(question.nodes),
        "members": [
            {"pod": list(member.pod.key), "claims": [list(claim.key) for claim in member.claims]}
            for member in question.members
        ],
        "steps": answer.steps,
    }
    if not question.policies.first_fit:
        name = answer.policy if isinstance(answer, GangGranted) else ""
        policies = question.policies
        entry["policy"] = {"name": name, "seed": policies.seed, "demand": policies.demand.digest}
    if isinstance(answer, GangUnsatisfied):
        return {**entry, "reason": answer.reason, "message": answer.message, "fits": answer.fits}
    return {
        **entry,
        "reason": "",
        "domain": [[tier.key, value] for tier, value in answer.domain],
        "leftOut": [list(key) for key in answer.left_out],
        "seats": [
            {
                "pod": list(seat.pod),
                "node": seat.node,
                "devices": [
                    f"{plan.claim} {result.request}={result.id}"
                    for plan in seat.plans
                    for result in plan.allocation.devices.results
                ],
            }
            for seat in answer.seats
        ],
    }
