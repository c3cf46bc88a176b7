"""A drawing as SVG text: boxes, words and arrows on a white background."""

from html import escape

INK, FAINT, GROUND = "#1f2933", "#9aa5b1", "#ffffff"
BLUE, GREEN, RED, GREY = "#d7e8f5", "#cfe8cf", "#f6c9c0", "#eef1f4"
_FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"


class Drawing:
    """Collects shapes; coordinates are pixels from the upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
            f"height='{height}' role='img' {_FONT}>\n<title>{escape(title)}</title>\n"
        )
        self._shapes: list[str] = []
        self.box(0, 0, width, height, GROUND, edge="none")

    def box(self, x: float, y: float, width: float, height: float, fill: str, *, edge: str = FAINT) -> None:
        """A rectangle."""
        self._shapes.append(
            f"<rect x='{x:g}' y='{y:g}' width='{width:g}' height='{height:g}' fill='{fill}' stroke='{edge}'/>"
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 12,
        anchor: str = "start",
        bold: bool = False,
        colour: str = INK,
    ) -> None:
        """One line of text; y is its base line."""
        weight = " font-weight='bold'" if bold else ""
        self._shapes.append(
            f"<text x='{x:g}' y='{y:g}' font-size='{size}' text-anchor='{anchor}' fill='{colour}'{weight}>"
            f"{escape(words)}</text>"
        )

    def upright(self, x: float, y: float, words: str, *, size: int = 11) -> None:
        """One line of text that runs upwards from its start."""
        self._shapes.append(
            f"<text transform='translate({x:g},{y:g}) rotate(-60)' font-size='{size}' fill='{INK}'>"
            f"{escape(words)}</text>"
        )

    def arrow(self, x: float, y: float, length: float) -> None:
        """An arrow to the right."""
        end = x + length
        self._shapes.append(
            f"<path d='M{x:g} {y:g} H{end - 6:g} M{end - 8:g} {y - 5:g} l8 5 l-8 5 Z' "
            f"stroke='{INK}' stroke-width='1.5' fill='{INK}'/>"
        )

    def __str__(self) -> str:
        return self._head + "\n".join(self._shapes) + "\n</svg>\n"
