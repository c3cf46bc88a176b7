"""The text form of doubles."""

import math
from decimal import Decimal


def double_text(value: float) -> str:
    """The shortest text that parses to `value`; with an exponent below 1e-4 and from 1e6."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    scale = len(text) + int(exponent) - 1
    if value == 0:
        return "-0" if sign else "0"
    if -4 <= scale < 6:
        return format(Decimal(repr(value)).normalize(), "f")
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if scale < 0 else '+'}{abs(scale):02d}"


def plain_text(value: float) -> str:
    """The shortest text that parses to `value`, without an exponent."""
    return format(Decimal(repr(value)).normalize(), "f") if math.isfinite(value) else double_text(value)
