"""Values that nothing uses any more do not pile up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.inventory import store as stores
from reconciler.inventory.snapshot import Snapshot
from reconciler.inventory.store import Store
from reconciler.objects.changes import Changed
from reconciler.objects.semantics import Semantics
from tests.builders import counter_slice, device, held, hold, node, resource_slice, snapshot, typed
from tests.inventory.events import BEGINNING, EVENTS, RULES
from tests.inventory.picture import picture
from tests.inventory.test_streaming import run

SPARE = 50


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "SPARE_VALUES", SPARE)


def things(turn: int) -> list[dict[str, object]]:
    """A pool that never changes, and one whose devices are others every turn."""
    return [
        node("n"),
        resource_slice(
            "s", [device("A", {"model": "x"}, {"mem": "2Gi"}, {"cs": {"c": 1}})], nodeName="n", slices=2
        ),
        counter_slice("c", {"cs": {"c": 1}}, nodeName="n", slices=2),
        resource_slice("t", [device("A", {"turn": turn}, {"mem": str(turn)})], pool="q", nodeName="n"),
        held("c", hold("A")),
    ]


def apply(store: Store, turn: int) -> Snapshot:
    for raw in things(turn):
        store.apply(Changed(str(raw["kind"]), typed(raw)))
    return store.snapshot()


@pytest.mark.usefixtures("little_room")
def test_vocabularies_stay_small_however_often_values_change():
    store = Store(Semantics())
    sizes = [apply(store, turn).fleet.words.size for turn in range(200)]
    assert max(sizes) < 3 * SPARE
    assert picture(store.snapshot()) == picture(snapshot(*things(199)))


@pytest.mark.usefixtures("little_room")
def test_a_picture_from_before_still_says_what_it_said():
    store = Store(Semantics())
    before = apply(store, 0)
    for turn in range(1, 200):
        apply(store, turn)
    assert before.fleet.words is not store.snapshot().fleet.words
    assert picture(before)["devices"] == picture(snapshot(*things(0)))["devices"]


@pytest.mark.usefixtures("little_room")
def test_values_in_use_are_not_taken_for_old_ones():
    store = Store(Semantics())
    many = [device(f"d{number}", {"id": number}) for number in range(4 * SPARE)]
    store.apply(Changed("ResourceSlice", typed(resource_slice("s", many, nodeName="n"))))
    words = store.snapshot().fleet.words
    store.apply(Changed("ResourceSlice", typed(resource_slice("s", many[1:], nodeName="n"))))
    assert store.snapshot().fleet.words is words


@given(st.sampled_from(RULES), st.lists(EVENTS, max_size=20))
def test_the_picture_does_not_show_that_values_were_shed(rules, events):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "SPARE_VALUES", -1000)
        patch.setattr(stores, "SPARE_FACTOR", 0)
        run(rules, [*BEGINNING, *events])
