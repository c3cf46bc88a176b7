"""Quantities are exact integers, whatever suffix they are written with. Rules V-7 to V-11."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from reconciler.api.objects.quantity import INT64_MAX, MAX_EXPONENT, MAX_LENGTH, NANO, Format, Quantity

FACTORS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "": Fraction(1), "k": Fraction(10**3), "M": Fraction(10**6),
    "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15),
    "E": Fraction(10**18), "Ki": Fraction(2**10), "Mi": Fraction(2**20),
    "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60), "e3": Fraction(1000), "E-3": Fraction(1, 1000),
    "e+2": Fraction(100),
}  # fmt: skip

numbers = st.from_regex(r"[0-9]{1,12}(\.[0-9]{0,12})?|\.[0-9]{1,12}", fullmatch=True)
signs = st.sampled_from(["", "+", "-"])
suffixes = st.sampled_from(sorted(FACTORS))
amounts = st.integers(min_value=-(10**30), max_value=10**30)
quantities = st.builds(Quantity, amounts, st.sampled_from(list(Format)))


def away_from_zero(value: Fraction) -> int:
    return math.ceil(value) if value >= 0 else math.floor(value)


@given(signs, numbers, suffixes)
@example("-", "1.5", "Gi")
def test_a_quantity_is_its_number_times_its_suffix_exactly(sign: str, number: str, suffix: str):
    value = Fraction(number.rstrip(".") if not number.startswith(".") else f"0{number}") * FACTORS[suffix]
    if suffix.endswith("i"):
        value = min(value, Fraction(INT64_MAX))
    value = -value if sign == "-" else value
    assert Quantity.parse(sign + number + suffix).nanos == away_from_zero(value * NANO)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0), ("-0", 0), ("+7", 7 * NANO),
        ("5.", 5 * NANO), (".5", NANO // 2), ("1E", 10**18 * NANO),
        ("1E2", 100 * NANO), ("1e-9", 1), ("0.1n", 1),
        ("-0.1n", -1), ("1e-10", 1), ("0.0000000011", 2),
        ("9Ei", INT64_MAX * NANO), ("-9Ei", -INT64_MAX * NANO), ("10E", 10 * 10**18 * NANO),
        ("0.5Ki", 512 * NANO), ("00012", 12 * NANO),
    ],
)  # fmt: skip
def test_a_quantity_parses_to_billionths(text: str, nanos: int):
    """What is finer than a billionth is rounded away from zero; only binary amounts are capped (V-7)."""
    assert Quantity.parse(text).nanos == nanos


@pytest.mark.parametrize(
    "text",
    [
        *("", "10Gib", "10 Gi", " 1", "1 ", "1\n", "1.2.3", "--1", "1K", "1mi", "0x10", "1e", "1e1.5"),
        *("NaN", "inf", "1_000", "1,5", "١", "1e+-3", "1Gi3", "1nn"),
    ],
)
def test_what_is_not_a_quantity_is_refused_with_an_example_of_one(text: str):
    with pytest.raises(ValueError, match="is not a quantity; write a number"):
        Quantity.parse(text)


@pytest.mark.parametrize("text", [".", "-", "+", "Gi", "e3", "-.k"])
def test_no_digits_are_zero_as_the_api_server_reads_them(text: str):
    assert Quantity.parse(text).nanos == 0


def test_a_quantity_of_great_length_is_refused_before_any_arithmetic():
    with pytest.raises(ValueError, match=f"at most {MAX_LENGTH}"):
        Quantity.parse("1" * (MAX_LENGTH + 1))


@pytest.mark.parametrize("text", [f"1e{MAX_EXPONENT + 1}", f"1e-{MAX_EXPONENT + 1}", "1e999999999"])
def test_an_exponent_that_would_build_a_huge_number_is_refused(text: str):
    with pytest.raises(ValueError, match="the exponent must not exceed"):
        Quantity.parse(text)


@given(quantities)
def test_what_a_quantity_prints_is_read_as_the_same_amount(quantity: Quantity):
    again = Quantity.parse(str(quantity))
    if (
        quantity.format is Format.BINARY
        and again.format is Format.BINARY
        and abs(again.nanos) == INT64_MAX * NANO
    ):
        return  # reading caps what no binary quantity can hold
    assert again == quantity


@given(quantities)
def test_printing_is_stable_once_canonical(quantity: Quantity):
    once = str(Quantity.parse(str(quantity)))
    assert str(Quantity.parse(once)) == once


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("0Gi", "0"),
        ("-0", "0"),
        ("1000m", "1"),
        ("1000k", "1M"),
        ("1001", "1001"),
        ("0.0000001", "100n"),
        ("1e3", "1e3"),
        ("1500e3", "1500e3"),
        ("1000000e0", "1e6"),
        ("12e-3", "12e-3"),
        ("-40Gi", "-40Gi"),
        ("1000000000000000000000", "1000E"),
        ("2048Ei", "9223372036854775807"),
    ],
)
def test_a_quantity_prints_the_largest_suffix_that_leaves_no_fraction(text: str, printed: str):
    assert str(Quantity.parse(text)) == printed


@given(quantities, quantities)
def test_comparison_and_arithmetic_ignore_how_an_amount_was_written(one: Quantity, other: Quantity):
    assert (one < other) == (one.nanos < other.nanos)
    assert (one == other) == (one.nanos == other.nanos)
    assert (one + other).nanos == one.nanos + other.nanos
    assert (one - other).nanos == one.nanos - other.nanos
    if one == other:
        assert hash(one) == hash(other)


def test_equal_amounts_of_different_suffix_families_are_equal():
    assert Quantity.parse("1Ki") == Quantity.parse("1024") == Quantity.parse("1.024e3")


@pytest.mark.parametrize(
    ("text", "whole"),
    [("1500m", 2), ("-1500m", -2), ("1n", 1), ("-1n", -1), ("3", 3), ("0", 0), ("1.5Gi", 1610612736)],
)
def test_the_integer_value_is_rounded_away_from_zero(text: str, whole: int):
    assert Quantity.parse(text).integer == whole


class Holder(BaseModel):
    value: Quantity


@pytest.mark.parametrize(
    ("given_value", "nanos"), [("10Gi", 10 * 2**30 * NANO), (16, 16 * NANO), (1.5, 15 * NANO // 10)]
)
def test_an_object_may_hold_a_quantity_as_a_string_or_a_plain_number(given_value: object, nanos: int):
    assert Holder.model_validate({"value": given_value}).value.nanos == nanos


@pytest.mark.parametrize("given_value", [True, None, [], {}, "10Gib", float("nan"), float("inf")])
def test_an_object_with_anything_else_for_a_quantity_is_refused(given_value: object):
    with pytest.raises(ValidationError):
        Holder.model_validate({"value": given_value})


def test_a_quantity_is_written_back_as_its_canonical_string():
    assert Holder.model_validate({"value": "1.5Gi"}).model_dump(mode="json") == {"value": "1536Mi"}
