"""Drains: each step is replayed, and what cannot go is tried on a state without it."""

from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.analysis.relocation.drain import (
    DrainAnswer,
    drain,
    of_driver_version,
    of_pool,
    of_taint,
    without_devices,
    without_nodes,
)
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import WantedPod, World, world_of
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from reconciler.cli.drain import print_drain
from reconciler.errors import Rejected
from tests.tools.builders import Object, gpu_slice, version
from tests.tools.examples import examples
from tests.tools.gangs import pod_group
from tests.tools.room_worlds import room_world
from tests.tools.small_fleet import DRIVER, budget, claim, device_class, devices, held, node, pod

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


@given(st.integers(0, 2**32))
@examples(6)
def test_every_step_fits_and_the_node_is_empty_afterwards(seed: int):
    drawn = room_world(seed)
    world = drawn.world()
    answer = drain(world, without_nodes(frozenset(["n0"]), world))
    moved = {place.pod: place for step in answer.steps for place in step.move.places}
    kept = [one for one in drawn.objects if not isinstance(one, ResourceClaim) or one.allocation is None]
    gone = {claim for step in answer.steps if step.move.places for claim in step.move.unit.claims}
    kept += [one for one in drawn.objects if isinstance(one, ResourceClaim) and one.key not in gone]
    after = world_of(kept, Semantics())
    held_now = {device for one in kept if isinstance(one, ResourceClaim) for device in _devices(one)}
    for place in moved.values():
        assert place.node != "n0"
        for plan in place.plans:
            for result in plan.allocation.devices.results:
                assert result.share_id or result.id not in held_now
                held_now.add(result.id)
            after.store.assume(plan)
    assert (after.store.snapshot().occupancy.left >= 0).all()
    occupants = Occupants(world)
    on_node = {key for key, one in occupants.pods.items() if one.node == "n0"}
    stuck = {key for step in answer.stuck for key in step.move.unit.pods}
    assert on_node == (moved.keys() & on_node) | (stuck & on_node) | set(answer.ignored)


def _devices(one: ResourceClaim) -> list[object]:
    return [] if one.allocation is None else [result.id for result in one.allocation.devices.results]


def running(name: str, device: str, on: str, **metadata: Any) -> list[Object]:
    """A pod with a device of its node."""
    made, one = claim(name), pod(name, name, gates=(), nodeName=on)
    made["metadata"]["uid"] = f"claim-{name}"
    reserved = [{"resource": "pods", "name": name, "uid": name}]
    one["metadata"] |= {"uid": name, "ownerReferences": [OWNER], **metadata}
    return [{**made, "status": {**held(DRIVER, on, device, on=on), "reservedFor": reserved}}, one]


def fleet(*objects: Object, spare: int = 1) -> World:
    """Nodes `a`, with a driver of version 1.0.0, and `b`, with so many devices."""
    old = gpu_slice("a", 2, driver=DRIVER)
    for device in old["spec"]["devices"]:
        device["attributes"]["driverVersion"] = version("1.0.0")
    return world_of(
        map(
            read, [node("a"), node("b"), device_class(), old, gpu_slice("b", spare, driver=DRIVER), *objects]
        ),
        Semantics(),
    )


def names(answer: DrainAnswer) -> list[str]:
    return [key.name for step in answer.steps if not step.move.refusal for key in step.move.unit.pods]


def test_the_most_important_pod_gets_the_last_place():
    high = running("high", "gpu-1", "a")
    high[1]["spec"]["priority"] = 7
    world = fleet(*running("low", "gpu-0", "a"), *high)
    answer = drain(world, without_nodes(frozenset("a"), world))
    assert names(answer) == ["high"]
    (stuck,) = answer.stuck
    assert not stuck.alone
    assert not answer.empties
    assert not answer.proved
    assert answer.as_json()["stuck"][0]["evenAlone"] is False


def test_a_search_that_gave_up_proves_nothing(monkeypatch: pytest.MonkeyPatch):
    world = fleet(*running("one", "gpu-0", "a"))
    whole = WantedPod.place
    monkeypatch.setattr(WantedPod, "place", lambda *asked: whole(*asked, steps=0))
    answer = drain(world, without_nodes(frozenset("a"), world))
    (stuck,) = answer.stuck
    assert stuck.move.refusal is not None
    assert stuck.move.refusal.reason == Reason.GAVE_UP
    assert not answer.proved
    assert answer.as_json()["stuck"][0]["evenAlone"] is False
    print_drain(answer, said := StringIO())
    verdict = said.getvalue().splitlines()[0]
    assert verdict == "no way found to empty it, a search gave up: 1 of 1; another order might help"


