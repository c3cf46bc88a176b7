"""Converts an answer to JSON, for the command and the status port. The field names are stable."""

from collections import Counter
from typing import Any

from reconciler.analysis.fitting.answer import Fit, SetFit, Short


def as_json(result: Fit) -> dict[str, Any]:
    """The whole answer."""
    return {"fits": result.all_fit, "podSets": [_set(one) for one in result.sets]}


def _set(one: SetFit) -> dict[str, Any]:
    nodes = Counter(seat.node for seat in one.seats)
    return {
        "name": one.name,
        "count": one.count,
        "fits": one.fits,
        "nodes": [{"node": node, "pods": pods} for node, pods in sorted(nodes.items())],
        "domain": dict(one.domain),
        "short": _short(one.short) if one.short is not None else None,
    }


def _short(short: Short) -> dict[str, Any]:
    return {
        "reason": str(short.reason),
        "message": short.message,
        "lacks": [{"what": what, "amount": amount} for what, amount in short.lacks],
    }
