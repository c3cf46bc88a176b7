"""An explanation as JSON. Field names are stable."""

from typing import Any

from reconciler.allocation.reasons.explanation import Explanation, Failing, Lack, NearMiss, Request, Shortage


def as_json(told: Explanation) -> dict[str, Any]:
    """Everything that an explanation holds."""
    return {
        "claims": [str(key) for key in told.claims],
        "allocatable": told.allocatable,
        "node": told.node or None,
        "reason": told.reason or None,
        "message": told.message,
        "remedy": told.remedy,
        "nodesConsidered": told.nodes,
        "requests": [_request(request) for request in told.requests],
        "nearest": [_miss(miss) for miss in told.nearest],
        "constraintsInTheWay": list(told.constraints),
        "wishesInTheWay": list(told.preferences),
        "notTogether": [{"claim": str(key), "request": name} for key, name in told.conflict],
    }


def _request(request: Request) -> dict[str, Any]:
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
    }


def _shortage(shortage: Shortage) -> dict[str, Any]:
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


def _failing(failing: Failing) -> dict[str, Any]:
    return {
        "where": failing.where,
        "expression": failing.expression or None,
        "device": str(failing.device),
        "problem": failing.problem,
        "devices": failing.devices,
    }


def _miss(miss: NearMiss) -> dict[str, Any]:
    return {"node": miss.node, "lacks": [_lack(lack) for lack in miss.lacks], "together": miss.together}


def _lack(lack: Lack) -> dict[str, Any]:
    return {
        "claim": str(lack.claim),
        "request": lack.request,
        "have": lack.have,
        "wanted": lack.wanted,
        "why": list(lack.why),
    }
