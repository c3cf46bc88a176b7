"""Masks equal the plain evaluator's answers, device by device, for all expressions and rows."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.program import compile_selector
from reconciler.cel.rows import Column, Rows
from reconciler.cel.values import DeviceView, Value
from tests.tools.cel_rows import masked, plain, rows_of
from tests.tools.examples import examples

DOMAINS = ["d.io", "e.io", "none.io"]
NAMES = ["a", "b"]

values: st.SearchStrategy[Value] = st.one_of(
    st.integers(-2, 2),
    st.booleans(),
    st.sampled_from(["", "x", "xy", "1"]),
    st.sampled_from(["1.0.0", "1.0.0+b", "2.0.0-rc.1"]).map(Semver.parse),
    st.lists(st.integers(0, 2), max_size=2).map(tuple),
    st.lists(st.sampled_from(["x", "y"]), max_size=2).map(tuple),
)
quantities = st.sampled_from(["1", "1Gi", "1024Mi", "500m"]).map(Quantity.parse)


def parts(held: st.SearchStrategy[Value]) -> st.SearchStrategy[dict[str, dict[str, Value]]]:
    """Values by domain and id; no domain is empty."""
    return st.dictionaries(
        st.sampled_from(DOMAINS[:2]), st.dictionaries(st.sampled_from(NAMES), held, min_size=1), max_size=2
    )


devices = st.builds(
    DeviceView,
    driver=st.sampled_from(["d.io", "e.io"]),
    attributes=parts(values),
    capacity=parts(quantities),
    shared=st.booleans(),
    unreadable=st.sampled_from(["", "", "", "broken"]),
)

paths = st.builds(
    lambda part, domain, access: f'device.{part}["{domain}"]{access}',
    st.sampled_from(["attributes", "attributes", "capacity"]),
    st.sampled_from(DOMAINS),
    st.sampled_from([".a", ".b", '["a"]', '["b"]']),
)
attributes = paths.filter(lambda path: "attributes" in path)
domains = st.builds(
    lambda part, domain: f'device.{part}["{domain}"]',
    st.sampled_from(["attributes", "capacity"]),
    st.sampled_from(DOMAINS),
)
constants = st.sampled_from(
    ["1", "0", "1.0", "1u", "true", '"x"', '""', 'semver("1.0.0")', 'quantity("1Gi")', "[1]", '["x"]', "null"]
)


def shaped(form: str, *fillings: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A template with its gaps filled."""
    return st.tuples(*fillings).map(lambda filled: form.format(*filled))


atoms = st.one_of(
    shaped("dyn({}) == {}", attributes, constants),
    shaped("dyn({}) == {}", constants, attributes),
    shaped("{} == dyn({})", attributes, constants),
    shaped("{} != {}", attributes, constants),
    shaped("{} == {}", attributes, attributes),
    shaped("{} < 1", attributes),
    shaped("{} + 1 >= 2", attributes),
    shaped('{} in ["x", "1"]', attributes),
    shaped("{} in [1, 0]", attributes),
    shaped('{}.startsWith("x")', attributes),
    shaped('{}.lowerAscii().matches("^x")', attributes),
    shaped("int({}) == 1", attributes),
    shaped("{}.size() == 1", attributes),
    shaped("{}.includes({})", attributes, constants),
    shaped("{}", attributes),
    shaped('{}.isGreaterThan(semver("1.0.0"))', attributes),
    shaped("has({}.a)", domains),
    shaped('"b" in {}', domains),
    shaped("{}.?a.hasValue()", domains),
    shaped("{}.?a.orValue(dyn(1)) == dyn(1)", domains),
    shaped('device.attributes["{}"][?"b"].orValue("x").startsWith("x")', st.sampled_from(DOMAINS)),
    shaped("{}.?a.value() == dyn(1)", domains),
    shaped("{}.?a.orValue(dyn(1)) == {}", domains, attributes),
    shaped('{}.substring(0, 1) == "x"', attributes),
    shaped("{}.size() == 1", domains),
    shaped('{}.exists(k, k == "a")', domains),
    shaped("{}.exists(k, v, v == dyn(1))", domains),
    shaped("cel.bind(g, {}, g.a == g.b || has(g.a))", domains),
    shaped("cel.bind(v, dyn({}), v == dyn(1) || true)", attributes),
    shaped('"{}" in device.attributes', st.sampled_from(DOMAINS)),
    st.sampled_from(
        [
            'device.driver == "d.io"',
            "device.allowMultipleAllocations",
            'device.attributes["d.io"][device.driver] == 1',
            "device.attributes[device.driver].a == 1",
            "device.attributes.size() == 1",
            "size(device.attributes) + size(device.capacity) > 1",
            'device.capacity.all(d, d == "d.io")',
            "device == device",
            "device.attributes.exists(d, size(device.attributes[d]) == 1)",
            'device.attributes["d.io"].exists(k, device.attributes["d.io"][k] == dyn(1))',
            'device.attributes["d.io"].map(k, k).size() == 1 && device.attributes["d.io"].a == dyn(1)',
            'device.attributes["d.io"].all(device, device == "a")',
            'cel.bind(m, device.attributes, m.exists(d, m[d].exists(k, m[d][k] == dyn("x"))))',
            "true",
            "1 / 0 == 1",
            'device.capacity["d.io"].a.isLessThan(quantity("1Gi"))',
            'device.capacity["d.io"].a.asInteger() == 1',
            "[1].exists(device, device == 1)",
        ]
    ),
)
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        shaped("({}) && ({})", inner, inner),
        shaped("({}) || ({})", inner, inner),
        shaped("!({})", inner),
        shaped("({}) ? ({}) : ({})", inner, inner, inner),
    ),
    max_leaves=5,
)


