"""Plans that this controller may carry out: no pod of others, no gang below its minimum, no budget."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.api.objects.claims import ALLOCATED_AT
from reconciler.api.objects.core import Pod, PodDisruptionBudget
from reconciler.api.objects.gangs import GANG, SIZE
from reconciler.api.versions.reading import read
from reconciler.app.moving import RoomPlanner
from reconciler.control.handler import Decide
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.relocation.relocator import RoomPlan, RoomQuestion
from reconciler.ha.shard import Shard
from reconciler.state.nominations import own_of
from reconciler.state.trial import Forked
from tests.tools.small_fleet import DRIVER, budget, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import intake, key, pod_unit, step

OURS = Ownership(drivers=frozenset({DRIVER}))


def user(
    name: str, device: str, metadata: dict[str, Any] | None = None, *, ours: bool = True
) -> list[dict[str, Any]]:
    """A running pod of priority 0 with a device of node `a`."""
    one, status = claim(name), held(DRIVER, "a", device, on="a")
    status["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid of {name}"}]
    if ours:
        stamp = status["allocation"]["allocationTimestamp"]
        one["metadata"]["annotations"] = {ALLOCATED_AT: f"{stamp} x"}
    made = pod(name, name, gates=(), nodeName="a")
    made["metadata"] |= metadata or {}
    return [{**one, "status": status}, {**made, "status": {"phase": "Running"}}]


def fleet(*objects: dict[str, Any], count: int = 1) -> Intake:
    """Node `a` with two devices, and a pod that wants some."""
    wanting = pod("p", "wanted", priority=10)
    return intake(
        device_class(), node("a"), devices("a", "d0", "d1"), claim("wanted", count), wanting, *objects
    )


def plan(
    found: Intake, *budgets: PodDisruptionBudget, spared: frozenset[str] = frozenset(), ours: Ownership = OURS
) -> RoomPlan:
    need = step(found, pod_unit("p"))
    assert isinstance(need, Decide)
    wanting = found.store.pods[key("p")]

    def is_spared(one: Pod) -> bool:
        return one.key.name in spared

    fork = Forked.fork_of(found.store)
    question = RoomQuestion(
        fork, found.nodes.fork(), found.groups.fork(), budgets, is_spared, own_of(wanting),
        need=need, sharing=(),
    )  # fmt: skip
    return RoomPlanner(ours, 2).plan(question, lambda: True)


def victims(found: RoomPlan) -> list[str]:
    return [one.key.name for one in found.victims]


async def test_a_plan_names_victims_what_they_free_and_where_the_pod_fits_then():
    found = plan(fleet(*user("x", "d0"), *user("y", "d1")))
    assert found.acts
    (victim,) = found.victims
    assert victim.uid == f"uid of {victim.key.name}"
    assert victim.frees == ((victim.key, f"uid of {victim.key.name}"),)
    (place,) = found.places
    assert place.node == "a"
    assert len(place.devices) == 1
    assert dict(place.room)["pods"] == 1


async def test_only_pods_whose_devices_we_allocated_leave():
    assert victims(plan(fleet(*user("x", "d0", ours=False), *user("y", "d1")))) == ["y"]
    assert plan(fleet(*user("x", "d0", ours=False), *user("y", "d1", ours=False))).refused


async def test_pods_with_devices_of_another_shard_stay():
    """They are marked as ours, too, and another process serves them."""
    found = fleet(*user("x", "d0"), *user("y", "d1"))
    assert plan(found, ours=replace(OURS, shard=Shard(prefixes=frozenset({"b"})))).refused
    assert plan(found, ours=replace(OURS, shard=Shard(prefixes=frozenset({"a"})))).acts


async def test_pods_that_have_just_started_are_left_alone():
    found = fleet(*user("x", "d0"), *user("y", "d1"))
    assert victims(plan(found, spared=frozenset({"x"}))) == ["y"]
    assert plan(found, spared=frozenset({"x", "y"})).refused


async def test_a_gang_keeps_its_minimum_and_leaves_whole_only_as_advice():
    notes = {"annotations": {GANG: "g", SIZE: "2"}}
    gang = [*user("x", "d0", notes), *user("y", "d1", notes)]
    found = plan(fleet(*gang))
    assert not found.acts
    assert found.advice == "gang default/g would have to leave as a whole"
    assert victims(found) == ["x", "y"]
    spare = {"annotations": {GANG: "g", SIZE: "1"}}
    assert plan(fleet(*user("x", "d0", spare), *user("y", "d1", spare))).acts


def allowing(name: str, evictions: int) -> PodDisruptionBudget:
    found = read(budget(name, evictions))
    assert isinstance(found, PodDisruptionBudget)
    return found


@pytest.mark.parametrize(("allowed", "acts"), [(0, False), (1, True)])
async def test_a_budget_makes_a_plan_advice(allowed: int, acts: bool):
    found = plan(fleet(*user("x", "d0"), *user("y", "d1")), allowing("b", allowed))
    assert found.victims
    assert found.acts is acts
    assert ("default/b allows no further eviction" in found.advice) is not acts


async def test_a_pod_that_several_budgets_cover_stays():
    """The server refuses such an eviction."""
    both = [allowing(name, 9) for name in "ab"]
    assert plan(fleet(*user("x", "d0"), *user("y", "d1")), *both).refused


async def test_pods_that_are_being_deleted_make_room_without_any_victim():
    leaving = user("x", "d0", {"deletionTimestamp": "2026-01-01T00:00:00Z"})
    found = plan(fleet(*leaving, *user("y", "d1")))
    assert found.acts
    assert found.awaits
    assert found.victims == ()
    assert found.places
