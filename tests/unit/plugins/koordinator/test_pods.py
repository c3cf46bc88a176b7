"""News of pods and machines: what counts, what is old, and what an assumption outlasts."""

from typing import Any

import pytest

from reconciler.api.objects.changes import Changed, Refused, Removed, Replaced
from reconciler.api.objects.core import Node, Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.allocating import AllocationUnreadable
from reconciler.control.decisions.declaration import Decision
from reconciler.plugins.koordinator import vocabulary
from reconciler.plugins.koordinator.demand import Demand
from reconciler.plugins.koordinator.fleet import Fleet, Placed
from reconciler.plugins.koordinator.holdings import Holder
from reconciler.plugins.koordinator.pods import DeviceIntake, Grant, KoordinatorState
from reconciler.plugins.koordinator.vocabulary import Rules
from tests.tools.koordinator_builders import device, gpu, nic
from tests.tools.koordinator_cluster import wants
from tests.tools.unit_pictures import intake

KEY = ObjectKey("default", "p")
GPU = {"nvidia.com/gpu": 1}


def picture() -> tuple[KoordinatorState, list[Decision]]:
    """One machine with one GPU."""
    told: list[Decision] = []
    found = KoordinatorState(Fleet(Rules()), told.append)
    found.apply(Changed("Device", device(gpu(0), name="n")))
    return found, told


def pod(version: int, *, uid: str = "u", held: bool = False, **fields: Any) -> Pod:
    raw = wants("p", GPU, gates=() if held else ("dra-reconciler.io/allocation",), **fields)
    raw["metadata"] |= {"resourceVersion": str(version), "uid": uid}
    if held:
        text = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}]}'
        raw["metadata"]["annotations"] = {vocabulary.ALLOCATED: text}
        raw["spec"]["nodeName"] = "n"
    return Pod.model_validate(raw)


def free(found: KoordinatorState) -> bool:
    asked = found.demand(KEY)
    if not isinstance(asked, Demand):
        probe = KoordinatorState(found.fleet, lambda _: None)
        probe.apply(Changed("Pod", pod(1)))
        asked = probe.demand(KEY)
    assert isinstance(asked, Demand)
    return isinstance(found.fleet.first(asked, lambda _: True), Placed)


def assumed(found: KoordinatorState) -> Grant:
    asked, wanting = found.demand(KEY), found.pod(KEY)
    assert isinstance(asked, Demand)
    assert wanting is not None
    placed = found.fleet.first(asked, lambda _: True)
    assert isinstance(placed, Placed)
    grant = Grant(wanting, asked, Holder("n", placed.allocation, {}), "text")
    found.assume(grant)
    return grant


def test_an_older_version_of_a_pod_is_no_news():
    """The answer to a write may come before the watch tells of what was there before it."""
    found, _ = picture()
    found.apply(Changed("Pod", pod(2)))
    found.apply(Changed("Pod", pod(5, held=True)))
    assert not free(found)
    found.apply(Changed("Pod", pod(3)))
    assert not free(found)
    assert found.demand(KEY) is None


async def test_an_answer_about_a_pod_that_went_is_not_believed():
    found, _ = picture()
    whole = intake()
    DeviceIntake(found, whole)
    whole.take(Changed("Pod", pod(2)))
    whole.take(Removed("Pod", KEY))
    whole.observe_pod(pod(5, held=True))
    assert free(found)
    whole.take(Changed("Pod", pod(6, uid="another")))
    whole.observe_pod(pod(5, held=True))
    assert free(found)


def test_an_assumption_outlasts_news_without_the_annotation_and_ends_with_the_pod():
    found, _ = picture()
    found.apply(Changed("Pod", pod(2)))
    assumed(found)
    found.apply(Changed("Pod", pod(3)))
    assert not free(found)
    found.apply(Changed("Pod", pod(4, uid="another")))
    assert found.assumed(KEY) is None
    assert free(found)


def test_a_grant_that_was_overtaken_cannot_be_taken_back():
    found, _ = picture()
    found.apply(Changed("Pod", pod(2)))
    grant = assumed(found)
    found.apply(Changed("Pod", pod(3, held=True)))
    found.forget(grant)
    assert not free(found)


def test_a_listing_frees_what_is_not_in_it():
    found, _ = picture()
    found.apply(Changed("Pod", pod(2, held=True)))
    found.apply(Replaced("Pod", (), ()))
    assert free(found)


def test_a_server_that_was_set_back_is_believed():
    found, _ = picture()
    found.apply(Changed("Pod", pod(9)))
    assumed(found)
    found.apply(Replaced("Pod", (pod(3),), (), afresh=True))
    assert found.assumed(KEY) is None
    assert free(found)


def test_what_a_pod_holds_stays_held_when_it_cannot_be_read():
    found, _ = picture()
    found.apply(Changed("Pod", pod(2, held=True)))
    found.apply(Refused("Pod", KEY, "odd"))
    found.apply(Replaced("Pod", (), (Refused("Pod", KEY, "odd"),)))
    assert not free(found)
    found.apply(Changed("Pod", unreadable(3)))
    assert not free(found)


def unreadable(version: int, **fields: Any) -> Pod:
    made = pod(version, held=True, **fields)
    metadata = made.metadata.model_copy(update={"annotations": {vocabulary.ALLOCATED: "{"}})
    return made.model_copy(update={"metadata": metadata})


@pytest.mark.parametrize("late", [False, True], ids=["the device is known", "the device comes later"])
def test_a_pod_that_was_never_readable_holds_all_devices_of_its_types(late: bool):
    """Until its annotation can be read, or it is gone. An Event says so, once."""
    found, told = picture()
    both = device(gpu(0), gpu(1), nic(0), name="n")
    for change in [unreadable(2), both] if late else [both, unreadable(2)]:
        found.apply(Changed(type(change).__name__, change))
    holders = found.fleet.holders("n")
    assert sorted(holders.held("gpu")) == [0, 1]
    assert not holders.held("rdma")
    found.apply(Changed("Pod", unreadable(3)))
    heard = [one for one in told if isinstance(one, AllocationUnreadable)]
    assert [(one.pod, one.node) for one in heard] == [(KEY, "n")]
    assert "not JSON at line 1" in heard[0].message
    assert not free(found)
    found.apply(Changed("Pod", pod(4, held=True)))
    assert found.fleet.holders("n").held("gpu") == {0}
    assert free(found)
    found.apply(Changed("Pod", unreadable(5, uid="v")))
    assert not free(found)
    found.apply(Removed("Pod", KEY))
    assert free(found)


def test_only_what_may_help_counts_as_room():
    found, _ = picture()
    before = found.room
    found.apply(Changed("Pod", pod(2, held=True)))
    found.apply(Changed("Device", device(gpu(0), name="n")))
    assert found.room == before
    found.apply(Changed("Pod", pod(3, held=True, nodeSelector={"a": "b"})))
    assert found.room == before
    found.apply(Changed("Node", Node.model_validate({"metadata": {"name": "n", "labels": {"a": "b"}}})))
    assert found.room > before


def test_labels_of_a_node_reach_its_machine():
    """The model decides which GPUs may be given together, and may be known before or after the devices."""
    labels = {"node.koordinator.sh/gpu-model": "H100"}
    found, _ = picture()
    found.apply(Changed("Node", Node.model_validate({"metadata": {"name": "n", "labels": labels}})))
    assert found.fleet.machines["n"].partitions is not None
    found.apply(Removed("Node", ObjectKey("", "n")))
    assert found.fleet.machines["n"].partitions is None
