"""Quantities as fractions."""

from fractions import Fraction

_SUFFIXES: dict[str, Fraction | int] = {
    "": 1, "m": Fraction(1, 1000), "k": 10**3, "M": 10**6, "G": 10**9,
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30,
}  # fmt: skip


def amount(text: str | int) -> Fraction:
    """What a quantity says, among those that the simulation publishes."""
    text = str(text)
    digits = text.rstrip("kmMGKi")
    return Fraction(digits) * _SUFFIXES[text[len(digits) :]]
