"""Why a claim is pending: how many devices each gate leaves, as bars."""

from docs.pictures.moment import question
from docs.pictures.svg import BLUE, GREY, RED, Drawing
from reconciler.analysis.explain.explain import explain

_CLAIM = "inference/vision"
_LEFT, _WIDTH, _ROW = 330, 420, 26


def funnel() -> str:
    """The picture."""
    asked = question(_CLAIM)
    explanation = explain(asked.claims, asked.snapshot, nodes=asked.nodes)
    (request,) = explanation.requests
    steps = request.funnel
    drawing = Drawing(_LEFT + _WIDTH + 70, 72 + _ROW * (len(steps) + 1), f"Why {_CLAIM} is pending")
    wanted = f"{_CLAIM}: request {request.request} wants {request.wanted}"
    drawing.text(12, 24, f"{wanted} devices: {explanation.reason}", size=15, bold=True)
    drawing.text(12, 44, "Devices of the whole fleet that pass a gate and all gates above it")
    lines = [("all devices", request.devices), *((step.about or str(step.kind), step.left) for step in steps)]
    for at, (name, left) in enumerate(lines):
        y = 60 + _ROW * at
        drawing.text(_LEFT - 10, y + 16, name, anchor="end")
        enough = left >= (request.wanted or 0)
        drawing.box(_LEFT, y + 3, _WIDTH, _ROW - 6, GREY, edge="none")
        drawing.box(_LEFT, y + 3, _WIDTH * left / request.devices, _ROW - 6, BLUE, edge="none")
        if not enough:
            drawing.box(_LEFT, y + 3, 6, _ROW - 6, RED, edge="none")
        drawing.text(_LEFT + _WIDTH + 10, y + 16, str(left), bold=True)
    return str(drawing)
