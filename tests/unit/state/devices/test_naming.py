"""A driver with many names cannot grow the fleet without bound, and does not affect others."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.reading import read
from reconciler.state.devices import naming
from reconciler.state.devices.naming import MAX_OF_DRIVER, MAX_OF_FLEET, Naming

KIND = "ResourceSlice"


def source(name: str, driver: str, *devices: Mapping[str, Any]) -> ResourceSlice:
    found = read({
        "apiVersion": "resource.k8s.io/v1",
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": f"d{n}", **device} for n, device in enumerate(devices)],
        },
    })  # fmt: skip
    assert isinstance(found, ResourceSlice)
    return found


def of_names(name: str, driver: str, names: range) -> ResourceSlice:
    """Half of the names are attributes, half are capacities."""
    return source(
        name,
        driver,
        {"attributes": {f"n{n}": {"int": 1} for n in names if n % 2}},
        {"capacity": {f"n{n}": {"value": "1"} for n in names if not n % 2}},
    )


def refusal(change: Change) -> str:
    """Why a slice is refused; empty if it is admitted."""
    return change.reason if isinstance(change, Refused) else ""


def test_slices_of_a_driver_with_too_many_names_are_refused():
    held = Naming()
    for number in range(MAX_OF_DRIVER // 512):
        names = range(number * 512, number * 512 + 512)
        assert not refusal(held.within(Changed(KIND, of_names(f"s{number}", "evil", names))))
    again = held.within(Changed(KIND, of_names("again", "evil", range(100))))
    more = held.within(Changed(KIND, of_names("more", "evil", range(5000, 5001))))
    good = held.within(Changed(KIND, of_names("good", "good", range(9000, 9100))))
    assert not refusal(again)
    assert not refusal(good)
    assert isinstance(more, Refused)
    assert more.key == ObjectKey("", "more")
    assert more.reason == (
        "driver evil would have 1025 different attributes and capacities in all slices; at most 1024 are "
        "read: make the driver publish fewer; the slice is read again when it changes, or once others have "
        "fewer"
    )


def test_all_drivers_together_are_bounded():
    held = Naming()
    for number in range(MAX_OF_FLEET // 512):
        assert not refusal(held.within(Changed(KIND, of_names(f"s{number}", f"d{number}", range(512)))))
    assert "of the fleet would have 4097" in refusal(
        held.within(Changed(KIND, of_names("last", "other", range(1))))
    )
    held.within(Removed(KIND, ObjectKey("", "s0")))
    assert not refusal(held.within(Changed(KIND, of_names("last", "other", range(1)))))


def test_admitted_slices_of_a_list_stay():
    held = Naming()
    old = [of_names(f"z{n}", "evil", range(n * 512, n * 512 + 512)) for n in range(2)]
    for one in old:
        held.within(Changed(KIND, one))
    new = of_names("a", "evil", range(5000, 5100))
    found = held.within(Replaced(KIND, (new, *old), ()))
    assert isinstance(found, Replaced)
    assert found.objects == tuple(old)
    assert [one.key.name for one in found.refused] == ["a"]


def test_a_driver_may_name_all_its_attributes_anew(monkeypatch: pytest.MonkeyPatch):
    """Both names are in use until the last old slice is gone; then the others are admitted by themselves."""
    monkeypatch.setattr(naming, "MAX_OF_DRIVER", 10)
    held = Naming()
    for n in range(3):
        held.within(Changed(KIND, of_names(f"s{n}", "d", range(6))))
    assert refusal(held.within(Changed(KIND, of_names("more", "e", range(11)))))
    for n in range(2):
        assert refusal(held.within(Changed(KIND, of_names(f"s{n}", "d", range(6, 12)))))
        assert list(held.again()) == []
    assert not refusal(held.within(Changed(KIND, of_names("s2", "d", range(6, 12)))))
    found = list(held.again())
    assert [change.object.key.name for change in found] == ["s0", "s1"]
    assert [refusal(held.within(change)) for change in found] == ["", ""]
    assert list(held.again()) == []


def test_a_refused_slice_that_is_gone_does_not_come_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(naming, "MAX_OF_DRIVER", 10)
    held = Naming()
    held.within(Changed(KIND, of_names("old", "d", range(6))))
    for name in ("gone", "listed"):
        assert refusal(held.within(Changed(KIND, of_names(name, "d", range(6, 12)))))
    held.within(Removed(KIND, ObjectKey("", "gone")))
    held.within(Removed(KIND, ObjectKey("", "old")))
    assert [change.object.key.name for change in held.again()] == ["listed"]
    held.within(Replaced(KIND, (), ()))
    assert list(held.again()) == []


def test_a_slice_that_still_has_too_many_names_does_not_keep_smaller_ones_out(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(naming, "MAX_OF_DRIVER", 10)
    held = Naming()
    for name, names in (("a", range(7)), ("b", range(7, 10))):
        held.within(Changed(KIND, of_names(name, "d", names)))
    for name, names in (("large", range(20, 29)), ("small", range(40, 42))):
        assert refusal(held.within(Changed(KIND, of_names(name, "d", names))))
    held.within(Removed(KIND, ObjectKey("", "b")))
    assert [refusal(held.within(change)) for change in held.again()] == [""]
    held.within(Removed(KIND, ObjectKey("", "a")))
    held.within(Removed(KIND, ObjectKey("", "small")))
    assert [change.object.key.name for change in held.again()] == ["large"]


few = st.frozensets(st.sampled_from("abcdef"), max_size=4)
slices = st.tuples(st.sampled_from("123"), st.sampled_from("xy"), few, few)


@given(st.lists(st.one_of(slices, st.sampled_from("123"), st.lists(slices, unique_by=lambda one: one[0]))))
def test_admission_equals_counting_all_names(changes: list[Any]):
    """Compared with a twin that counts all names of all slices each time."""
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(naming, "MAX_OF_DRIVER", 4)
        limits.setattr(naming, "MAX_OF_FLEET", 6)
        held = Naming()
        there: dict[str, tuple[str, frozenset[str]]] = {}

        def admit(one: Any) -> bool:
            name, driver, first, second = one
            there.pop(name, None)
            wanted = {**there, name: (driver, first | second)}
            pairs = {(by, each) for by, names in wanted.values() for each in names}
            known = {(by, each) for by, names in there.values() for each in names}
            own = [by for by, _ in pairs].count(driver)
            if pairs != known and (own > 4 or len(pairs) > 6):
                return False
            there[name] = wanted[name]
            return True

        for change in changes:
            if isinstance(change, str):
                held.within(Removed(KIND, ObjectKey("", change)))
                there.pop(change, None)
            elif isinstance(change, tuple):
                assert bool(refusal(held.within(Changed(KIND, made(*change))))) is not admit(change)
            else:
                found = held.within(Replaced(KIND, tuple(made(*one) for one in change), ()))
                assert isinstance(found, Replaced)
                for gone in set(there) - {one[0] for one in change}:
                    del there[gone]
                known = set(there)
                kept = {one[0] for one in sorted(change, key=lambda one: one[0] not in known) if admit(one)}
                assert {one.key.name for one in found.objects} == kept
                assert {one.key.name for one in found.refused} == {one[0] for one in change} - kept


def made(name: str, driver: str, first: frozenset[str], second: frozenset[str]) -> ResourceSlice:
    return source(
        name, driver, *({"attributes": {n: {"int": 1} for n in names}} for names in (first, second))
    )
