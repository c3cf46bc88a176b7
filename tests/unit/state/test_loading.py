"""Loading objects at once equals applying them one by one."""

from reconciler.api.objects.changes import Change, Changed
from reconciler.api.objects.semantics import Semantics
from reconciler.state.store import Store
from reconciler.state.trial import load, store_of
from tests.tools.builders import Object, device_class, devices, held, hold, node, resource_slice, typed
from tests.tools.store_picture import picture

WORLD: list[Object] = [
    node("n"),
    device_class(),
    resource_slice("s", devices("A", "B"), nodeName="n"),
    held("c", hold("A")),
]


def test_loading_equals_applying_each_object():
    store = Store(Semantics())
    for raw in WORLD:
        store.apply(Changed(raw["kind"], typed(raw)))
    assert picture(store_of(map(typed, WORLD), Semantics()).snapshot()) == picture(store.snapshot())


def test_objects_are_loaded_in_order_and_a_later_one_replaces_its_namesake():
    class Recorder:
        def __init__(self) -> None:
            self.changes: list[Change] = []

        def apply(self, change: Change) -> None:
            self.changes.append(change)

    recorder = Recorder()
    first, second = typed(node("n", zone="a")), typed(node("n", zone="b"))
    load(recorder, iter((first, second)))
    assert recorder.changes == [Changed("Node", first), Changed("Node", second)]
    nodes = store_of((first, second), Semantics()).snapshot().topology.nodes
    assert dict(nodes["n"].labels)["zone"] == "b"
