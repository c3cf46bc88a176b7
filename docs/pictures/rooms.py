"""The rooms of the program: the way of one claim through them, and which room may import which."""

from collections.abc import Sequence

from docs.pictures.svg import BLUE, GREEN, GREY, Drawing

WAY: Sequence[tuple[str, str, Sequence[str]]] = (
    ("API server", GREY, ("watch events", "of claims, slices,", "pods, nodes")),
    ("cluster", BLUE, ("follows the watches,", "decodes objects")),
    ("state", BLUE, ("stores objects,", "makes frozen", "snapshots")),
    ("control", GREEN, ("queues units,", "asks what each", "one needs")),
    ("allocation", GREEN, ("decides from a", "snapshot: devices,", "or a reason")),
    ("control", GREEN, ("assumes the plan,", "then settles it")),
    ("cluster", BLUE, ("writes finalizer,", "allocation, gate")),
    ("API server", GREY, ("stores; the watch", "confirms")),
)
"""Room, colour, and what happens there to a claim"""

LEVELS: Sequence[Sequence[str]] = (
    ("kernels", "aio", "errors"),
    ("api",),
    ("cel",),
    ("state",),
    ("allocation",),
    ("analysis", "control"),
    ("operations",),
    ("app",),
    ("plugins",),
    ("library",),
    ("cli",),
)
"""From the lowest level up: a room imports rooms of lower levels"""

BESIDE: Sequence[tuple[str, str]] = (
    ("settings", "imports errors"),
    ("cluster", "imports api, aio, errors, settings"),
    ("ha", "imports those, cel, cluster"),
    ("embedded", "imports api, errors; only cli imports it"),
)
"""Rooms beside the levels"""

_BOX, _GAP, _TOP, _HEIGHT = 132, 30, 50, 100
_ROW, _LOW = 34, _TOP + _HEIGHT + 60


def rooms() -> str:
    """The picture."""
    width = len(WAY) * (_BOX + _GAP) - _GAP + 24
    drawing = Drawing(width, _LOW + len(LEVELS) * _ROW + 14, "The rooms of the program")
    drawing.text(12, 28, "The way of one claim", size=15, bold=True)
    for at, (name, fill, lines) in enumerate(WAY):
        x = 12 + at * (_BOX + _GAP)
        drawing.box(x, _TOP, _BOX, _HEIGHT, fill)
        drawing.text(x + 10, _TOP + 22, name, size=13, bold=True)
        for line, words in enumerate(lines):
            drawing.text(x + 10, _TOP + 46 + 18 * line, words, size=11)
        if at:
            drawing.arrow(x - _GAP + 4, _TOP + _HEIGHT / 2, _GAP - 8)
    drawing.text(12, _LOW - 14, "Each room imports only rooms below it", size=15, bold=True)
    half = width // 2
    for level, names in enumerate(reversed(LEVELS)):
        share = (half - 12) / len(names)
        for at, name in enumerate(names):
            _room(drawing, 12 + at * share, _LOW + level * _ROW, share - 6, name)
    drawing.text(half + 30, _LOW - 14, "Beside the levels", size=15, bold=True)
    for at, (name, words) in enumerate(BESIDE):
        y = _LOW + at * _ROW
        _room(drawing, half + 30, y, 110, name)
        drawing.text(half + 152, y + 18, words)
    words = "control, operations, app, plugins and cli import settings, cluster and ha"
    drawing.text(half + 30, _LOW + len(BESIDE) * _ROW + 18, words)
    return str(drawing)


def _room(drawing: Drawing, x: float, y: float, width: float, name: str) -> None:
    fill = GREEN if name in ("allocation", "control") else BLUE if name in ("state", "cluster") else GREY
    drawing.box(x, y, width, _ROW - 6, fill)
    drawing.text(x + width / 2, y + 18, name, anchor="middle", bold=True)
