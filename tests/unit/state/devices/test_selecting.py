"""The index of node selectors matches like each selector alone."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import NodeSelector
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected
from reconciler.state.devices import naming
from reconciler.state.devices.encoding.vocabulary import Interner, SelectorIndex
from reconciler.state.devices.naming import MAX_OF_DRIVER, MAX_OF_FLEET, Naming
from reconciler.state.devices.reach import Reach
from reconciler.state.devices.snapshot import Topology
from reconciler.state.store import Store
from tests.tools.builders import Object, device, labelled, node, node_selector, resource_slice, store, typed

KEYS = st.sampled_from(["zone", "kubernetes.io/hostname", "metadata.name"])
VALUES = st.sampled_from(["a", "b", "1", "2"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=3)


def requirement(key, operator, values):
    return {"key": key, "operator": operator, "values": values}


EXPRESSIONS = st.one_of(
    st.builds(requirement, KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, min_size=1, max_size=3)),
    st.builds(requirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"]), st.just([])),
    st.builds(requirement, KEYS, st.sampled_from(["Gt", "Lt"]), st.lists(VALUES, min_size=1, max_size=1)),
)
FIELDS = st.builds(
    requirement,
    st.just("metadata.name"),
    st.sampled_from(["In", "NotIn", "Near"]),
    st.lists(VALUES, min_size=1, max_size=1),
)
TERMS = st.fixed_dictionaries(
    {"matchExpressions": st.lists(EXPRESSIONS, max_size=2), "matchFields": st.lists(FIELDS, max_size=1)}
)
SELECTORS = st.builds(
    lambda terms: NodeSelector.model_validate({"nodeSelectorTerms": terms}), st.lists(TERMS, max_size=3)
)


def plainly(selector: NodeSelector, name: str, labels: dict[str, str]) -> bool | None:
    try:
        return selector.matches(name, labels)
    except Rejected:
        return None


@given(st.lists(SELECTORS, max_size=6), st.lists(SELECTORS, max_size=3), VALUES, LABELS)
def test_the_index_matches_as_each_selector_does(first, later, name, labels):
    """Also for selectors that are added after the first use."""
    interner: Interner[NodeSelector] = Interner()
    index = SelectorIndex(interner)
    for batch in (first, later):
        for selector in batch:
            interner.code(selector)
        expected = [plainly(selector, name, labels) for selector in interner.values]
        matching = [code for code, answer in enumerate(expected) if answer]
        assert sorted(set(index.codes(name, labels))) == matching
        assert sorted(index.unreadable) == [code for code, answer in enumerate(expected) if answer is None]


def zone(value: str) -> NodeSelector:
    return NodeSelector.model_validate(node_selector(labelled("zone", value)))


def test_a_selector_that_is_added_while_others_are_indexed_is_found(monkeypatch: pytest.MonkeyPatch):
    """The loop encodes slices while a thread joins a fleet."""
    selectors: Interner[NodeSelector] = Interner()
    selectors.code(zone("a"))
    index, check = SelectorIndex(selectors), NodeSelector.check

    def check_while_another_is_added(self: NodeSelector) -> None:
        selectors.code(zone("b"))
        check(self)

    monkeypatch.setattr(NodeSelector, "check", check_while_another_is_added)
    assert index.codes("n", {"zone": "a"}) == [0]
    assert index.codes("n", {"zone": "b"}) == [1]


def test_a_selector_that_is_added_while_a_fleet_is_read_does_not_concern_it(monkeypatch: pytest.MonkeyPatch):
    made = resource_slice("s", [device("A")], nodeSelector=node_selector(labelled("zone", "a")))
    topology = store(node("n", zone="a", rack="r"), made).snapshot().topology
    vocabulary = topology.fleet.vocabulary

    def while_another_is_added(asked: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: object) -> object:
            number = len(vocabulary.selectors.values)
            selector = node_selector(labelled("rack", "r", str(number)))
            vocabulary.selectors.code(NodeSelector.model_validate(selector))
            return asked(*args)

        return ask

    monkeypatch.setattr(SelectorIndex, "codes", while_another_is_added(SelectorIndex.codes))
    places, found = topology.selected.pairs
    assert (places.tolist(), found.tolist()) == ([0], [0])
    assert Reach(topology.nodes["n"], vocabulary).matching.all()


def test_who_selects_whom_is_kept_while_neither_selectors_nor_labels_change():
    selected = node_selector(labelled("zone", "a"))

    def made(kind: str) -> Object:
        devices = [device("A", {"kind": kind}, nodeSelector=selected), device("B", nodeName="m")]
        return resource_slice("s", devices, perDeviceNodeSelection=True)

    world = store(node("n", zone="a"), node("m", zone="b"), made("one"))
    first = world.snapshot().topology
    assert pairs_of(first) == {"n": [0]}
    change(world, made("two"))
    second = world.snapshot().topology
    assert second is not first
    assert second.selected is first.selected
    change(world, node("m", zone="a"))
    third = world.snapshot().topology
    assert third.selected is not second.selected
    assert pairs_of(third) == {"m": [0], "n": [0]}
    change(world, resource_slice("s", [device("B", nodeName="m")], perDeviceNodeSelection=True))
    assert pairs_of(world.snapshot().topology) == {}


def change(world: Store, raw: Object) -> None:
    world.apply(Changed(raw["kind"], typed(raw)))


def pairs_of(topology: Topology) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, code in zip(*(column.tolist() for column in topology.selected.pairs), strict=True):
        found.setdefault(topology.order[place], []).append(code)
    return found


# -- A driver with many names cannot grow the fleet without bound, and does not affect others.


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
