"""Converts an explanation to JSON. The field names are stable."""

from typing import Any

from reconciler.allocation.reasons.explanation import (
    Explanation,
    Failing,
    JointShortage,
    Lack,
    NearMiss,
    Request,
    Shortage,
)


def as_json(explanation: Explanation) -> dict[str, Any]:
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
        "decidingCounters": [_joint(short) for short in explanation.deciding],
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


def _joint(short: JointShortage) -> dict[str, Any]:
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