@examples(70)
@given(expression=expressions, fleet=st.lists(devices, min_size=1, max_size=12))
def test_masks_are_the_plain_answers_row_by_row(expression: str, fleet: list[DeviceView]):
    selector = compile_selector(expression)
    assert masked(selector, rows_of(fleet)) == [plain(selector, device) for device in fleet]


@examples(60)
@given(expression=expressions, fleet=st.lists(devices, min_size=1, max_size=12), known=st.integers(0, 12))
def test_cached_answers_stay_valid_as_columns_grow(expression: str, fleet: list[DeviceView], known: int):
    """The first rows are evaluated with the values known by then; then the same lists have grown."""
    rows = rows_of(fleet)
    selector = compile_selector(expression)
    selector.masks(_first(rows, min(known, rows.size)))
    assert masked(selector, rows) == [plain(selector, device) for device in fleet]


def _first(rows: Rows, count: int) -> Rows:
    """The first rows with the same lists of values."""

    def cut(column: Column) -> Column:
        return Column(column.codes[:count], column.values)

    return replace(
        rows,
        size=count,
        driver=cut(rows.driver),
        attributes={key: cut(column) for key, column in rows.attributes.items()},
        capacity={key: cut(column) for key, column in rows.capacity.items()},
        shared=rows.shared[:count],
        unreadable=rows.unreadable[:count],
        version=("first", rows.version),
    )


def test_a_growing_column_evaluates_only_its_new_values():
    text: list[Value] = ["a"]
    base = rows_of([DeviceView(driver="d.io")])

    def rows(codes: list[int], version: int) -> Rows:
        held = {("d.io", "text"): Column(np.array(codes, dtype=np.int32), text)}
        size = len(codes)
        nothing = np.zeros(size, dtype=np.bool_)
        driver = Column(np.zeros(size, dtype=np.int32), base.driver.values)
        return Rows(size, driver, held, {}, nothing, nothing, ("growing", version))

    selector = compile_selector('device.attributes["d.io"].text == "b"')
    assert masked(selector, rows([0, -1], 1)) == [False, "error"]
    text.append("b")
    assert masked(selector, rows([1, 0, -1], 2)) == [True, False, "error"]


def test_equal_versions_use_the_cached_masks():
    rows = rows_of([DeviceView(driver="d.io")])
    selector = compile_selector('device.driver == "d.io"')
    assert selector.masks(rows) is selector.masks(replace(rows))


def test_equal_texts_share_one_selector():
    assert compile_selector("true || false") is compile_selector("true || false")


def test_no_devices_no_answers():
    assert masked(compile_selector('device.attributes["d.io"].a == 1'), rows_of([])) == []
    assert (
        masked(compile_selector('device.attributes["d.io"].size() == device.attributes.size()'), rows_of([]))
        == []
    )


@pytest.mark.parametrize(
    ("expression", "explanation"),
    [
        ('device.attributes["d.io"].b == 1', "no such key: b"),
        ('device.attributes["d.io"].a == "1.0.0"', "no such overload"),
        ('device.attributes["d.io"].a.major() == 1', ""),
    ],
)
def test_an_error_is_explained(expression: str, explanation: str):
    rows = rows_of([DeviceView(driver="d.io", attributes={"d.io": {"a": Semver.parse("1.0.0")}})])
    found = compile_selector(expression).explain(rows, 0)
    assert found.startswith(explanation)
    assert bool(found) == bool(explanation)


def test_an_unreadable_device_is_an_error_even_to_true():
    rows = rows_of([DeviceView(driver="d.io", unreadable="a version that is none")])
    assert masked(compile_selector("true"), rows) == ["error"]
    assert "invalid attribute" in compile_selector("true").explain(rows, 0)


@pytest.mark.parametrize(
    "called",
    [
        'device.attributes["d.io"].uuid.startsWith("GPU-")',
        'device.attributes["d.io"].?uuid.orValue("") != ""',
        'device.capacity["d.io"].memory.compareTo(quantity("1")) > 0',
    ],
)
def test_cheap_calls_on_a_value_of_its_own_for_each_device_are_not_counted(called: str):
    """Counted, a fleet of a million devices would be beyond the limit, and its last devices errors."""
    size, nothing = 1_000, np.zeros(1_000, dtype=np.bool_)
    codes = np.arange(size, dtype=np.int32)
    uuids = Column(codes, [f"GPU-{number}" for number in range(size)])
    memory = Column(codes, [Quantity.parse(str(number + 2)) for number in range(size)])
    driver = Column(np.zeros(size, dtype=np.int32), ["d.io"])
    rows = Rows(
        size, driver, {("d.io", "uuid"): uuids}, {("d.io", "memory"): memory}, nothing, nothing, ("own", 1)
    )
    assert compile_selector(called).masks(rows, limit=100).true.all()
