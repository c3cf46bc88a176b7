"""Models keep what they compute, and are built as late as possible."""

import subprocess
import sys
import weakref
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property

import pytest
import semver
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.core import Node, Pod, PodSpec
from reconciler.api.objects.meta import ApiObject, ObjectMeta, time_of
from reconciler.api.objects.model import aliases_of, value
from reconciler.api.objects.semantics import (
    BINDING_CONDITIONS,
    DERIVED_ATTRIBUTES,
    DEVICE_STATUS,
    GATES,
    SHARING_AFFINITY,
    TAINT_RULES,
    TAINTS,
    Semantics,
    lacking,
    with_exclusion_scopes,
    with_gates,
    with_group_modes,
)
from reconciler.api.objects.semver import MAX_LENGTH, Semver
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.kinds import SINCE
from reconciler.errors import Rejected
from reconciler.plugins.kueue.objects import Workload
from tests.tools.patience import PATIENCE


def test_a_key_is_computed_once_and_does_not_count_as_a_field():
    one, other = (Node(metadata=ObjectMeta(name="n")) for _ in range(2))
    assert one.key is one.key
    assert one == other
    assert one.to_json() == other.to_json()


def test_names_of_fields_are_made_once_for_each_class():
    assert aliases_of(Pod) is aliases_of(Pod)
    assert "nodeName" in aliases_of(PodSpec)
    assert "nodeName" not in aliases_of(Pod)


@pytest.mark.parametrize("model", [Pod, ResourceSlice])
def test_copies_have_none_of_the_values_that_are_computed(model: type[ApiObject]):
    found = {
        name
        for one in model.__mro__
        for name, value in vars(one).items()
        if isinstance(value, cached_property)
    }
    spec = {"driver": "d", "pool": {"name": "p", "resourceSliceCount": 1}}
    made = model.model_validate(
        {"metadata": {"name": "a"}, **({"spec": spec} if model is ResourceSlice else {})}
    )
    assert all(getattr(made, name) is not None for name in found)
    assert found <= made.__dict__.keys()
    assert not made.model_copy().__dict__.keys() & found


