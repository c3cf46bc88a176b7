"""Quantities as exact numbers."""

from fractions import Fraction
from functools import cache

Amount = int | Fraction
"""Whole wherever it can be: most of an auditor's time goes into sums of these"""

_SUFFIXES: dict[str, Fraction | int] = {
    "": 1, "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30,
}  # fmt: skip


@cache
def amount(text: str | int) -> Amount:
    """What a quantity says, among those that the simulation publishes."""
    text = str(text)
    digits = text.rstrip("kmMGKi")
    found = Fraction(digits) * _SUFFIXES[text[len(digits) :]]
    return found.numerator if found.denominator == 1 else found
