"""Specs read by patterns are those that are read one by one, whatever differs between them."""

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.api.objects.device_patterns import PatternDevices
from reconciler.api.objects.slices import ResourceSliceSpec
from reconciler.api.versions import slice_text, spec_patterns
from reconciler.api.versions.spec_patterns import SpecPatterns
from tests.tools.builders import device, resource_slice


def spec_of(node: str, *uuids: str, model: str = "x") -> bytes:
    """The text of a slice as a driver publishes it for each of its nodes."""
    devices = [
        device(f"gpu-{row}", {"model": model, "index": row, "uuid": uuid}, {"memory": "80Gi"})
        for row, uuid in enumerate(uuids)
    ]
    raw = resource_slice("s", devices, nodeName=node)["spec"]
    return json.dumps({**raw, "pool": {**raw["pool"], "name": node}}).encode()


def patterns() -> SpecPatterns:
    return SpecPatterns(slice_text._spec)


def test_machines_of_one_type_share_what_they_have_in_common():
    known = patterns()
    specs = [known.read(spec_of(f"n-{n}", f"u-{n}-0", f"u-{n}-1"), learn=True) for n in range(4)]
    third, fourth = specs[2].devices, specs[3].devices
    assert isinstance(third, PatternDevices)
    assert isinstance(fourth, PatternDevices)
    assert third.pattern is fourth.pattern
    assert fourth.strings == ("u-3-0", "u-3-1")
    assert (specs[3].node_name, specs[3].pool.name) == ("n-3", "n-3")
    assert specs[3].pool.resource_slice_count == specs[0].pool.resource_slice_count
    assert third[0].capacity is fourth[0].capacity


def test_slices_that_differ_in_no_device_share_all_of_them():
    known = patterns()
    specs = [known.read(spec_of(f"n-{n}", "u"), learn=True) for n in range(3)]
    assert specs[1].devices == specs[2].devices
    assert specs[2].devices[0] is known.read(spec_of("n-4", "u"), learn=True).devices[0]


def test_a_pattern_widens_when_something_else_differs():
    known = patterns()
    for n in range(3):
        known.read(spec_of(f"n-{n}", f"u-{n}"), learn=True)
    known.read(spec_of("n-3", "u-3", model="y"), learn=True)
    found = known.read(spec_of("n-4", "u-4", model="z"), learn=True).devices
    assert isinstance(found, PatternDevices)
    assert found.strings == ("z", "u-4")


def test_an_event_is_read_by_patterns_but_makes_none():
    known = patterns()
    for n in range(3):
        known.read(spec_of(f"n-{n}", f"u-{n}"), learn=False)
    assert not isinstance(known.read(spec_of("n-3", "u-3"), learn=False).devices, PatternDevices)
    for n in range(3):
        known.read(spec_of(f"n-{n}", f"u-{n}"), learn=True)
    assert isinstance(known.read(spec_of("n-3", "u-3"), learn=False).devices, PatternDevices)


@pytest.mark.parametrize("odd", ["", "ü", "\\u00fc", '"', "\\", "\n", "\x7f", "blank 7"])
def test_odd_strings_are_read_as_they_are(odd):
    known = patterns()
    texts = [spec_of(f"n-{n}", f"u-{n}") for n in range(3)] + [spec_of("n-3", odd), spec_of("n-4", "u")]
    assert [str(known.read(text, learn=True)) for text in texts] == [
        str(slice_text._spec(text)) for text in texts
    ]


@pytest.mark.parametrize("odd", [b"\x01", b"\n", b"\x7f\x00"])
def test_what_is_no_json_is_not_read(odd):
    known = patterns()
    for n in range(3):
        known.read(spec_of(f"n-{n}", f"u-{n}"), learn=True)
    with pytest.raises(msgspec.MsgspecError):
        known.read(spec_of("n-3", "?").replace(b"?", odd), learn=True)


def test_what_a_place_means_is_not_taken_from_a_string_that_looks_like_a_mark():
    """The driver differs, which no pattern allows, and an attribute has the mark that stands for it."""
    known = patterns()
    for driver in ("a", "b", "c"):
        for mark in ("blank 3", "blank. 3"):
            text = spec_of("n", mark).replace(b'"driver": "d"', b'"driver": "%b"' % driver.encode())
            assert str(known.read(text, learn=True)) == str(slice_text._spec(text))


