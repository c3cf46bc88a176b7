"""The filters of volumes: against a twin that goes node by node, and their words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.changes import Changed
from reconciler.api.objects.storage import STORAGE
from reconciler.api.versions.reading import read
from reconciler.errors import Unlisted
from reconciler.state.nodes.table import Nodes
from reconciler.state.on_demand import NOT_LISTED, NOT_READABLE
from tests.conformance.podfit import refused
from tests.tools.placed_pods import PlacedPods
from tests.tools.pod_scenarios import A, B
from tests.tools.scenario import asking, running
from tests.tools.volume_cases import volume_case
from tests.tools.volume_scenarios import (
    NO_PROVISIONER,
    attachment,
    capacity,
    csi_driver,
    csi_node,
    ephemeral,
    mounting,
    storage_class,
    volume,
    volume_claim,
)
from tests.tools.volume_twin import Twin

OURS = ("NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone")


@given(st.integers(0, 2**32))
def test_the_filters_agree_with_their_twins(seed: int):
    case = volume_case(seed)
    found = {node: [one for one in filters if one in OURS] for node, filters in refused(case).items()}
    assert found == Twin(case).refused()


def test_claims_that_are_not_there_or_not_right():
    """One reason for each, and what helps."""
    world = PlacedPods(A, B, storage_class("now", volumeBindingMode="Immediate"))
    assert world.left_out(asking("p", **mounting("data"))) == (
        "0 of 2 nodes suit the pod: 2 while PersistentVolumeClaim default/data does not exist. "
        "To help: create claim default/data"
    )
    world.put(volume_claim("data", "now"))
    assert world.left_out(asking("p", **mounting("data"))) == (
        "0 of 2 nodes suit the pod: 2 while PersistentVolumeClaim default/data is not bound. "
        "To help: wait until StorageClass now, which binds immediately, provides a volume"
    )
    gone = volume_claim("data", volume="v")
    world.put({**gone, "metadata": {**gone["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert "is being deleted" in world.left_out(asking("p", **mounting("data")))
    world.put({**volume_claim("data", volume="v"), "status": {"phase": "Lost"}})
    assert "has lost its volume" in world.left_out(asking("p", **mounting("data")))
    world.put(volume_claim("data", volume="v"))
    assert "while PersistentVolume v of claim default/data does not exist" in world.left_out(
        asking("p", **mounting("data"))
    )
    world.put(volume("v", of="data"))
    assert world.left_out(asking("p", **mounting("data"))) == ""


def test_claims_of_ephemeral_volumes_come_from_the_pod():
    """In files nobody makes them; the default class is theirs."""
    default = {"name": "local", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    local = {**storage_class("local", NO_PROVISIONER), "metadata": default}
    world = PlacedPods(A, B, local, volume("v", "b", "local"))
    source = ephemeral("local")
    assert world.nodes_for(asking("p", **mounting(scratch=source))) == ["b"]
    del source["ephemeral"]["volumeClaimTemplate"]["spec"]["storageClassName"]
    assert world.nodes_for(asking("p", **mounting(scratch=source))) == ["b"]
    world.put(volume_claim("p-scratch", "local"))
    assert "belongs to no volume of the pod" in world.left_out(asking("p", **mounting(scratch=source)))


def test_claims_of_ephemeral_volumes_are_awaited_on_a_cluster():
    world = PlacedPods(A, B, storage_class(), wanted=[])
    for kind in STORAGE:
        world.nodes.on_demand.listed(kind)
    assert world.left_out(asking("p", **mounting(scratch=ephemeral()))) == (
        "0 of 2 nodes suit the pod: 2 while PersistentVolumeClaim default/p-scratch does not exist. "
        "To help: wait until the control plane creates claim default/p-scratch"
    )


def test_a_claim_for_one_pod():
    alone = volume_claim("data", volume="v", accessModes=["ReadWriteOncePod"])
    world = PlacedPods(A, B, volume("v", of="data"), alone)
    asked = asking("p", **mounting("data"))
    assert world.left_out(asked) == ""
    world.put(running("there", "a", "1", **mounting("data")))
    assert world.left_out(asked) == (
        "0 of 2 nodes suit the pod: 2 while another pod uses default/data, a claim for one pod. "
        "To help: wait until the other pod that uses default/data ends"
    )
    assert world.nodes_for(running("there", "", "1", **mounting("data"))) == ["a", "b"]  # not against itself


def test_room_for_new_volumes():
    """Only if the driver asks for it; the largest volume counts more than the room."""
    world = PlacedPods(A, B, storage_class(), volume_claim("data", size="3Gi"), capacity("on-a", "a", "2Gi"))
    world.put({**capacity("on-b", "b", "9Gi"), "maximumVolumeSize": "2Gi"})
    asked = asking("p", **mounting("data"))
    assert world.left_out(asked) == ""
    world.put(csi_driver(capacity=True))
    assert world.left_out(asked) == (
        "0 of 2 nodes suit the pod: 2 without room for the volume of default/data. "
        "To help: add storage of class wait"
    )
    world.put(capacity("on-a", "a", "3Gi"))
    assert world.nodes_for(asked) == ["a"]
    assert world.against(asked, "b") == ["without room for the volume of default/data"]


def test_limits_of_attached_volumes():
    world = PlacedPods(A, B, csi_node("a", 1), csi_node("b", 1), storage_class())
    for name in ("one", "two"):
        world.put(volume(name, of=name))
        world.put(volume_claim(name, volume=name))
    world.put(running("there", "a", "1", **mounting("one")))
    world.put(attachment("a", "one"))
    assert world.nodes_for(asking("p", **mounting("one"))) == ["a", "b"]
    assert world.nodes_for(asking("p", **mounting("two"))) == ["b"]
    assert world.nodes_for(asking("p", **mounting("one", "two"))) == []
    assert "with no more room for volumes of csi.example.com" in world.left_out(
        asking("p", **mounting("one", "two"))
    )


def test_without_volumes_only_what_pods_say_counts():
    """Disks that pods name themselves need no object."""
    disk: Any = {"gcePersistentDisk": {"pdName": "d"}}
    world = PlacedPods(A, B, wanted=[], volumes=False)
    world.put(running("there", "a", "1", **mounting(d=disk)))
    assert world.nodes_for(asking("p", **mounting("data", d=disk))) == ["b"]


def test_storage_is_listed_when_a_pod_needs_it():
    wanted: list[str] = []
    world = PlacedPods(A, B, wanted=wanted)
    assert world.left_out(asking("p", volumes=[{"name": "c", "configMap": {"name": "c"}}])) == ""
    assert wanted == []
    with pytest.raises(Unlisted) as caught:
        world.left_out(asking("p", **mounting("data")))
    assert caught.value.reason == NOT_LISTED
    first = ["PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "VolumeAttachment"]
    assert wanted == first
    for kind in first:
        world.nodes.on_demand.listed(kind)
    world.put(volume("v", of="data"))
    world.put(volume_claim("data", volume="v"))
    assert world.left_out(asking("p", **mounting("data"))) == ""
    world.put(volume_claim("new"))
    with pytest.raises(Unlisted):
        world.left_out(asking("p", **mounting("new")))
    assert wanted == [*first, "CSIDriver", "CSIStorageCapacity"]
    world.nodes.on_demand.failed("CSIStorageCapacity", "forbidden")
    with pytest.raises(
        Unlisted, match="CSIStorageCapacity objects, which cannot be listed: forbidden"
    ) as denied:
        world.left_out(asking("p", **mounting("new")))
    assert denied.value.reason == NOT_READABLE


def test_a_version_without_news_changes_nothing():
    """Heartbeats of storage objects wake nobody."""
    nodes = Nodes()
    assert nodes.note(Changed("CSINode", read(csi_node("a", 1))))
    assert not nodes.note(Changed("CSINode", read(csi_node("a", 1))))
    assert nodes.note(Changed("CSINode", read(csi_node("a", 2))))