def test_a_search_that_gave_up_changes_nothing_if_something_else_is_certain(monkeypatch: pytest.MonkeyPatch):
    world = fleet(*running("one", "gpu-0", "a"), *running("lonely", "gpu-1", "a", ownerReferences=[]))
    whole = WantedPod.place
    monkeypatch.setattr(WantedPod, "place", lambda *asked: whole(*asked, steps=0))
    answer = drain(world, without_nodes(frozenset("a"), world))
    assert sorted(step.alone for step in answer.stuck) == [False, True]
    assert not answer.gave_up


def by_taint(world: World) -> Any:
    return of_taint("broken", world)


@pytest.mark.parametrize(
    "matches",
    [
        pytest.param(lambda _: of_pool("a"), id="pool"),
        pytest.param(lambda _: of_pool(f"{DRIVER}/a"), id="pool of a driver"),
        pytest.param(lambda _: of_driver_version("1.0.0"), id="driver version"),
        pytest.param(by_taint, id="taint"),
    ],
)
def test_devices_are_drained_where_the_node_stays(matches: Any):
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"pool": "a"}, "taint": {"key": "broken", "effect": "NoSchedule"}},
    }
    world = fleet(*running("one", "gpu-0", "a"), *running("other", "gpu-0", "b"), rule, spare=2)
    answer = drain(world, without_devices(matches(world), world))
    (step,) = answer.steps
    assert [place.node for place in step.move.places] == ["b"]
    assert answer.empties


def test_a_group_that_leaves_whole_has_to_find_places_for_all_of_it():
    """One pod alone would be enough to run, but nobody may lose a place."""
    group = pod_group("g", 1)
    group["spec"]["disruptionMode"] = {"all": {}}
    objects = [device_class(), group]
    for at in range(2):
        one = claim(f"c{at}")
        one["status"] = held(DRIVER, f"n{at}", "gpu-0", on=f"n{at}")
        member = pod(f"p{at}", f"c{at}", gates=(), nodeName=f"n{at}", schedulingGroup={"podGroupName": "g"})
        member["metadata"]["ownerReferences"] = [OWNER]
        objects += [node(f"n{at}"), devices(f"n{at}", "gpu-0"), one, member]
    world = world_of([*filter(None, map(read, objects))], Semantics())
    (step,) = drain(world, without_nodes(frozenset(["n0"]), world)).stuck
    assert step.move.refusal is not None
    assert step.move.refusal.message.startswith("1 of 2 pods fit together at most; 2 are needed")
    assert step.move.refusal.message.endswith("All 2 pods of the gang have to move; it needs 1 to run")


def test_what_belongs_to_the_node_stays_and_claims_without_pods_are_named():
    daemon = running("daemon", "gpu-0", "a", ownerReferences=[{**OWNER, "kind": "DaemonSet"}])
    lonely = running("lonely", "gpu-1", "a")[0]
    world = fleet(*daemon, lonely)
    answer = drain(world, without_nodes(frozenset("a"), world))
    assert [key.name for key in answer.ignored] == ["daemon"]
    assert not answer.steps
    assert [key.name for key in answer.unused] == ["lonely"]
    world = fleet(*daemon, lonely)
    answer = drain(world, without_devices(of_pool("a"), world))
    assert [key.name for key in answer.unused] == ["lonely"]
    assert [step.move.refusal.reason for step in answer.stuck if step.move.refusal] == ["NotReplaced"]


def test_a_budget_without_an_eviction_is_named():
    world = fleet(*running("one", "gpu-0", "a"), budget("keep"))
    answer = drain(world, without_nodes(frozenset("a"), world))
    assert [str(key) for key in answer.steps[0].waits_for] == ["default/keep"]
    assert answer.empties


def test_a_node_that_does_not_exist_is_named():
    with pytest.raises(Rejected, match="there is no node c"):
        without_nodes(frozenset("c"), fleet())
