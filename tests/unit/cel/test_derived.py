"""Columns of derived attributes equal what the plain evaluator gives, device by device (CEL-18)."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from reconciler.cel.errors import CelError, CelRefused
from reconciler.cel.program import FAILS, compile_derived
from reconciler.cel.values import DeviceView
from tests.tools.cel_rows import rows_of
from tests.tools.examples import examples

DEVICES = [
    DeviceView("gpu", {"gpu": {"pci": "0:4e:0", "n": 1}}),
    DeviceView("nic", {"nic": {"roots": ("a", "b")}, "gpu": {"n": 1}}, shared=True),
    DeviceView("nic", {"nic": {"roots": ("a", "b"), "ok": True}}),
    DeviceView("nic", unreadable="a version that is none"),
]
values = st.one_of(
    st.integers(-2, 2),
    st.booleans(),
    st.sampled_from(["", "x", "x:y", "1"]),
    st.lists(st.integers(0, 2), max_size=2).map(tuple),
)
devices = st.builds(
    DeviceView,
    driver=st.sampled_from(["d", "e"]),
    attributes=st.dictionaries(
        st.sampled_from("de"), st.dictionaries(st.sampled_from("ab"), values, min_size=1), max_size=2
    ),
    shared=st.booleans(),
    unreadable=st.sampled_from(["", "", "", "broken"]),
)
A, B = "device.attributes['d'].a", "device.attributes['e'].?b.orValue('none')"
expressions = st.sampled_from([
    A, B, f"[{A}, {B}]", f"{A}.split(':')[0]", f"string({A})", f"{A} == {B}", "device.driver", "'x'", "[]",
    "device.allowMultipleAllocations", "device.attributes['d'].exists(k, k == 'a')",
    f"has({A}) ? {A} : 0", f"{A} + 1", f"[{A}].filter(x, x != 1)", "'a' in device.attributes['d']",
    f"semver({A} == 1 ? '1.0.0' : '1.0.1')", "cel.bind(d, device.attributes['d'], [d.a, d.b])",
    "dyn(quantity('1'))",
])  # fmt: skip


@examples(200)
@given(expressions, st.lists(st.lists(devices, max_size=5), min_size=1, max_size=3))
def test_a_column_has_the_value_of_each_device(expression: str, passes: list[list[DeviceView]]):
    derived = compile_derived(expression)
    for fleet in passes:  # the same compiled expression over other columns
        column = derived.column(rows_of(fleet))
        assert len(column.codes) == len(fleet)
        for device, code in zip(fleet, column.codes.tolist(), strict=True):
            try:
                wanted = FAILS if device.unreadable else derived.key(device)
            except CelError:
                wanted = FAILS
            assert wanted == (FAILS if code == FAILS else column.keys[code])


@pytest.mark.parametrize(
    ("expression", "keys"),
    [
        ("device.attributes['gpu'].pci.split(':')[1]", ["4e", None, None, None]),
        ("device.driver", ["gpu", "nic", "nic", None]),
        ("device.attributes['gpu'].n", [("int", 1), ("int", 1), None, None]),
        (
            "device.attributes['nic'].?roots.orValue([])",
            [("strings", ()), ("strings", ("a", "b")), ("strings", ("a", "b")), None],
        ),
        (
            "device.attributes['nic'].?ok.orValue(false)",
            [("bool", False), ("bool", False), ("bool", True), None],
        ),
        ("[semver('1.2.3')]", [("versions", ("1.2.3",))] * 3 + [None]),
        ("dyn(1u)", [None] * 4),
        ("dyn([1, 2].map(x, [x]))", [None] * 4),
        ("dyn(null)", [None] * 4),
    ],
)
def test_values_are_spelled_like_published_ones(expression: str, keys: list[object]):
    column = compile_derived(expression).column(rows_of(DEVICES))
    assert [None if code == FAILS else column.keys[code] for code in column.codes.tolist()] == keys


@pytest.mark.parametrize(
    "expression", ["1.5", "1u", "{'a': 1}", "[[1]]", "quantity('1')", "device", "null", "device.no"]
)
def test_what_cannot_be_an_attribute_does_not_compile(expression: str):
    with pytest.raises(CelRefused):
        compile_derived(expression)


def test_beyond_the_limit_of_a_pass_an_expression_fails_and_says_so():
    derived = compile_derived("device.attributes['gpu'].pci + 'x'")
    rows = rows_of([DeviceView("gpu", {"gpu": {"pci": str(number)}}) for number in range(9)])
    column = derived.column(rows, limit=5)
    failing = [row for row, code in enumerate(column.codes.tolist()) if code == FAILS]
    assert failing
    assert "steps" in derived.explain(rows, failing[0])
