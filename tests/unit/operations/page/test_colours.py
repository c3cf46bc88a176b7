"""Colours are legible in both themes, and always the same for a claim."""

import re
from itertools import pairwise

import pytest

from reconciler.api.objects.meta import ObjectKey
from reconciler.operations.page import drawing
from reconciler.operations.page.routes import _style

TEXT, SHAPE = 4.5, 3.0
"""Contrast that WCAG 2.2 AA wants of text and of what has to be seen to understand"""


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    red, green, blue = linear
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def themes() -> dict[str, dict[str, str]]:
    """The custom properties of both themes, the dark one with what it keeps of the light one."""
    found: list[dict[str, str]] = [{}, {}]
    for block in re.findall(r":root\{(.*?)\}", str(_style()), re.DOTALL):
        pairs = dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,6})", block))
        # The blocks come in turns: light, dark, light, dark.
        found[0 if len(pairs.keys() & found[0].keys()) == 0 else 1] |= pairs
    return {"light": found[0], "dark": found[0] | found[1]}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_shapes_stand_out(theme: str):
    of = themes()[theme]
    fills = [of[f"c{at}"] for at in range(len(drawing.LIGHT))]
    assert fills == list(drawing.LIGHT if theme == "light" else drawing.DARK)
    for fill in fills:
        assert contrast(fill, of["on"]) >= TEXT, fill
        assert contrast(fill, of["card"]) >= SHAPE, fill
        assert contrast(fill, of["track"]) >= SHAPE, fill
    for ink in ("ink", "soft", "link"):
        assert contrast(of[ink], of["card"]) >= TEXT, ink
        assert contrast(of[ink], of["ground"]) >= TEXT, ink
    assert contrast(of["grave"], of["graveground"]) >= TEXT
    assert contrast(of["on"], of["link"]) >= TEXT
    for shape in ("edge", "u-held", "u-shared"):
        assert contrast(of[shape], of["card"]) >= SHAPE, shape


def test_a_claim_keeps_its_colour_and_claims_spread_over_all_of_them():
    keys = [ObjectKey("default", f"claim-{number}") for number in range(300)]
    assert [drawing.colour(key) for key in keys] == [drawing.colour(key) for key in keys]
    assert {drawing.colour(key) for key in keys} == set(range(len(drawing.LIGHT)))
    assert drawing.colour(ObjectKey("default", "claim-0")) == 11
    assert drawing.colour(ObjectKey("a", "\udc80")) >= 0


def test_letters_go_on_after_z():
    assert [drawing.letters(at) for at in (0, 25, 26, 51, 52, 701, 702)] == [
        "A", "Z", "AA", "AZ", "BA", "ZZ", "AAA",
    ]  # fmt: skip
    made = [drawing.letters(at) for at in range(2000)]
    assert len(set(made)) == len(made)
    assert all(len(one) <= len(other) for one, other in pairwise(made))
