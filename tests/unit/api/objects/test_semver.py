"""Versions: strict and lenient reading, and precedence as semver 2.0.0 defines it. CEL-10, CEL-16, CON-5."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.semver import MAX_LENGTH, Semver

ORDERED = [
    "0.0.1",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


@given(st.integers(0, len(ORDERED) - 1), st.integers(0, len(ORDERED) - 1))
def test_versions_are_ordered_by_precedence(one: int, other: int):
    left, right = Semver.parse(ORDERED[one]), Semver.parse(ORDERED[other])
    assert (left < right) == (one < other)
    assert (left == right) == (one == other)
    assert left.compare(right) == (one > other) - (one < other)


def test_build_metadata_counts_for_the_text_but_not_for_equality():
    """CEL compares versions by precedence, constraints compare them as written."""
    one, other = Semver.parse("1.2.3+b1"), Semver.parse("1.2.3+b2")
    assert one == other
    assert hash(one) == hash(other)
    assert one.text != other.text


def test_a_version_is_never_equal_to_a_string():
    assert Semver.parse("1.2.3") != "1.2.3"


def test_the_parts_of_a_version_can_be_asked_for():
    version = Semver.parse("1.22.333-rc.1+build")
    assert (version.major, version.minor, version.patch) == (1, 22, 333)
    assert str(version) == "1.22.333-rc.1+build"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.2",
        "v1.2.3",
        "1.2.3.4",
        "01.2.3",
        "1.2.3-",
        "1.2.3-01",
        "1.2.3+",
        "1.2.3 ",
        " 1.2.3",
        "1.2.3\n",
        "a.b.c",
        "-1.2.3",
        "1.2.3-ä",
        "١.2.3",
        "1..3",
    ],
)
def test_what_is_not_strict_semver_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a semantic version"):
        Semver.parse(text)


@pytest.mark.parametrize("text", [f"{2**64}.0.0", f"1.{2**64}.0", f"1.0.0-{2**64}"])
def test_a_component_beyond_64_bits_is_refused(text: str):
    with pytest.raises(ValueError, match="64 bits"):
        Semver.parse(text)


def test_the_largest_components_are_read():
    assert Semver.parse(f"{2**64 - 1}.0.0").major == 2**64 - 1


def test_a_very_long_version_is_refused():
    with pytest.raises(ValueError, match=f"at most {MAX_LENGTH}"):
        Semver.parse("1.0.0+" + "a" * MAX_LENGTH)


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("v1.2.3", "1.2.3"),
        ("1.2", "1.2.0"),
        ("v1", "1.0.0"),
        ("01.002.0003", "1.2.3"),
        ("0", "0.0.0"),
        ("1.2.3-rc.1", "1.2.3-rc.1"),
        ("v1.2.3+b", "1.2.3+b"),
    ],
)
def test_lenient_reading_fills_in_what_is_missing(text: str, strict: str):
    assert Semver.parse_leniently(text) == Semver.parse(strict)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v",
        "vv1.2.3",
        "1.2-rc",
        "1+b",
        "1.",
        "V1.2.3",
        "1.2.3.4",
        "1.2.3-01",
        "x",
        "1.2.3-rc\n",
        "1.2.3\n",
    ],
)
def test_lenient_reading_still_refuses_what_is_no_version(text: str):
    with pytest.raises(ValueError, match="version"):
        Semver.parse_leniently(text)


@given(st.text(max_size=20))
def test_any_text_is_a_version_or_a_value_error(text: str):
    for read in (Semver.parse, Semver.parse_leniently):
        try:
            version = read(text)
        except ValueError:
            continue
        assert Semver.parse(str(version)) == version
