"""The group mode of a driver follows what its devices say, in all of its pools (GRP-12)."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Change, Changed, Removed, Replaced
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.semantics import Semantics, with_group_modes
from reconciler.api.versions.extensions import ANNOTATION
from reconciler.api.versions.reading import read
from reconciler.ha.shard import parse_shard, within_shard
from reconciler.operations.journal.entries import decode, encode
from reconciler.state.devices.exclusion_modes import group_modes, held_of
from reconciler.state.store import Store
from tests.tools.builders import Object, device, held, hold, node, resource_slice, typed
from tests.tools.examples import examples
from tests.tools.store_picture import picture

RULES = Semantics()
STATED = {"expression": "true"}


def grouped(name: str, *groups: str, **fields: Any) -> Object:
    made = device(name, {"id": name}, draws={"g": {"m": 1}}, **fields)
    made["consumesCounters"][0]["compatibilityGroups"] = list(groups)
    return made


def pool(name: str, *content: Object, driver: str = "d") -> Object:
    made = resource_slice(f"s-{name}", content, pool=name, driver=driver, nodeName="n")
    made["spec"]["sharedCounters"] = [{"name": "g", "counters": {"m": {"value": "9"}}}]
    return made


def put(raw: Object) -> Changed:
    return Changed("ResourceSlice", read(raw))


def gone(name: str) -> Removed:
    return Removed("ResourceSlice", ObjectKey("", f"s-{name}"))


PLAIN = pool("a", grouped("x", "mig"), grouped("y"))
STATING = pool("b", grouped("z", compatibleOnlyWith=STATED))
ANNOTATED = pool("b", grouped("z"))
ANNOTATED["metadata"]["annotations"] = {ANNOTATION: json.dumps({"z": {"compatibleOnlyWith": STATED}})}
ONLY_GROUPS = pool("b", grouped("z"))
ONLY_GROUPS["metadata"]["annotations"] = {
    ANNOTATION: json.dumps({"z": {"consumesCounters": [{"counterSet": "g", "compatibilityGroups": ["mig"]}]}})
}


def store_after(*changes: Change, rules: Semantics = RULES) -> Store:
    store = Store(rules)
    for change in (Changed("Node", typed(node("n"))), *changes):
        store.apply(change)
    return store


def mode(store: Store, driver: str = "d") -> str:
    return {one.driver: str(one.mode) for one in group_modes(store.snapshot())}[driver]


@pytest.mark.parametrize(
    ("slices", "settings", "expected"),
    [
        pytest.param([PLAIN], [], "kep-5963", id="only groups"),
        pytest.param([PLAIN, STATING], [], "pairwise", id="an expression in place, in another pool"),
        pytest.param([PLAIN, ANNOTATED], [], "pairwise", id="an expression in the annotation"),
        pytest.param([PLAIN, ONLY_GROUPS], [], "kep-5963", id="groups in the annotation"),
        pytest.param(
            [PLAIN, pool("b", grouped("z", compatibleOnlyWith=STATED), driver="e")],
            [],
            "kep-5963",
            id="an expression of another driver",
        ),
        pytest.param([PLAIN, STATING], ["d=kep-5963"], "kep-5963", id="set against the expressions"),
        pytest.param([PLAIN, STATING], ["*=kep-5963"], "kep-5963", id="set for all drivers"),
        pytest.param([PLAIN], ["d=pairwise"], "pairwise", id="set without expressions"),
        pytest.param([PLAIN, STATING], ["e=kep-5963"], "pairwise", id="set for another driver"),
    ],
)
def test_the_default_follows_the_devices_and_the_setting_wins(
    slices: list[Object], settings: list[str], expected: str
):
    rules = Semantics(group_modes=with_group_modes(settings))
    assert mode(store_after(*map(put, slices), rules=rules)) == expected


def test_all_pools_of_a_driver_follow_the_first_expression_and_the_last():
    """Also when the pools without expressions are built already."""
    holder = Changed("ResourceClaim", typed(held("h", hold("x", pool="a"))))
    store = store_after(put(PLAIN), holder)

    def is_open() -> bool:
        seen = store.snapshot()
        (row,) = (row for row in range(seen.fleet.size) if seen.fleet.id_of(row).device == "y")
        assert seen.occupancy.open is not None
        return bool(seen.occupancy.open[row])

    assert not is_open()
    for change, expected in ((put(STATING), True), (put(ONLY_GROUPS), False), (put(ANNOTATED), True)):
        store.apply(change)
        assert is_open() == expected
        assert held_of(store.snapshot(), "d") == 1
    store.apply(gone("b"))
    assert not is_open()


def test_a_pool_that_was_built_ahead_is_built_again_for_another_mode():
    store = store_after(put(PLAIN))
    while store.supply.inventory.build_ahead(8):
        pass
    store.apply(put(STATING))
    store.supply.inventory.build_ahead(1)
    store.apply(gone("b"))
    assert mode(store) == "kep-5963"
    assert picture(store.snapshot()) == picture(store_after(put(PLAIN)).snapshot())


SHARD = parse_shard("driver=d,pool-prefix=a")


def listing(*slices: Object) -> Replaced:
    return Replaced("ResourceSlice", tuple(map(read, slices)), ())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param([put(PLAIN), put(STATING)], "pairwise", id="seen"),
        pytest.param([put(PLAIN), put(STATING), gone("b")], "kep-5963", id="deleted"),
        pytest.param([put(PLAIN), put(STATING), put(ONLY_GROUPS)], "kep-5963", id="changed"),
        pytest.param([listing(PLAIN, STATING)], "pairwise", id="listed"),
        pytest.param([listing(PLAIN, STATING), listing(PLAIN)], "kep-5963", id="no longer listed"),
        pytest.param([put(STATING), listing(PLAIN, STATING)], "pairwise", id="seen and listed"),
    ],
)
def test_a_shard_compares_groups_as_the_whole_fleet_does(changes: Sequence[Change], expected: str):
    """The slice with the expression belongs to another shard."""
    seen = [within_shard(change, SHARD) for change in changes]
    store = store_after(*seen)
    assert [source.key.name for source in store.supply.slices] == ["s-a"]
    assert mode(store) == expected == mode(store_after(*changes))
    recorded: list[Any] = [decode(encode(change)) for change in seen]
    assert mode(store_after(*recorded)) == expected


CHOICES = {
    "a": [PLAIN, pool("a", grouped("x", "mig", compatibleOnlyWith=STATED))],
    "b": [STATING, ONLY_GROUPS],
}
STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.booleans()), min_size=1, max_size=8)


@examples(60)
@given(STEPS)
def test_any_history_is_a_new_store_with_the_last_slices(steps: list[tuple[str, int, bool]]):
    holder = Changed("ResourceClaim", typed(held("h", hold("x", pool="a"))))
    store, last = store_after(holder), dict[str, Change]()
    for name, number, look in steps:
        change: Change = gone(name) if number == 2 else put(CHOICES[name][number])
        store.apply(change)
        last[name] = change
        if look:
            store.snapshot()
        store.supply.inventory.build_ahead(1)
    assert picture(store.snapshot()) == picture(store_after(holder, *last.values()).snapshot())
