"""Unused values do not accumulate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.semantics import Semantics
from reconciler.state.devices import inventory as stores
from reconciler.state.devices.encoding.vocabulary import Value
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.store import Store
from reconciler.state.trial import load
from tests.tools.builders import (
    Object,
    counter_slice,
    device,
    held,
    hold,
    node,
    resource_slice,
    snapshot,
    typed,
)
from tests.tools.store_objects import RULES
from tests.tools.store_picture import picture
from tests.tools.store_world import BEGINNING, EVENTS, run

SPARE = 50


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "SPARE_VALUES", SPARE)


def things(turn: int) -> list[Object]:
    """Pools whose devices change values every turn, every few turns, or never."""
    now, lately = f"v{turn}", f"v{turn // 7}"
    only: Object = {"compatibleOnlyWith": {"expression": f'device.attributes["d"].turn == "{lately}"'}}
    return [
        node("n"),
        counter_slice("c", {"cs": {"c": 1}}, nodeName="n", slices=2),
        resource_slice("t", [device("A", {"turn": now}, {"mem": str(turn)})], pool="q", nodeName=f"n{turn}"),
        resource_slice(
            "s", [device("A", {"turn": "x"}, {"mem": "2Gi"}, {"cs": {"c": 1}})], nodeName="n", slices=2
        ),
        resource_slice(
            "u", [device("A", {"turn": lately}), device("B", {"turn": now}, **only)], pool="r", nodeName="n"
        ),
        held("c", hold("A"), hold("A", pool="r")),
    ]


def values(seen: Snapshot) -> list[tuple[Value, str, str]]:
    """An attribute, the amounts and the node of each device, read from the columns."""
    fleet = seen.fleet
    turns, words = fleet.cel.attributes["d", "turn"], fleet.vocabulary
    shapes, nodes = fleet.codes["shape"].tolist(), fleet.codes["node"].tolist()
    return [
        (
            turns.values[turn],
            ", ".join(str(slot.value) for slot in words.shapes.values[shape]) if shape >= 0 else "",
            words.nodes.values[at],
        )
        for turn, shape, at in zip(turns.codes.tolist(), shapes, nodes, strict=True)
    ]


def apply(store: Store, turn: int) -> Snapshot:
    load(store, map(typed, things(turn)))
    return store.snapshot()


@pytest.mark.usefixtures("little_room")
def test_the_vocabulary_stays_small_while_values_change():
    store = Store(Semantics())
    for turn in range(90):
        seen, afresh = apply(store, turn), snapshot(*things(turn))
        assert seen.fleet.vocabulary.size < 3 * SPARE
        assert values(seen) == values(afresh)
        if turn % 9 == 0:
            assert picture(seen) == picture(afresh)


@pytest.mark.usefixtures("little_room")
def test_an_old_snapshot_does_not_change():
    store = Store(Semantics())
    before = apply(store, 0)
    for turn in range(1, 90):
        apply(store, turn)
    assert before.fleet.vocabulary is not store.snapshot().fleet.vocabulary
    assert picture(before)["devices"] == picture(snapshot(*things(0)))["devices"]


@pytest.mark.usefixtures("little_room")
def test_values_in_use_are_kept():
    store = Store(Semantics())
    many = [device(f"d{number}", {"id": number}) for number in range(4 * SPARE)]
    store.apply(Changed("ResourceSlice", typed(resource_slice("s", many, nodeName="n"))))
    vocabulary = store.supply.inventory.vocabulary
    assert store.snapshot().fleet.vocabulary is vocabulary
    store.apply(Changed("ResourceSlice", typed(resource_slice("s", many[1:], nodeName="n"))))
    assert store.snapshot().fleet.vocabulary is vocabulary


@given(st.sampled_from(RULES), st.lists(EVENTS, max_size=20))
def test_shedding_does_not_change_snapshots(rules, events):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "SPARE_VALUES", -1000)
        patch.setattr(stores, "SPARE_FACTOR", 0)
        run(rules, [*BEGINNING, *events])
