"""Converts advice about room and drains to JSON. The field names are stable."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.making_room.advice import Advice
from reconciler.analysis.making_room.drain import DrainAnswer, Step
from reconciler.analysis.making_room.moves import Move
from reconciler.analysis.making_room.wanted import Place
from reconciler.api.objects.meta import DeviceID, ObjectKey


def drain_as_json(answer: DrainAnswer) -> dict[str, Any]:
    """The whole answer about a drain."""
    return {
        "empties": answer.empties,
        "proved": answer.proved,
        "steps": [_step(step, answer) for step in answer.steps if step.move.refusal is None],
        "stuck": [{**_step(step, answer), "evenAlone": step.alone} for step in answer.stuck],
        "staysWithItsNode": [str(key) for key in answer.ignored],
        "claimsWithoutPods": [str(key) for key in answer.unused],
    }


def _step(step: Step, answer: DrainAnswer) -> dict[str, Any]:
    found = move_as_json(step.move, answer.devices)
    return {**found, "waitsForBudgets": [str(key) for key in step.waits_for]}


def as_json(advice: Advice) -> dict[str, Any]:
    """The whole advice."""
    return {
        "wanted": advice.wanted,
        "priority": advice.priority,
        "fits": advice.fits,
        "optimal": advice.optimal,
        "provedCosts": list(advice.proved),
        "cost": _cost(advice) if advice.victims else None,
        "budgetsViolated": [
            {"budget": str(key), "evictions": count} for key, count in (advice.violated or {}).items()
        ],
        "evict": [move_as_json(move, advice.devices or {}) for move in advice.moves],
        "deletedAlready": [str(key) for key in advice.leaving],
        "places": [place_as_json(one) for one in advice.places],
        "refused": refusal_as_json(advice.refusal) if advice.refusal is not None else None,
        "setsTried": advice.tries,
    }


def _cost(advice: Advice) -> dict[str, Any]:
    cost = advice.cost
    return {
        "violations": cost.violations,
        "highestPriority": cost.highest,
        "priorities": cost.priorities,
        "pods": cost.pods,
        "devices": cost.devices,
    }


def move_as_json(move: Move, devices: Mapping[ObjectKey, Sequence[DeviceID]]) -> dict[str, Any]:
    """Pods that leave together, what they free of the devices of claims, and where they could go."""
    unit = move.unit
    return {
        "pods": [str(key) for key in unit.pods],
        "gang": str(unit.gang) if unit.gang is not None else None,
        "frees": [
            {"claim": str(claim), "devices": [one._asdict() for one in devices.get(claim, ())]}
            for claim in unit.claims
        ],
        "goesTo": [place_as_json(one) for one in move.places],
        "refused": refusal_as_json(move.refusal) if move.refusal is not None else None,
    }


def place_as_json(place: Place) -> dict[str, Any]:
    """A node, and the devices there."""
    return {
        "pod": str(place.pod) if place.pod is not None else None,
        "node": place.node or None,
        "devices": list(_devices(place)),
    }


def _devices(place: Place) -> Iterable[dict[str, Any]]:
    for plan in place.plans:
        for result in plan.allocation.devices.results:
            yield {"claim": str(plan.claim), "request": result.request, **result.id._asdict()}


def refusal_as_json(refusal: NoFit) -> dict[str, str]:
    """A reason and its message."""
    return {"reason": str(refusal.reason), "message": refusal.message}
