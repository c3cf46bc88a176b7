"""Converts an answer to JSON, for the command and the status port. The field names are stable."""

from typing import Any

from reconciler.analysis.whatif.answer import Answer, Lost, Placed, PlacedGang, Refused


def as_json(result: Answer) -> dict[str, Any]:
    """The whole answer."""
    return {
        "fits": result.fits,
        "copies": result.copies,
        "copiesAsked": result.asked,
        "limit": str(result.limit),
        "placed": [_placed(one) for one in result.placed],
        "gangs": [_gang(one) for one in result.gangs],
        "refused": _refused(result.refused) if result.refused is not None else None,
        "freed": [str(key) for key in result.freed],
        "lost": [_lost(one) for one in result.lost],
    }


def _placed(placed: Placed) -> dict[str, Any]:
    devices = [
        {"claim": str(claim), "request": request, **device._asdict()}
        for claim, request, device in placed.devices
    ]
    return {"unit": placed.unit, "copy": placed.copy, "node": placed.node or None, "devices": devices}


def _gang(gang: PlacedGang) -> dict[str, Any]:
    return {
        "unit": gang.unit,
        "copy": gang.copy,
        "pods": [{"unit": seat.unit, "node": seat.node} for seat in gang.seats],
        "leftOut": list(gang.left_out),
        "domain": dict(gang.domain),
    }


def _refused(refused: Refused) -> dict[str, Any]:
    return {
        "unit": refused.unit,
        "copy": refused.copy,
        "reason": str(refused.reason),
        "message": refused.message,
    }


def _lost(lost: Lost) -> dict[str, Any]:
    return {
        "claims": [str(key) for key in lost.claims],
        "pod": str(lost.pod) if lost.pod is not None else None,
        "devices": [device._asdict() for device in lost.devices],
        "elsewhere": _placed(lost.elsewhere) if isinstance(lost.elsewhere, Placed) else None,
        "refused": _refused(lost.elsewhere) if isinstance(lost.elsewhere, Refused) else None,
    }
