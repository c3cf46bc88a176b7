"""Fleets are joined from pools: patched, built ahead, in order, and with the taints of rules."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import GATES, TAINT_RULES, TAINTS, Semantics
from reconciler.cel.program import compile_selector
from reconciler.state.store import Store
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    held,
    hold,
    labelled,
    node,
    node_selector,
    resource_slice,
    snapshot,
    store,
    taint,
    taint_rule,
    typed,
)
from tests.tools.examples import examples
from tests.tools.pool_fitting import ON_N, TWO, left
from tests.tools.store_picture import EXPRESSIONS, picture, places

SHARED: Object = {"allowMultipleAllocations": True}
FIELDS: list[Object] = [
    {},
    SHARED,
    {"taints": [taint("t1")]},
    {"bindsToNode": True},
    {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]},
]
ATTRIBUTES: list[dict[str, Any]] = [{}, {"model": "x"}, {"model": "y"}, {"model": 1, "e/model": "x"}]
ZONE_A: Object = {"nodeSelector": node_selector(labelled("zone", "a"))}
PLACES: list[Object] = [{"nodeName": "n"}, {"nodeName": "m"}, {"allNodes": True}, ZONE_A]

DEVICES = st.builds(
    lambda attributes, capacity, draws, fields: (attributes, capacity, draws, fields),
    st.sampled_from(ATTRIBUTES),
    st.sampled_from([{}, {"mem": "4Gi"}, {"mem": "1Gi"}]),
    st.sampled_from([{}, {"g": {"m": 20}}, {"g": {"m": 40}}]),
    st.sampled_from(FIELDS),
)
CHANGES = st.lists(
    st.tuples(st.sampled_from([0, 1, 2]), st.sampled_from([0, 1, 2]), DEVICES, st.sampled_from(PLACES)),
    min_size=1,
    max_size=8,
)
"""Number of a slice, of its device, and what this becomes"""


def world() -> list[Object]:
    """Two slices of a pool with counters, and a pool without; three devices each."""
    sample = device("A", {"model": "x", "e/model": "y"}, {"mem": "4Gi"}, {"g": {"m": 20}}, nodeName="n")
    plain = device("A", {"model": "x"}, {"mem": "4Gi"})

    def three(of: Object, letter: str) -> list[Object]:
        return [deepcopy(of) | {"name": f"{letter}{number}"} for number in range(3)]

    return [
        resource_slice("s-1", three(sample, "a"), slices=3, perDeviceNodeSelection=True),
        resource_slice("s-2", three(sample, "b"), slices=3, perDeviceNodeSelection=True),
        resource_slice("u", three(plain, "c"), pool="q", allNodes=True),
    ]


OTHERS = [
    node("n", zone="a"),
    node("m", zone="b"),
    counter_slice("t", {"g": {"m": 100}}, slices=3, perDeviceNodeSelection=True),
    taint_rule("r", {"driver": "d", "device": "b1"}, taint("t2")),
    held("c", hold("a0"), hold("b0"), hold("c0", pool="q", shareID="s", consumedCapacity={"mem": "1Gi"})),
]


def put(store: Store, raw: Object) -> None:
    store.apply(Changed(raw["kind"], typed(raw)))


def store_of(slices: list[Object], rules: Semantics) -> Store:
    store = Store(rules)
    for raw in [*OTHERS, *slices]:
        put(store, raw)
    return store


def changed(slices: list[Object], at: int, number: int, content: Any, place: Object) -> Object:
    """The slice with another device of the same name. It is new, not the old one changed."""
    raw = slices[at] = deepcopy(slices[at])
    name = raw["spec"]["devices"][number]["name"]
    attributes, capacity, draws, fields = content
    own = place if raw["spec"].get("perDeviceNodeSelection") else {}
    draws = draws if raw["spec"].get("perDeviceNodeSelection") else {}
    raw["spec"]["devices"][number] = device(name, attributes, capacity, draws, **fields, **own)
    return raw


@examples(40)
@given(st.sampled_from([Semantics(), Semantics("1.36")]), CHANGES, st.lists(st.booleans(), max_size=8))
def test_any_changes_in_place_equal_a_store_with_the_final_slices(
    rules: Semantics, changes: list[Any], looked: list[bool]
):
    """Held devices stay as they are, since what they drew before a change stays charged (CTR-3)."""
    slices = world()
    store = store_of(slices, rules)
    kept = [(store.snapshot(), deepcopy(picture(store.snapshot())))]
    for (at, number, content, place), look in zip(
        changes, looked + [True] * (len(changes) - len(looked)), strict=False
    ):
        is_held = number == 0 and at < 2
        becomes = (*content[:2], {"g": {"m": 20}}, {}) if is_held else content
        put(store, changed(slices, at, number, becomes, place))
        if look:
            seen = store.snapshot()
            shown = picture(seen)
            assert shown == picture(store_of(slices, rules).snapshot())
            kept.append((seen, deepcopy(shown)))
    assert picture(store.snapshot()) == picture(store_of(slices, rules).snapshot())
    for seen, then in kept:
        assert picture(seen) == then, "a snapshot changed after it was taken"


def test_only_the_columns_that_differ_are_new():
    slices = world()
    store = store_of(slices, Semantics())
    before = store.snapshot()
    content: tuple[Object, ...] = ({"model": "z", "e/model": "y"}, {"mem": "4Gi"}, {"g": {"m": 20}}, {})
    put(store, changed(slices, 0, 1, content, PLACES[0]))
    now = store.snapshot()
    earlier = before.fleet.cel.attributes
    same = {name: column.codes is earlier[name].codes for name, column in now.fleet.cel.attributes.items()}
    assert same == {("d", "model"): False, ("e", "model"): True}
    assert all(now.fleet.codes[name] is codes for name, codes in before.fleet.codes.items())
    assert now.topology.near is before.topology.near
    assert now.topology.ordered is before.topology.ordered
    assert now.occupancy.held.base is before.occupancy.held.base


def test_a_kept_snapshot_stays_as_it_is_although_a_later_one_with_its_columns_is_gone():
    store = store_of(world(), Semantics())
    kept = store.snapshot()
    then = deepcopy(picture(kept))
    put(store, changed(world(), 0, 1, ({"model": "z"}, {"mem": "4Gi"}, {"g": {"m": 20}}, {}), PLACES[0]))
    store.snapshot()
    for name in ("a1", "a2"):
        put(store, held(name, hold(name)))
        store.snapshot()
    assert picture(kept) == then


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_selector_keeps_its_answers_if_no_column_that_it_reads_changes(expression: str):
    slices = world()
    store = store_of(slices, Semantics())
    selector = compile_selector(expression)
    before = selector.masks(store.snapshot().fleet.cel)
    content: tuple[Object, ...] = ({"model": "x", "e/model": "z"}, {"mem": "4Gi"}, {"g": {"m": 20}}, {})
    put(store, changed(slices, 0, 1, content, PLACES[0]))
    assert selector.masks(store.snapshot().fleet.cel) is before


def test_a_pool_that_moves_to_another_node_is_found_there():
    raw = resource_slice("p", [device("A")], pool="alone", nodeName="n")
    store = store_of([raw], Semantics())
    assert len(store.snapshot().topology.view("n").rows) == 1
    put(store, resource_slice("p", [device("A")], pool="alone", nodeName="m"))
    now = store.snapshot().topology
    assert [len(now.view(name).rows) for name in ("n", "m")] == [0, 1]


STATED = ("device.allowMultipleAllocations", "no CEL", 'device.driver == "d"')


def changes(*names: str) -> list[Changed]:
    devices = [
        device(name, compatibleOnlyWith={"expression": stated})
        for name, stated in zip(names, STATED, strict=False)
    ]
    made = resource_slice("s", devices, driver="d", pool="p", nodeName="n")
    return [Changed(raw["kind"], typed(raw)) for raw in (node("n"), made)]


def store_after(*changes: Changed | Removed) -> Store:
    store = Store(Semantics())
    for change in changes:
        store.apply(change)
    return store


@pytest.mark.parametrize("steps", range(3))
def test_a_pool_that_is_as_it_was_is_built_for_what_was_drawn_meanwhile(steps: int):
    """A held device keeps its draw of 20 when its slice goes, which is no whole unit of what remains."""
    first, second, claim = (
        Changed(raw["kind"], typed(raw))
        for raw in (
            counter_slice("t", {"g": {"m": 40}}, **TWO, **ON_N),
            resource_slice("s", [device("a", draws={"g": {"m": 20}})], **TWO, **ON_N),
            held("c", hold("a")),
        )
    )
    store = store_after(first)
    for _ in range(steps):
        store.supply.inventory.build_ahead(1)
    for change in (second, claim, Removed("ResourceSlice", ObjectKey("", "s"))):
        store.apply(change)
    assert left(store.snapshot()) == {"d/p/m": 20}


OBJECTS: list[Object] = [
    node("n", zone="a"),
    node("m", zone="b"),
    device_class("any"),
    device_class("x", 'device.attributes["d"].model == "x"'),
    taint_rule("r1", {"driver": "d"}, taint("t1")),
    taint_rule("r2", {"device": "A"}, taint("t2")),
    counter_slice("p-0", {"g": {"m": "80Gi", "k": "1m"}, "h": {"m": 4}}, slices=4, nodeName="n"),
    resource_slice(
        "p-1",
        [
            device("A", {"model": "x"}, {"mem": "4Gi"}, {"g": {"m": "40Gi", "k": "1m"}}),
            device("B", {"model": 1}, {}, {"h": {"m": 3}, "g": {"m": "10Gi"}}, taints=[taint("t1")]),
        ],
        slices=4, nodeName="n",
    ),
    resource_slice("p-10", [device("C", draws={"h": {"m": 1}})], slices=4, nodeName="m"),
    resource_slice("p-2", [device("A", {"model": "x", "d/model": "y"})], slices=4, nodeName="m"),
    resource_slice(
        "q-1", [device("A", nodeName="n", allowMultipleAllocations=True), device("B", allNodes=True)],
        pool="q", perDeviceNodeSelection=True,
    ),
    resource_slice(
        "e-1", [device("A", {"d/model": "x"})], driver="e", nodeSelector=node_selector(labelled("zone", "b"))
    ),
    resource_slice("o-1", [device("O")], pool="o", nodeName="n"),
    resource_slice("o-2", [device("O"), device("P")], pool="o", generation=2, slices=2, nodeName="m"),
    resource_slice("w-1", [device("W", bindingConditions=["up"])], pool="a", allNodes=True),
    held("c1", hold("A"), hold("O", pool="o")),
    held("c2", hold("A", pool="q", shareID="s1", consumedCapacity={"mem": "1Gi"})),
    held("c3", hold("A", pool="q", shareID="s2", consumedCapacity={"mem": "500m"}), hold("C")),
    claim("c4"),
]  # fmt: skip

EXPECTED = picture(snapshot(*OBJECTS))


@examples(40)
@given(st.permutations(OBJECTS))
def test_any_order_of_arrival_gives_the_same_snapshot(objects: list[Object]):
    seen = snapshot(*objects)
    assert picture(seen) == EXPECTED
    assert [str(pool.id) for pool in seen.fleet.pools] == ["d/a", "d/o", "d/p", "d/q", "e/p"]
    assert [f"{place.slice}/{place.device}" for place in places(seen.fleet)[:6]] == [
        "w-1/W", "o-1/O", "o-2/O", "o-2/P", "p-1/A", "p-1/B",
    ]  # fmt: skip


ON_NODE: Object = {"nodeName": "n"}
SLICES = [
    resource_slice("1", [device("A"), device("B", taints=[taint("own")])], driver="d", pool="p", **ON_NODE),
    resource_slice("2", [device("A")], driver="d", pool="q", **ON_NODE),
    resource_slice("3", [device("A")], driver="e", pool="p", **ON_NODE),
]


def taints(*rules: Object, semantics: Semantics | None = None) -> dict[str, str]:
    """Device -> keys of its taints; devices without taints are left out."""
    seen = snapshot(node("n"), *SLICES, *rules, rules=semantics)
    found = picture(seen)["devices"].values()
    return {str(d["id"]): " ".join(d["taints"]) for d in found if d["taints"]}


OWN = {"d/p/B": "own"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(None, OWN, id="no selector: nothing, as documented"),
        pytest.param(
            {}, {"d/p/A": "t", "d/p/B": "own t", "d/q/A": "t", "e/p/A": "t"}, id="empty: everything"
        ),
        pytest.param({"driver": "d"}, {"d/p/A": "t", "d/p/B": "own t", "d/q/A": "t"}, id="a driver"),
        pytest.param({"pool": "p"}, {"d/p/A": "t", "d/p/B": "own t", "e/p/A": "t"}, id="pools of one name"),
        pytest.param({"device": "A"}, {"d/p/A": "t", "d/q/A": "t", "e/p/A": "t"} | OWN, id="one name"),
        pytest.param({"driver": "d", "pool": "p", "device": "A"}, {"d/p/A": "t"} | OWN, id="one device"),
        pytest.param({"driver": "d", "device": "B"}, {"d/p/B": "own t"}, id="criteria are ANDed"),
        pytest.param({"driver": "nobody"}, OWN, id="a driver that is not there"),
        pytest.param({"pool": ""}, OWN, id="an empty name is a name"),
        pytest.param({"driver": "D"}, OWN, id="names are compared byte by byte"),
    ],
)
def test_a_rule_taints_the_devices_it_names(selector: Object | None, expected: dict[str, str]):
    assert taints(taint_rule("r", selector, taint("t"))) == expected


def test_a_taint_that_a_device_already_has_is_added_again():
    """TNT-8: each must be tolerated. The added taint may equal one of another device."""
    found = taints(taint_rule("a", {}, taint("own")), taint_rule("b", {}, taint("own")))
    assert found == {"d/p/A": "own own", "d/p/B": "own own own", "d/q/A": "own own", "e/p/A": "own own"}


@pytest.mark.parametrize("gate", [TAINTS, TAINT_RULES])
def test_without_the_gates_rules_are_ignored(gate: str):
    semantics = Semantics(gates=frozenset(GATES) - {gate})
    assert taints(taint_rule("r", {}, taint("t")), semantics=semantics) == OWN


def test_a_rule_follows_the_class_that_it_names():
    state = store(node("n"), SLICES[0], taint_rule("r", {"deviceClassName": "c"}, taint("t")))

    def shown() -> list[Any]:
        return [d["taints"] for d in picture(state.snapshot())["devices"].values()]

    plain = shown()
    assert state.apply(Changed("DeviceClass", typed(device_class("c")))).supply
    assert shown() == [[*taints, "t"] for taints in plain]
    state.apply(Changed("DeviceClass", typed(device_class("c", "false"))))
    assert shown() == plain
    state.apply(Changed("DeviceClass", typed(device_class("c"))))
    state.apply(Removed("DeviceClass", ObjectKey("", "c")))
    assert shown() == plain
    assert not state.apply(Changed("DeviceClass", typed(device_class("other")))).supply


def test_new_devices_are_tainted_and_deleted_rules_remove_their_taints():
    state = store(node("n"), SLICES[0], taint_rule("r", {"device": "A"}, taint("t")))
    before = state.snapshot()
    state.apply(Changed("ResourceSlice", typed(SLICES[2])))
    assert [d["taints"] for d in picture(state.snapshot())["devices"].values()] == [["t"], ["own"], ["t"]]
    state.apply(Changed("DeviceTaintRule", typed(taint_rule("r", {"device": "B"}, taint("u")))))
    assert [d["taints"] for d in picture(state.snapshot())["devices"].values()] == [[], ["own", "u"], []]
    state.apply(Removed("DeviceTaintRule", ObjectKey("", "r")))
    assert [d["taints"] for d in picture(state.snapshot())["devices"].values()] == [[], ["own"], []]
    assert [d["taints"] for d in picture(before)["devices"].values()] == [["t"], ["own"]]
