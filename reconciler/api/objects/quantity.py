"""Kubernetes quantities as exact integers. Never a float.

Source: rules V-7 to V-10. A quantity is stored in billionths (nano), together with the suffix family that
it was written in, which decides how it prints.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

NANO = 10**9
INT64_MAX = 2**63 - 1
MAX_LENGTH = 128
"""Characters. No quantity needs more. This limits the size of the integers that hostile input can create."""
MAX_EXPONENT = 64
"""Larger decimal exponents are rejected: 1e999999999 would need a gigabyte of memory."""


class Format(StrEnum):
    """The suffix family a quantity was written in."""

    BINARY = "BinarySI"
    DECIMAL = "DecimalSI"
    EXPONENT = "DecimalExponent"


_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHAPE = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[eE][+-]?[0-9]+|[numkMGTPE]?)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount. Compares and hashes by value; the suffix family only decides how it prints."""

    nanos: int
    """Billionths."""
    format: Format = field(default=Format.DECIMAL, compare=False)

    @classmethod
    def of(cls, whole: int) -> "Quantity":
        """The plain number `whole`."""
        return cls(whole * NANO)

    @classmethod
    def parse(cls, text: str) -> "Quantity":
        """Parse a quantity; fractions of a billionth are rounded away from zero (V-7).

        Raises ValueError with the reason.
        """
        return _parse(text)

    @property
    def integer(self) -> int:
        """The value rounded away from zero to a whole number (V-9)."""
        return _divide_away_from_zero(self.nanos, NANO)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self.format)

    def __str__(self) -> str:
        return _printed(self.nanos, self.format)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Servers write strings. JSON with a number is refused here, and then read again as plain objects.
        text = core_schema.str_schema(strict=True)
        return core_schema.json_or_python_schema(
            json_schema=core_schema.no_info_after_validator_function(_parse, text),
            python_schema=core_schema.no_info_plain_validator_function(_validate),
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )


ZERO = Quantity(0)
_SUFFIX_OF = {exponent: suffix for suffix, exponent in _DECIMAL.items()}


@lru_cache(maxsize=65536)
def _printed(nanos: int, family: Format) -> str:
    """Canonical form: the largest suffix of the family that leaves no fraction (V-10)."""
    if nanos == 0:
        return "0"
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    # Binary suffixes cannot express fractions; upstream falls back to decimal ones below 1024.
    if family is Format.BINARY and nanos % NANO == 0 and nanos // NANO >= 1024:
        whole, suffix = nanos // NANO, ""
        for name, factor in _BINARY.items():
            if (nanos // NANO) % factor == 0:
                whole, suffix = nanos // NANO // factor, name
        return f"{sign}{whole}{suffix}"
    exponent = -9
    while exponent < 18 and nanos % 1000 == 0:
        nanos //= 1000
        exponent += 3
    if family is Format.EXPONENT:
        return f"{sign}{nanos}e{exponent}" if exponent else f"{sign}{nanos}"
    return f"{sign}{nanos}{_SUFFIX_OF[exponent]}"


@lru_cache(maxsize=65536)
def _parse(text: str) -> Quantity:
    if not isinstance(text, str):
        raise TypeError(f"a quantity must be a string, got {type(text).__name__}")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a quantity has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    match = _SHAPE.fullmatch(text)
    if match is None or not text:  # no digits are 0, as in Kubernetes
        raise ValueError(
            f"{text!r} is not a quantity; write a number with an optional suffix such as 10Gi or 500m"
        )
    digits = int(match["whole"] + (match["part"] or "") or "0")
    scale = len(match["part"] or "")
    suffix = match["suffix"]
    if suffix in _BINARY:
        amount, family = digits * NANO * _BINARY[suffix], Format.BINARY
    else:
        family = Format.DECIMAL if suffix in _DECIMAL else Format.EXPONENT
        power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        if abs(power) > MAX_EXPONENT:
            raise ValueError(f"{text!r}: the exponent must not exceed {MAX_EXPONENT}")
        exponent = 9 + power - scale
        scale = max(-exponent, 0)
        amount = digits * 10 ** max(exponent, 0)
    nanos = _divide_away_from_zero(amount, 10**scale)
    if family is Format.BINARY:
        nanos = min(nanos, INT64_MAX * NANO)
    return Quantity(-nanos if match["sign"] == "-" else nanos, family)


def _divide_away_from_zero(amount: int, by: int) -> int:
    return -(-amount // by) if amount >= 0 else amount // by


def _validate(value: Any) -> Quantity:
    """A quantity in an object: a string, or an integer as YAML writes it."""
    if isinstance(value, Quantity):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int):
        # 1.5 unquoted is accepted by the API server, but a YAML float has already lost digits.
        if isinstance(value, float) and not isinstance(value, bool):
            return _parse(repr(value))
        raise ValueError(f"a quantity must be a string such as 10Gi, got {type(value).__name__}")
    return _parse(str(value))
