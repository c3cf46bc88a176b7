"""Converts advice about room, drains and moves to JSON. The field names are stable."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.relocation.defragment import Answer, Cells, Picture, PodMove
from reconciler.analysis.relocation.drain import DrainAnswer, DrainStep
from reconciler.analysis.relocation.leaving import Move
from reconciler.analysis.relocation.make_room import Advice
from reconciler.analysis.relocation.wanted import Place
from reconciler.api.objects.meta import DeviceID, ObjectKey


def drain_as_json(answer: DrainAnswer) -> dict[str, Any]:
    """The whole answer about a drain."""
    return {
        "empties": answer.empties,
        "proved": answer.proved,
        "steps": [_drain_step(step, answer) for step in answer.steps if step.move.refusal is None],
        "stuck": [{**_drain_step(step, answer), "evenAlone": step.alone} for step in answer.stuck],
        "staysWithItsNode": [str(key) for key in answer.ignored],
        "claimsWithoutPods": [str(key) for key in answer.unused],
    }


def _drain_step(step: DrainStep, answer: DrainAnswer) -> dict[str, Any]:
    found = move_as_json(step.move, answer.devices)
    return {**found, "waitsForBudgets": [str(key) for key in step.waits_for]}


def advice_as_json(advice: Advice) -> dict[str, Any]:
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


def defragmentation_as_json(answer: Answer) -> dict[str, Any]:
    """The whole answer."""
    return {
        "counted": answer.title,
        "before": answer.before,
        "after": answer.before + answer.gain,
        "gain": answer.gain,
        "gainWanted": answer.wanted,
        "gainAtMost": answer.most,
        "reached": answer.reached,
        "gaveUp": answer.gave_up,
        "limitsReached": list(answer.ended),
        "moves": len(answer.moves),
        "movesAtLeast": answer.fewest,
        "optimal": answer.optimal,
        "steps": [
            {
                "place": step.place,
                "gain": step.gain,
                "moves": [_defragmenting_move(move) for move in step.moves],
            }
            for step in answer.steps
        ],
        "places": [_picture(one) for one in answer.pictures],
        "profiles": [
            {"driver": one.driver, "profile": one.profile, "before": one.before, "after": one.after}
            for one in answer.profiles
        ],
        "evictions": list(evictions(answer)),
    }


def evictions(answer: Answer) -> Iterable[str]:
    """The evictions in order, as kubectl commands. Wait for each replacement before the next one."""
    for move in answer.moves:
        namespace, name = move.pod
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        yield f"echo '{json.dumps(body)}' | kubectl create --raw {path} -f -"


def _defragmenting_move(move: PodMove) -> dict[str, Any]:
    return {
        "pod": str(move.pod),
        "controller": f"{move.controller.kind}/{move.controller.name}",
        "claims": [str(key) for key in move.claims],
        "from": {"node": move.node or None, "devices": _devices_of_move(move.devices)},
        "to": {"node": move.to_node or None, "devices": _devices_of_move(move.to_devices)},
    }


def _devices_of_move(devices: Iterable[DeviceID]) -> list[dict[str, str]]:
    return [device._asdict() for device in devices]


def _picture(one: Picture) -> dict[str, Any]:
    return {"place": one.place, "before": _cells(one.before), "after": _cells(one.after)}


def _cells(cells: Cells) -> list[str | None]:
    return [str(claim) if claim is not None else None for claim in cells]
