"""The colours of claims. A claim always has the same colour, readable in light and dark mode."""

from hashlib import sha256

from reconciler.api.objects.meta import ObjectKey

LIGHT = (
    "#9c3d2b", "#8a5200", "#6b6000", "#3f6b12", "#00704d", "#006d75",
    "#0b66a0", "#3f5bb5", "#6a4db8", "#8b40a3", "#a0357c", "#a83252",
)  # fmt: skip
"""Fills of a light page, for white text"""
DARK = (
    "#f2a391", "#e5ac62", "#cdbb50", "#a3c871", "#68d1a6", "#5dcdd6",
    "#79c2f5", "#a4b6fb", "#c3abf9", "#dfa3f0", "#f29fd3", "#f8a1b4",
)  # fmt: skip
"""Fills of a dark page, for dark text"""


def colour(claim: ObjectKey) -> int:
    """Position of the claim's colour. Claims may share colours, so on charts each also has a letter."""
    return sha256(str(claim).encode(errors="surrogatepass")).digest()[0] % len(LIGHT)


def rules() -> str:
    """CSS: the colours as custom properties, and a class for each."""
    light = "".join(f"--c{at}:{value};" for at, value in enumerate(LIGHT))
    dark = "".join(f"--c{at}:{value};" for at, value in enumerate(DARK))
    classes = "".join(f".c{at}{{--own:var(--c{at})}}" for at in range(len(LIGHT)))
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{classes}"


def letters(number: int) -> str:
    """0, 1, ... as A, B, ..., Z, AA, AB, ..."""
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text
