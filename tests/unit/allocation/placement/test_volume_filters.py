"""The filters of volumes: against a twin that goes node by node, and their words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
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
from tests.tools.examples import examples
from tests.tools.pod_scenarios import HOST, A, B, PlacedPods, as_pod
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


def test_a_driver_that_says_so_must_be_on_the_node():
    world = PlacedPods(A, B, csi_node("a", 9), storage_class(), volume("v", of="data"))
    world.put(volume_claim("data", volume="v"))
    asked = asking("p", **mounting("data"))
    assert world.nodes_for(asked) == ["a", "b"]
    driver = csi_driver(capacity=False)
    world.put({**driver, "spec": {**driver["spec"], "preventPodSchedulingIfMissing": True}})
    assert world.nodes_for(asked) == ["a"]
    found = world.against(asked, "b")
    assert found == ["without the CSI driver csi.example.com, which preventPodSchedulingIfMissing requires"]
    world.put(csi_node("b", 9))
    assert world.nodes_for(asked) == ["a", "b"]


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
    claims, drivers = ["PersistentVolumeClaim", "PersistentVolume", "StorageClass"], ["CSIDriver", "CSINode"]
    first = [*claims, *drivers, "VolumeAttachment"]
    assert wanted == first
    for kind in first:
        world.nodes.on_demand.listed(kind)
    world.put(volume("v", of="data"))
    world.put(volume_claim("data", volume="v"))
    assert world.left_out(asking("p", **mounting("data"))) == ""
    world.put(volume_claim("new"))
    with pytest.raises(Unlisted):
        world.left_out(asking("p", **mounting("new")))
    assert wanted == [*first, "CSIStorageCapacity"]
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


# -- Pods that share a claim, and how many volumes nodes can attach: against trying every node for each.


NAMES = [f"v{n}" for n in range(4)]
VOLUMES = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)


def works(
    limits: dict[str, int], there: dict[str, list[str]], pods: Sequence[Sequence[str]], nodes: Sequence[str]
) -> bool:
    """Whether the pods can come to these nodes one after another."""
    attached = {node: set(there[node]) for node in limits}
    for volumes, node in zip(pods, nodes, strict=True):
        new = set(volumes) - attached[node]
        if new and len(attached[node] | new) > limits[node]:
            return False
        attached[node] |= new
    return True


@examples(150)
@given(
    st.fixed_dictionaries({"a": st.integers(1, 3), "b": st.integers(1, 3)}),
    st.fixed_dictionaries({"a": VOLUMES, "b": VOLUMES}),
    st.lists(VOLUMES, min_size=2, max_size=3),
)
def test_a_volume_that_several_pods_use_is_attached_to_a_node_once(
    limits: dict[str, int], there: dict[str, list[str]], pods: list[list[str]]
):
    world = PlacedPods(A, B, *(csi_node(name, limit) for name, limit in limits.items()))
    for name in NAMES:
        world.put(volume(name, of=name))
        world.put(volume_claim(name, volume=name))
    for node, volumes in there.items():
        world.put(running(f"at-{node}", node, "1", **mounting(*volumes)))
    alone = [any(works(limits, there, [volumes], [node]) for node in "ab") for volumes in pods]
    if not all(alone):
        return  # such a pod makes all others wait
    asked = [(as_pod(asking(f"p{n}", **mounting(*volumes))), (), ()) for n, volumes in enumerate(pods)]
    together = world.placement.together(asked, world.store.snapshot())
    assert together is not None
    expected = any(works(limits, there, pods, nodes) for nodes in product("ab", repeat=len(pods)))
    assert (together.places(()) is not None) == expected
    one_node = together.on_one_node().tolist()
    for at, node in enumerate("ab"):
        assert one_node[at] or not works(limits, there, pods, [node] * len(pods))


# -- Pods that share a claim and compete for volumes: against trying every node and every volume.


EVERYWHERE = ""
LOCAL = storage_class("local", NO_PROVISIONER)
MADE_AT_B = storage_class(
    "wait", allowedTopologies=[{"matchLabelExpressions": [{"key": HOST, "values": ["b"]}]}]
)


@dataclass(frozen=True)
class Case:
    """Volumes and claims by name, and the claims of each pod."""

    volumes: Mapping[str, tuple[str, str, int]]
    """Class, node or everywhere, size"""
    claims: Mapping[str, tuple[str, int]]
    """Class and size"""
    pods: Sequence[tuple[str, ...]]

    def fits(self) -> bool:
        """What placement says."""
        world = PlacedPods(A, B, LOCAL, MADE_AT_B)
        for name, (class_, node, size) in self.volumes.items():
            made = volume(name, node, class_)
            made["spec"]["capacity"] = {"storage": f"{size}Gi"}
            world.put(made)
        for name, (class_, size) in self.claims.items():
            world.put(volume_claim(name, class_, f"{size}Gi"))
        pods = [as_pod(asking(f"p{n}", **mounting(*names))) for n, names in enumerate(self.pods)]
        together = world.placement.together([(pod, (), ()) for pod in pods], world.store.snapshot())
        assert together is not None
        fits = together.places(()) is not None
        assert fits or not together.gave_up
        one_node = together.on_one_node().tolist()
        assert all(one_node[n] or not self.works([node] * len(pods)) for n, node in enumerate("ab"))
        return fits

    def works(self, nodes: Sequence[str]) -> bool:
        """Whether every claim can have a volume if the pods are on these nodes."""
        users = Counter(name for names in self.pods for name in names)
        at = {
            name: {node for names, node in zip(self.pods, nodes, strict=True) if name in names}
            for name in users
        }
        return any(
            all(self._suits(name, chosen, at[name]) for name, chosen in zip(at, volumes, strict=True))
            and all(times == 1 for chosen, times in Counter(volumes).items() if chosen is not None)
            for volumes in product([*self.volumes, None], repeat=len(at))
        )

    def _suits(self, claim: str, chosen: str | None, nodes: set[str]) -> bool:
        class_, size = self.claims[claim]
        if chosen is None:
            return class_ == "wait" and nodes == {"b"}
        of, node, capacity = self.volumes[chosen]
        return of == class_ and capacity >= size and (node == EVERYWHERE or nodes == {node})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    classes, sizes = st.sampled_from(["local", "local", "wait"]), st.integers(1, 3)
    node = st.sampled_from(["a", "b", "b", EVERYWHERE])
    volumes = draw(st.lists(st.tuples(classes, node, sizes), max_size=4))
    claims = draw(st.lists(st.tuples(classes, sizes), min_size=2, max_size=4))
    names = st.sampled_from([f"c{n}" for n in range(len(claims))])
    pods = draw(st.lists(st.lists(names, min_size=1, max_size=2, unique=True), min_size=2, max_size=3))
    return Case(
        {f"v{n}": one for n, one in enumerate(volumes)},
        {f"c{n}": one for n, one in enumerate(claims)},
        [tuple(names) for names in pods],
    )


@examples(150)
@given(cases())
def test_pods_fit_together_if_some_nodes_and_volumes_serve_all(case: Case):
    somewhere = [
        Case(case.volumes, case.claims, (names,)).works([node]) for names in case.pods for node in "ab"
    ]
    alone = [any(somewhere[2 * n : 2 * n + 2]) for n in range(len(case.pods))]
    if not all(alone):
        return  # such a pod does not count, or nothing is asked
    expected = any(case.works(nodes) for nodes in product("ab", repeat=len(case.pods)))
    assert case.fits() == expected


def together(world: PlacedPods, *pods: Any) -> Any:
    asked = [(as_pod(one), (), ()) for one in pods]
    found = world.placement.together(asked, world.store.snapshot())
    assert found is not None
    return found


def test_volumes_that_other_pods_will_get_are_gone():
    """Two volumes at b; a pod that has devices there, and is not bound yet, gets one of them."""
    claims = [volume_claim(name, "local") for name in "xyz"]
    world = PlacedPods(A, B, LOCAL, volume("v", "b", "local"), volume("w", "b", "local"), *claims)
    p, q = asking("p", **mounting("x")), asking("q", **mounting("y"))
    assert together(world, p, q).places(()) is not None
    decided = as_pod(asking("r", **mounting("z")))
    world.nodes.host(decided.key, decided, "b")
    assert together(world, p, q).places(()) is None


def test_a_volume_that_is_kept_for_a_claim_is_not_competed_for():
    kept = volume("w", "b", "local", of="y")
    kept["status"]["phase"] = "Available"
    claims = [volume_claim(name, "local") for name in "xy"]
    world = PlacedPods(A, B, LOCAL, volume("v", "b", "local"), kept, *claims)
    p, q = asking("p", **mounting("x")), asking("q", **mounting("y"))
    assert together(world, p, q).places(()) is not None


def test_claims_whose_selector_is_invalid_keep_their_pod_from_all_nodes():
    bad = volume_claim("x", "local", selector={"matchExpressions": [{"key": "k", "operator": "Like"}]})
    world = PlacedPods(A, B, LOCAL, volume("v", "b", "local"), bad, volume_claim("y", "local"))
    p, q = asking("p", **mounting("x")), asking("q", **mounting("y"))
    assert together(world, p, q).places(()) is None
