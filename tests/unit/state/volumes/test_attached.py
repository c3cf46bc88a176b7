"""Counts of attached volumes follow pods, nodes and storage objects, whatever comes first."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.versions.reading import read
from reconciler.state.nodes.table import Nodes
from tests.tools.placed_pods import as_pod
from tests.tools.scenario import machine, running
from tests.tools.small_fleet import Object
from tests.tools.volume_scenarios import (
    DRIVER,
    attachment,
    csi_node,
    mounting,
    storage_class,
    volume,
    volume_claim,
)

NAMES = ("one", "two", "three")


def drawn(random: Random, draw: str) -> list[Object]:
    """Objects that may contradict each other, each in one version. `draw` makes the uids of pods."""
    found: list[Object] = [storage_class()]
    for name in NAMES:
        found += random.sample([volume(name, of=name), volume_claim(name, volume=name)], random.randint(0, 2))
        found += [attachment(node, name) for node in "ab" if random.random() < 0.3]
    for node in "ab":
        found += [machine(node), csi_node(node, random.randint(0, 3))]
    for number in range(4):
        mounted = random.sample(NAMES, random.randint(0, 2))
        pod = running(f"p{number}", random.choice("ab"), "1", **mounting(*mounted))
        found.append({**pod, "metadata": {**pod["metadata"], "uid": f"{draw}-{number}"}})
    random.shuffle(found)
    return found


def put(nodes: Nodes, raw: Object) -> None:
    thing = read(raw)
    if raw["kind"] == "Pod":
        pod = as_pod(raw)
        nodes.host(pod.key, pod, pod.spec.node_name)
    else:
        nodes.note(Changed(raw["kind"], thing))


def drop(nodes: Nodes, raw: Object) -> None:
    thing = read(raw)
    if raw["kind"] == "Pod":
        nodes.host(thing.key, None)
    else:
        nodes.note(Removed(raw["kind"], thing.key))


def counts(nodes: Nodes) -> dict[str, tuple[int, int, int]]:
    attached = nodes.volumes.attached
    but = (as_pod(running("p0", "a", "1")).key,)
    columns = attached.count(DRIVER), attached.limit(DRIVER), attached.count(DRIVER, but=but)
    rows = {name: nodes.row_of(name) for name in "ab"}
    return {
        name: (int(columns[0][row]), int(columns[1][row]), int(columns[2][row]))
        for name, row in rows.items()
        if row is not None
    }


@given(st.integers(0, 2**32))
def test_counts_follow_every_change(seed: int):
    """After any sequence of changes they are those of the final objects."""
    random = Random(seed)
    final, gone = drawn(random, "new"), drawn(random, "old")
    nodes = Nodes()
    for raw in gone:
        put(nodes, raw)
        if random.random() < 0.3:
            counts(nodes)
    steps = [(drop, raw) for raw in gone] + [(put, raw) for raw in final]
    kept = {(raw["kind"], raw["metadata"]["name"]) for raw in final}
    for act, raw in steps:
        if act is put or (raw["kind"], raw["metadata"]["name"]) not in kept:
            act(nodes, raw)
        if random.random() < 0.3:
            counts(nodes)
    fresh = Nodes()
    for raw in final:
        put(fresh, raw)
    assert counts(nodes) == counts(fresh)
