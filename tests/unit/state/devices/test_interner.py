"""Codes of values, also where there are so many that they are kept in parts."""

import pytest

from reconciler.state.devices.encoding import interner
from reconciler.state.devices.encoding.interner import UNKNOWN, Interner


@pytest.mark.parametrize("large", [3, 50, 10**6])
def test_codes_are_the_order_of_first_sight(large: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(interner, "LARGE", large)
    known: Interner[object] = Interner()
    plain: dict[object, int] = {}
    for number in [*range(120), *range(60, 180)]:
        name = f"serial-{number}"
        assert known.find(name) == plain.get(name, UNKNOWN)
        assert known.code(name) == plain.setdefault(name, len(plain))
    assert known.values == known.keys == list(plain)
    assert [known.find(name) for name in plain] == list(plain.values())


def test_values_that_compare_equal_have_codes_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(interner, "LARGE", 1)
    known: Interner[object] = Interner()
    values = [1, True, "1"]
    keys = [("int", 1), ("bool", True), ("string", "1")]
    assert [known.code(value, key) for value, key in zip(values, keys, strict=True)] == [0, 1, 2]
    assert [known.find(key) for key in reversed(keys)] == [2, 1, 0]
    assert known.values == values
