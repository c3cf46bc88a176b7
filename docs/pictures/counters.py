"""One GPU in numbers: what remains of its counter set, what each partition draws, and which fit."""

import numpy as np

from docs.pictures.moment import after
from docs.pictures.svg import BLUE, FAINT, GREEN, GREY, RED, Drawing

_POD = "inference/notebook"
"""It holds one small partition"""
_LEFT, _TOP, _CELL, _ROW = 215, 150, 46, 19


def counters() -> str:
    """The picture."""
    world = after(_POD)
    fleet, occupancy = world.fleet, world.occupancy
    rows = np.flatnonzero((fleet.sets == 0).any(axis=1))
    column = fleet.set_columns[0]
    counts = range(len(column.counters))
    in_gibi = [name == "memory" for name in column.counters]

    def shown(amount: int, at: int) -> str:
        exact = int(amount) * column.units[at]  # billionths
        if in_gibi[at] and exact:
            return f"{exact / 10**9 / 2**30:.1f}"
        return f"{exact // 10**9}"

    width = _LEFT + _CELL * len(column.counters) + 110
    drawing = Drawing(
        width, _TOP + _ROW * (len(rows) + 4) + 30, "Counters of one GPU and what each device draws"
    )
    drawing.text(
        12, 24, f"Counter set {column.id.name}, while one small partition is held", size=15, bold=True
    )
    drawing.text(
        12, 44, "A device is available if its draw is at most the remaining amount, in every column."
    )
    for at in counts:
        name = column.counters[at] + (" (Gi)" if in_gibi[at] else "")
        drawing.upright(_LEFT + _CELL * at + 22, _TOP - 8, name)
    drawing.upright(_LEFT + _CELL * len(column.counters) + 30, _TOP - 8, "mask")
    left = occupancy.left[0]
    for line, (label, amounts) in enumerate((("published", fleet.totals[0]), ("remaining", left))):
        y = _TOP + _ROW * line
        drawing.text(12, y + 14, label, bold=True)
        for at in counts:
            drawing.box(_LEFT + _CELL * at, y, _CELL, _ROW, BLUE if label == "remaining" else GREY)
            drawing.text(
                _LEFT + _CELL * at + _CELL / 2, y + 14, shown(amounts[at], at), anchor="middle", size=11
            )
    for line, row in enumerate(rows.tolist()):
        y = _TOP + _ROW * (line + 2) + 12
        k = int(np.flatnonzero(fleet.sets[row] == 0)[0])
        draw = fleet.table[fleet.draws[row, k]]
        held, fits = bool(occupancy.held[row]), bool(occupancy.fits[row])
        drawing.text(12, y + 14, fleet.id_of(row).device, size=11)
        for at in counts:
            short = draw[at] > left[at] and draw[at] > 0 and not held
            fill = GREEN if held else RED if short else "#ffffff"
            drawing.box(_LEFT + _CELL * at, y, _CELL, _ROW, fill)
            colour = FAINT if not draw[at] else "#1f2933"
            x = _LEFT + _CELL * at + _CELL / 2
            drawing.text(x, y + 14, shown(draw[at], at), anchor="middle", size=11, colour=colour)
        word = "held" if held else "fits" if fits else "does not fit"
        drawing.text(_LEFT + _CELL * len(column.counters) + 12, y + 14, word, size=11, bold=fits and not held)
    y = _TOP + _ROW * (len(rows) + 2) + 36
    for at, (fill, words) in enumerate(((GREEN, "held: its draw is subtracted"), (RED, "more than remains"))):
        drawing.box(12 + 270 * at, y, 14, 14, fill)
        drawing.text(32 + 270 * at, y + 12, words)
    return str(drawing)
