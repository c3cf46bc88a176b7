"""A picture that is loaded all at once is the one that changes make one by one."""

from reconciler.api.objects.changes import Change, Changed
from reconciler.api.objects.semantics import Semantics
from reconciler.state.loading import load, store_of
from reconciler.state.store import Store
from tests.tools.builders import Object, device_class, devices, held, hold, node, resource_slice, typed
from tests.tools.store_picture import picture

WORLD: list[Object] = [
    node("n"),
    device_class(),
    resource_slice("s", devices("A", "B"), nodeName="n"),
    held("c", hold("A")),
]


def test_a_loaded_store_is_the_one_that_was_told_of_each_object():
    told = Store(Semantics())
    for raw in WORLD:
        told.apply(Changed(raw["kind"], typed(raw)))
    assert picture(store_of(map(typed, WORLD), Semantics()).snapshot()) == picture(told.snapshot())


def test_objects_are_taken_in_order_and_a_later_one_replaces_its_namesake():
    class Heard:
        def __init__(self) -> None:
            self.changes: list[Change] = []

        def apply(self, change: Change) -> None:
            self.changes.append(change)

    heard = Heard()
    first, second = typed(node("n", zone="a")), typed(node("n", zone="b"))
    load(heard, iter((first, second)))
    assert heard.changes == [Changed("Node", first), Changed("Node", second)]
    nodes = store_of((first, second), Semantics()).snapshot().topology.nodes
    assert dict(nodes["n"].labels)["zone"] == "b"