def test_drivers_that_have_nothing_in_common_cost_little():
    read = 0

    def counted(text: bytes) -> ResourceSliceSpec:
        nonlocal read
        read += 1
        return slice_text._spec(text)

    known = SpecPatterns(counted)
    for n in range(4 * spec_patterns.IN_VAIN):
        known.read(spec_of("n", "u").replace(b'{"int": 0}', b'{"int": %d}' % n), learn=True)
    assert read == 4 * spec_patterns.IN_VAIN
    assert sum(map(len, known._unmatched.values())) <= spec_patterns.ALIKE


def test_a_thread_may_drop_the_patterns_while_another_compares_with_them(monkeypatch: pytest.MonkeyPatch):
    """`POST /whatif` and `/fit` read slices in threads, and the watch reads them in the loop."""
    monkeypatch.setattr(spec_patterns, "KINDS", 12)
    known = patterns()

    def read(driver: bytes, n: int) -> ResourceSliceSpec:
        text = spec_of(f"n-{n}", f"u-{n}").replace(b'"driver": "d"', b'"driver": "%b"' % driver)
        return known.read(text, learn=True)

    for driver in (b"a", b"b"):
        read(driver, 0), read(driver, 1)
    (count, (newer, older)), = known._patterns.items()  # fmt: skip

    def interrupted(strings: Sequence[str]) -> Any:
        with ThreadPoolExecutor(1) as other:
            for devices in range(2, 4 + spec_patterns.KINDS):
                for n in range(2):
                    text = spec_of(f"n-{n}", *[f"u-{n}"] * devices)
                    other.submit(known.read, text, learn=True).result()
        return older.of_devices(strings)

    known._patterns[count] = (newer, older._replace(of_devices=interrupted))
    assert str(read(b"a", 2)) == str(read(b"a", 2))
    assert read(b"a", 2).driver == "a"


def test_a_fleet_of_many_machine_types_is_read_by_patterns_throughout(monkeypatch: pytest.MonkeyPatch):
    """A type that was not seen for long may be dropped, and the others stay."""
    known, most = patterns(), 12
    monkeypatch.setattr(spec_patterns, "KINDS", most)
    for devices in range(1, most + 1):
        for n in range(2):
            known.read(spec_of(f"n-{n}", *[f"u-{n}"] * devices), learn=True)
    for devices in range(2, most + 1):
        assert by_pattern(known.read(spec_of("m", *["u"] * devices), learn=False))
    for n in range(2):  # one more: the first was used longest ago
        known.read(spec_of(f"n-{n}", *[f"u-{n}"] * (most + 1)), learn=True)
    assert not by_pattern(known.read(spec_of("m", "u"), learn=False))
    assert all(
        by_pattern(known.read(spec_of("m", *["u"] * devices), learn=False)) for devices in (2, most, most + 1)
    )


def by_pattern(spec: ResourceSliceSpec) -> bool:
    return isinstance(spec.devices, PatternDevices)


LITERAL = re.compile(rb'"[^"\\]*"')
STRINGS = st.sampled_from(["", "a", "b", "u-0", "blank 1", "blank. 9", "1Gi", "1.2.3", "d/model", "uuid"])
TEXTS = [
    spec_of("n", "u-0", "u-1"),
    json.dumps(
        resource_slice(
            "s",
            [
                device("a", {"uuid": "u", "d/uuid": "v", "version": {"version": "1.0.0"}}, nodeName="n"),
                device("b", {"uuid": "w"}, {"m": "1Gi"}, {"gpu-0": {"m": 3}}, taints=[{"key": "k"}]),
            ],
            perDeviceNodeSelection=True,
        )["spec"]
    ).encode(),
]


@given(
    st.sampled_from(TEXTS),
    st.lists(st.dictionaries(st.integers(0, 40), STRINGS, max_size=3), min_size=3, max_size=8),
)
@example(TEXTS[0], [{}, {3: "a"}, {3: "b", 7: "a"}, {3: "u-0"}])
def test_texts_that_differ_in_any_strings_are_read_as_one_by_one(text, changes):
    """Keys, names, quantities and kinds of values included: some make it no spec."""
    known = patterns()
    for replaced in changes:
        literals = iter(range(1000))
        changed = LITERAL.sub(lambda found: _changed(found, replaced.get(next(literals))), text)  # noqa: B023
        assert _told(partial(known.read, learn=True), changed) == _told(slice_text._spec, changed)


def _changed(found: re.Match[bytes], string: str | None) -> bytes:
    return found.group() if string is None else json.dumps(string).encode()


def _told(read: Any, text: bytes) -> str:
    try:
        return repr(read(text))
    except Exception as exc:
        return type(exc).__name__
