"""An answer as JSON, for the command and the status port."""

from typing import Any

from reconciler.analysis.whatif.answer import Answer, Lost, Placed, Refused


def as_json(found: Answer) -> dict[str, Any]:
    """All of it."""
    return {
        "fits": found.fits,
        "copies": found.copies,
        "copiesAsked": found.asked,
        "limit": str(found.limit),
        "placed": [_placed(one) for one in found.placed],
        "refused": _refused(found.refused) if found.refused is not None else None,
        "freed": [str(key) for key in found.freed],
        "lost": [_lost(one) for one in found.lost],
    }


def _placed(one: Placed) -> dict[str, Any]:
    devices = [
        {"claim": str(claim), "request": request, **device._asdict()}
        for claim, request, device in one.devices
    ]
    return {"unit": one.unit, "copy": one.copy, "node": one.node or None, "devices": devices}


def _refused(one: Refused) -> dict[str, Any]:
    return {"unit": one.unit, "copy": one.copy, "reason": str(one.reason), "message": one.message}


def _lost(one: Lost) -> dict[str, Any]:
    return {
        "claims": [str(key) for key in one.claims],
        "pod": str(one.pod) if one.pod is not None else None,
        "devices": [device._asdict() for device in one.devices],
        "elsewhere": _placed(one.elsewhere) if isinstance(one.elsewhere, Placed) else None,
        "refused": _refused(one.elsewhere) if isinstance(one.elsewhere, Refused) else None,
    }
