"""Volumes: how many are attached, in-tree disks, and what is promised."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed, Removed
from reconciler.api.objects.storage import PersistentVolume
from reconciler.api.versions.reading import read
from reconciler.state.nodes.table import Nodes
from reconciler.state.volumes.objects import AWS, AZURE, VolumeID, plugin_of, translated_affinity, volume_id
from tests.tools.pod_scenarios import as_pod
from tests.tools.scenario import asking, machine, running
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


ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"


def disk(labels: dict[str, str], terms: list[Any] | None = None, **source: Any) -> PersistentVolume:
    affinity = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    raw = {"metadata": {"name": "v", "labels": labels}, "spec": {**source, **affinity}}
    return PersistentVolume.model_validate(raw)


@pytest.mark.parametrize(
    ("labels", "source", "expected"),
    [
        ({}, {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, ("ebs.csi.aws.com", "vol-1")),
        ({}, {"awsElasticBlockStore": {"volumeID": "vol-1"}}, ("ebs.csi.aws.com", "vol-1")),
        (
            {ZONE: "us-central1-a"},
            {"gcePersistentDisk": {"pdName": "d"}},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-central1-a/disks/d"),
        ),
        (
            {BETA: "us-central1-a__us-central1-b"},
            {"gcePersistentDisk": {"pdName": "d"}},
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-central1/disks/d"),
        ),
        ({BETA: "us-central1-a__us-east1-b"}, {"gcePersistentDisk": {"pdName": "d"}}, None),
        ({}, {"azureDisk": {"diskURI": "uri", "kind": "Managed"}}, ("disk.csi.azure.com", "uri")),
        ({}, {"azureDisk": {"diskURI": "uri", "kind": "Dedicated"}}, None),
        ({}, {"cinder": {"volumeID": "id"}}, ("cinder.csi.openstack.org", "id")),
        ({}, {"portworxVolume": {"volumeID": "id"}}, ("pxd.portworx.com", "id")),
        ({}, {"nfs": {"server": "s", "path": "/"}}, None),
    ],
)
def test_a_disk_is_a_volume_of_its_driver(
    labels: dict[str, str], source: Any, expected: tuple[str, str] | None
):
    found = volume_id(disk(labels, **source))
    assert found == (None if expected is None else VolumeID(*expected))


def keys(volume: PersistentVolume) -> list[tuple[str, tuple[str, ...]]] | None:
    found = translated_affinity(volume, plugin_of(volume.spec) or AWS)
    if found is None:
        return None
    return [(one.key, one.values) for term in found.node_selector_terms for one in term.match_expressions]


def test_the_zone_of_a_disk_is_the_label_of_its_driver():
    """From the node affinity, else from the labels; the older label of a region is renamed with its zone."""
    ebs: Any = {"awsElasticBlockStore": {"volumeID": "v"}}
    csi = AWS.topology_key
    here = {"operator": "In", "values": ["z1"]}
    assert keys(disk({}, **ebs)) is None
    assert keys(disk({}, [{"matchExpressions": [{"key": ZONE, **here}]}], **ebs)) == [(csi, ("z1",))]
    assert keys(disk({ZONE: "z1__z2"}, **ebs)) == [(csi, ("z1", "z2"))]
    region = {"key": "failure-domain.beta.kubernetes.io/region", "operator": "In", "values": ["r"]}
    found = keys(disk({BETA: "z1"}, [{"matchExpressions": [region]}], **ebs))
    assert found == [("topology.kubernetes.io/region", ("r",)), (csi, ("z1",))]
    azure = disk({ZONE: "z1"}, [{"matchExpressions": [{"key": ZONE, **here}]}], azureDisk={"diskURI": "u"})
    assert plugin_of(azure.spec) is AZURE
    assert keys(azure) == [(ZONE, ("z1",))]


class World:
    def __init__(self) -> None:
        self.nodes = Nodes()
        self.pod = as_pod(asking("p", **mounting("data")))
        self.claim = read(volume_claim("data")).key
        for one in (machine("a"), storage_class()):
            self.put(one)

    def put(self, raw: Object) -> None:
        self.nodes.note(Changed(raw["kind"], read(raw)))

    def node_of(self) -> str:
        promised = self.nodes.volumes.promised
        assert promised.node_of(self.claim, but=[self.pod.key]) == ""
        found = promised.node_of(self.claim, but=())
        assert [node for _, node in promised.claims(but=())] == [found] * bool(found)
        return found


def test_a_claim_is_promised_while_its_pod_is_decided():
    """Whatever comes first, the claim or the decision."""
    for claim_first in (True, False):
        world = World()
        if claim_first:
            world.put(volume_claim("data"))
        assert world.node_of() == ""
        world.nodes.host(world.pod.key, world.pod, "a")
        world.put(volume_claim("data"))
        assert world.node_of() == "a"
        world.nodes.host(world.pod.key, None)
        assert world.node_of() == ""


def test_a_claim_that_is_bound_or_being_made_is_not_promised():
    world = World()
    world.nodes.host(world.pod.key, world.pod, "a")
    made = volume_claim("data")
    made["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "a"}
    for raw in (made, volume_claim("data", volume="v")):
        world.put(volume_claim("data"))
        assert world.node_of() == "a"
        world.put(raw)
        assert world.node_of() == ""


def test_a_bound_pod_has_its_volumes():
    """kube-scheduler binds claims before pods; who binds a pod itself takes no volume from others."""
    world = World()
    world.put(volume_claim("data"))
    world.nodes.host(world.pod.key, world.pod, "a")
    bound = as_pod(asking("p", nodeName="a", **mounting("data")))
    world.nodes.host(bound.key, bound, "a")
    assert world.node_of() == ""
