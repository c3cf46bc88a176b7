"""From slices to writes: the way of one claim, with the numbers of the demonstration."""

from collections.abc import Sequence

from docs.pictures.moment import granted, question
from docs.pictures.svg import BLUE, GREEN, GREY, Drawing
from reconciler.allocation.explanation import Kind
from reconciler.analysis.explain.explain import explain

_CLAIM = "inference/mig-mix"
_DEVICE = (Kind.CLASS, Kind.SELECTOR, Kind.TAINTS, Kind.HELD, Kind.COUNTERS, Kind.NODES)
_BOX, _GAP, _TOP, _HEIGHT = 222, 36, 50, 175


def pipeline() -> str:
    """The picture."""
    asked, outcome = question(_CLAIM), granted(_CLAIM)
    fleet = asked.snapshot.fleet
    told = explain(asked.claims, asked.snapshot, nodes=asked.nodes)
    first = told.requests[0]
    (plan,) = outcome.plans
    blocks = [block for pool in fleet.pools for block in pool.blocks]
    masks = [f"{step.left}: {step.about or step.kind}" for step in first.funnel if step.kind in _DEVICE]
    devices = [device.id.device for device in plan.allocation.devices.results]
    stages: Sequence[tuple[str, str, Sequence[str]]] = (
        (
            "Slices",
            GREY,
            (f"{len(blocks)} ResourceSlices", f"in {len(fleet.pools)} pools", f"{fleet.size} devices"),
        ),
        (
            "Matrices",
            BLUE,
            (
                f"totals {_shape(fleet.totals.shape)}: counter sets",
                f"left {_shape(asked.snapshot.occupancy.left.shape)}: the same, now",
                f"table {_shape(fleet.table.shape)}: distinct draws",
                f"sets, draws {_shape(fleet.sets.shape)}: who draws",
                f"{len(fleet.codes)} columns of codes",
            ),
        ),
        ("Masks", BLUE, (f"request {first.request}, devices that pass:", *masks[:7])),
        ("Decision", GREEN, (f"first fit: node {plan.node}", *devices)),
        (
            "Writes",
            GREY,
            (
                "1. finalizer on the claim",
                "2. status.allocation with",
                "    devices, node, timestamp",
                "3. removal of the pod's gate",
            ),
        ),
    )
    width = len(stages) * (_BOX + _GAP) - _GAP + 24
    drawing = Drawing(width, _TOP + _HEIGHT + 20, f"From slices to writes: claim {_CLAIM}")
    drawing.text(
        12,
        28,
        f"From slices to writes: claim {_CLAIM} with {len(asked.claims[0].spec.devices.requests)} requests",
        size=15,
        bold=True,
    )
    for at, (name, fill, lines) in enumerate(stages):
        x = 12 + at * (_BOX + _GAP)
        drawing.box(x, _TOP, _BOX, _HEIGHT, fill)
        drawing.text(x + 10, _TOP + 22, name, size=14, bold=True)
        for line, words in enumerate(lines):
            drawing.text(x + 10, _TOP + 46 + 18 * line, words, size=11)
        if at:
            drawing.arrow(x - _GAP + 4, _TOP + _HEIGHT / 2, _GAP - 8)
    return str(drawing)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