def test_nothing_is_built_before_it_is_used():
    """Each model takes up to some milliseconds, and a command reads objects of a few of them."""
    code = """
import reconciler.cli.allocate, reconciler.cli.explain_cluster, reconciler.plugins.kueue.checker
from reconciler.api.objects.model import Model
found = [Model]
for model in found:
    found += model.__subclasses__()
assert len(found) > 100
print([model.__name__ for model in found if model.__pydantic_complete__])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.strip() == "[]"


@value()
class Point:
    x: int
    y: int = 0


@value(eq=False, weakref_slot=True)
class Picture:
    x: int


def test_equal_fields_are_equal_and_hash_alike():
    assert Point(1) == Point(1, 0) != Point(1, 1)
    assert len({Point(1), Point(1, 0), replace(Point(2), x=1)}) == 1


def test_without_comparing_each_is_equal_to_itself_alone():
    one = Picture(1)
    assert one == one != Picture(1)
    assert weakref.ref(one)() is one


def test_there_is_room_for_its_fields_only():
    with pytest.raises(AttributeError):
        Point(1).z = 2  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-01T12:00:00Z", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("2026-01-01T12:00:00.5+02:00", datetime(2026, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-01T12:00:00", None),
        ("noon", None),
        ("", None),
    ],
)
def test_a_time_that_cannot_be_read_or_has_no_zone_is_none(text: str, time: datetime | None):
    assert time_of(text) == time
    condition = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": text}
    metadata = {"name": "w", "creationTimestamp": text}
    found = Workload.model_validate({"metadata": metadata, "status": {"conditions": [condition]}})
    assert found.metadata.created == found.quota_since == time


# -- Releases and feature gates.


def test_all_gates_but_previews_are_on_unless_turned_off():
    previews = {name for name, gate in GATES.items() if gate.is_preview}
    assert with_gates("") == GATES.keys() - previews
    assert with_gates(f"{TAINTS}=false") == GATES.keys() - {*previews, TAINTS}
    assert with_gates(f"{SHARING_AFFINITY}=true") == with_gates("") | {SHARING_AFFINITY}
    assert TAINTS in with_gates(f"{TAINTS}=true", lacking=frozenset({TAINTS}))


def test_what_1_36_lacks_is_off_by_its_rules_unless_it_is_turned_on():
    """And what it has with another shape. Fields that are read from annotations need no server."""
    newest = {since.gate for fields in SINCE.values() for since in fields.values() if since.minor == 37}
    named = {gate for gate in newest if gate and not GATES[gate].needs_no_server}
    assert lacking("1.36") == named | {name for name, gate in GATES.items() if gate.on_since == 37} - {
        TAINT_RULES
    }
    assert lacking("1.37") == frozenset()
    assert DERIVED_ATTRIBUTES in with_gates(f"{DERIVED_ATTRIBUTES}=true", lacking=lacking("1.36"))


@pytest.mark.parametrize("text", [f"{TAINTS}=false,{TAINTS}=true", f" {TAINTS}=False , {TAINTS}=TRUE ,"])
def test_the_last_word_on_a_gate_counts(text: str):
    assert TAINTS in with_gates(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Nope=true", "unknown feature gate 'Nope'"),
        (f"{TAINTS}=yes", "write DRADeviceTaints=true"),
        (TAINTS, "write"),
    ],
)
def test_an_unknown_gate_or_value_is_rejected(text: str, reason: str):
    with pytest.raises(Rejected, match=reason):
        with_gates(text)


@pytest.mark.parametrize("off", [BINDING_CONDITIONS, DEVICE_STATUS])
def test_binding_conditions_need_two_gates(off: str):
    assert Semantics().binding_conditions
    assert not Semantics(gates=with_gates(f"{off}=false")).binding_conditions


def test_group_modes_are_per_driver_with_a_default():
    assert Semantics().group_mode("d", states=False) == "kep-5963"
    rules = Semantics(group_modes=with_group_modes(["d=pairwise", "*=pairwise", "e=kep-5963"]))
    assert [rules.group_mode(driver, states=True) for driver in "def"] == ["pairwise", "kep-5963", "pairwise"]
    assert hash(rules) == hash(
        Semantics(group_modes=with_group_modes(["e=kep-5963", "d=pairwise", "*=pairwise"]))
    )


@pytest.mark.parametrize("text", ["pairwise", "=pairwise", "d=", "d=none"])
def test_a_group_mode_that_is_not_known_is_rejected(text: str):
    with pytest.raises(Rejected, match="DRIVER=kep-5963"):
        with_group_modes([text])


@pytest.mark.parametrize("text", ["pool", "=pool", "d=", "d=node"])
def test_an_exclusion_scope_that_is_not_known_is_rejected(text: str):
    with pytest.raises(Rejected, match="DRIVER=pool"):
        with_exclusion_scopes([text])


def test_exclusion_scopes_are_per_driver_with_a_default():
    rules = Semantics(exclusion_scopes=with_exclusion_scopes(["*=pool", "e=counter-set"]))
    assert [rules.exclusion_scope(driver) for driver in "de"] == ["pool", "counter-set"]
    assert Semantics().exclusion_scope("d") == "counter-set"


# -- Versions: strict and lenient reading, and precedence as semver 2.0.0 defines it. CEL-10, CEL-16, CON-5.


ORDERED = [
    "0.0.1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
    "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.2.0", "1.10.0", "2.0.0",
]  # fmt: skip


@given(st.integers(0, len(ORDERED) - 1), st.integers(0, len(ORDERED) - 1))
def test_versions_are_ordered_by_precedence(one: int, other: int):
    left, right = Semver.parse(ORDERED[one]), Semver.parse(ORDERED[other])
    assert (left < right) == (one < other)
    assert (left == right) == (one == other)
    assert left.compare(right) == (one > other) - (one < other)


PARTS = st.lists(st.sampled_from(["0", "2", "10", "01", "a", "B", "-", "0a", "a1"]), max_size=3).map(".".join)
NUMBERS = st.tuples(*[st.sampled_from(["0", "1", "2", "10", "01"])] * 3).map(".".join)
VERSIONS = st.tuples(NUMBERS, st.sampled_from(["", "-"]), PARTS, st.sampled_from(["", "+", "+b.01"])).map(
    "".join
)


def semver_or_none(text: str) -> semver.Version | None:
    return semver.Version.parse(text) if semver.Version.is_valid(text) else None


@given(VERSIONS, VERSIONS)
def test_versions_are_read_and_ordered_as_by_the_package_semver(one: str, other: str):
    read: list[Semver | None] = []
    for text in (one, other):
        try:
            read.append(Semver.parse(text))
        except ValueError:
            read.append(None)
    left, right = map(semver_or_none, (one, other))
    assert [found is None for found in read] == [left is None, right is None]
    if left is not None and right is not None and read[0] is not None and read[1] is not None:
        assert read[0].compare(read[1]) == left.compare(right)
        assert (read[0].major, read[0].minor, read[0].patch) == left.to_tuple()[:3]


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
        *("", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "1.2.3 "),
        *(" 1.2.3", "1.2.3\n", "a.b.c", "-1.2.3", "1.2.3-ä", "١.2.3", "1..3"),
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
        ("v1.2.3", "1.2.3"), ("1.2", "1.2.0"), ("v1", "1.0.0"),
        ("01.002.0003", "1.2.3"), ("0", "0.0.0"), ("1.2.3-rc.1", "1.2.3-rc.1"),
        ("v1.2.3+b", "1.2.3+b"),
    ],
)  # fmt: skip
def test_lenient_reading_fills_in_what_is_missing(text: str, strict: str):
    assert Semver.parse_leniently(text) == Semver.parse(strict)


@pytest.mark.parametrize(
    "text",
    [
        *("", "v", "vv1.2.3", "1.2-rc", "1+b", "1.", "V1.2.3", "1.2.3.4", "1.2.3-01", "x", "1.2.3-rc\n"),
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
