"""Asks what would be in a small world, given as JSON."""

from reconciler.analysis.whatif.answering import answer
from reconciler.analysis.whatif.reading import groups_of, units_in
from reconciler.analysis.whatif.scenario import Answer, Baseline, Scenario
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.core import Node
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.state.trial import store_of
from tests.tools.small_fleet import Object, device_class, devices, node


def racks(**racks: tuple[str, int]) -> list[Object]:
    """A device class, and nodes with a rack and a number of devices."""
    found = [device_class()]
    for name, (rack, count) in racks.items():
        found += [node(name, rack=rack), devices(name, *(f"d{at}" for at in range(count)))]
    return found


def ask(world: list[Object], *asked: Object, **options: object) -> Answer:
    """Ask for the objects `asked`, with the options of a `Scenario`."""
    units = units_in(bundle([Document(Origin("test"), raw) for raw in asked]), of_plugins=True)
    objects = [read(raw) for raw in world]
    nodes = tuple(one for one in objects if isinstance(one, Node))
    base = Baseline(store_of(objects, Semantics()), nodes, groups=groups_of(objects))
    return answer(Scenario(units, **options), base)  # type: ignore[arg-type]
