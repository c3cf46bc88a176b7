"""Room that is held: who waits for it, who may use it, and when it is not held any more."""

from typing import Any

from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Decider
from reconciler.control.decisions.allocating import Deleted
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Nominated, NominationDropped, NominationExpired, NominationUsed
from reconciler.control.handler import Decide
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.waiting import Wants
from reconciler.state.nominations import (
    NOBODY,
    HeldPlace,
    Nomination,
    Nominee,
    of_claim,
    of_pod,
    of_replacement,
)
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import claim_unit, intake, key, pod_unit, put, remove, step, taken

DEADLINE = "2026-01-01T12:00:00Z"


def hold(picture: Intake, nominee: Nominee, *, uid: str = "", room: int = 0, of: str = "cpu") -> None:
    """Device `d0` of node `a`, until 10 seconds."""
    place = HeldPlace("a", (DeviceID(DRIVER, "a", "d0"),), ((of, room),) if room else ())
    picture.nominating.hold(Nomination(nominee, (place,), 0, 10.0, DEADLINE, uid), "a test")


def fleet(*objects: dict[str, Any]) -> tuple[Intake, list[Decision]]:
    said: list[Decision] = []
    made = intake(device_class(), node("a"), devices("a", "d0", "d1"), *objects, report=said.append)
    return made, said


async def drain(picture: Intake) -> None:
    """Forget the units that are due."""
    while picture.queue.due:
        async with picture.queue.take():
            pass


def ends(said: list[Decision]) -> list[type[Decision]]:
    return [type(one) for one in said if not isinstance(one, Nominated | Deleted)]


async def test_units_that_wait_for_devices_wake_when_the_room_expires():
    picture, said = fleet(claim("x"), claim("y"))
    hold(picture, of_claim(key("x")))
    await drain(picture)
    picture.put(claim_unit("y"), after=600.0)
    picture.waiting.add(claim_unit("y"), Wants(frozenset(), room=True))
    picture.nominating.expire(9.9)
    assert not picture.queue.due
    picture.nominating.expire(10.0)
    assert await taken(picture) == [claim_unit("y")]
    assert ends(said) == [NominationExpired]
    assert not picture.store.nominations


async def test_units_that_wait_for_cpu_wake_when_the_room_is_given_up():
    picture, said = fleet(pod("p"))
    hold(picture, of_claim(key("x")), room=1000)
    await drain(picture)
    picture.put(pod_unit("p"), after=600.0)
    picture.waiting.add(pod_unit("p"), Wants(frozenset(), room=False, crowded=True))
    picture.nominating.drop(of_claim(key("x")), "the plan changed")
    assert await taken(picture) == [pod_unit("p")]
    assert ends(said) == [NominationDropped]


async def test_it_ends_when_the_claim_has_its_devices():
    picture, said = fleet(claim("x"))
    hold(picture, of_claim(key("x")))
    put(picture, {**claim("x"), "status": held(DRIVER, "a", "d1", on="a")})
    assert ends(said) == [NominationUsed]


async def test_it_ends_when_the_last_claim_of_the_pod_has_its_devices():
    picture, said = fleet(claim("x"), claim("y"), pod("p", "x", "y"))
    hold(picture, of_pod(key("p")))
    put(picture, {**claim("x"), "status": held(DRIVER, "a", "d0", on="a")})
    assert ends(said) == []
    put(picture, {**claim("y"), "status": held(DRIVER, "a", "d1", on="a")})
    assert ends(said) == [NominationUsed]


async def test_it_ends_when_the_nominee_is_gone_or_another_object_of_its_name():
    for change in (
        lambda picture: remove(picture, "ResourceClaim", "x"),
        lambda picture: put(picture, {**claim("x"), "metadata": {**claim("x")["metadata"], "uid": "later"}}),
    ):
        first = claim("x")
        first["metadata"]["uid"] = "first"
        picture, said = fleet(first)
        hold(picture, of_claim(key("x")), uid="first")
        change(picture)
        assert ends(said) == [NominationDropped]


async def test_only_the_nominee_and_its_pod_see_the_devices_as_free():
    picture, _ = fleet(claim("x"), claim("y"), pod("p", "x"))
    hold(picture, of_claim(key("x")))
    mine, theirs = step(picture, pod_unit("p")), step(picture, claim_unit("y"))
    assert isinstance(mine, Decide)
    assert isinstance(theirs, Decide)
    assert free(picture, mine.own) == 2
    assert free(picture, theirs.own) == 1


def free(picture: Intake, own: frozenset[Nominee]) -> int:
    return int(picture.store.snapshot_for(own).occupancy.free.sum())


async def test_room_of_the_node_is_held_for_the_pod_alone():
    """A node with two CPUs, of which one is held. Others hold memory, and devices only."""
    big = node("a")
    big["status"] = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"}}
    asks: dict[str, Any] = {
        "containers": [{"name": "m", "image": "i", "resources": {"requests": {"cpu": "2"}}}]
    }
    picture, _ = fleet(big, pod("p", **asks), pod("q", **asks))
    hold(picture, of_claim(key("devices")))
    hold(picture, of_claim(key("memory")), room=1000, of="memory")
    hold(picture, of_pod(key("p")), room=1000)
    choices = {
        name: picture.placement.for_pod(picture.store.pods[key(name)], (), picture.store.snapshot())
        for name in "pq"
    }
    assert choices["p"].nodes is None
    assert choices["q"].nodes is not None
    assert not choices["q"].nodes.mask.any()
    assert choices["q"].crowded
    said = picture.placement.left_out(picture.store.pods[key("q")], (), picture.store.snapshot())
    assert said.endswith("1 Insufficient cpu (1 by room held for pod default/p until 12:00:00Z)")


async def test_held_room_is_not_blamed_for_what_is_short_without_it():
    small, large = node("a"), node("b")
    small["status"] = {"allocatable": {"cpu": "1", "pods": "10"}}
    large["status"] = {"allocatable": {"cpu": "2", "pods": "10"}}
    asks: dict[str, Any] = {
        "containers": [{"name": "m", "image": "i", "resources": {"requests": {"cpu": "2"}}}]
    }
    picture, _ = fleet(small, large, pod("q", **asks))
    hold(picture, of_claim(key("x")), room=1000)
    said = picture.placement.left_out(picture.store.pods[key("q")], (), picture.store.snapshot())
    assert said == "1 of 2 nodes suit the pod: 1 Insufficient cpu"


async def test_it_can_be_extended_without_being_reported_again():
    picture, said = fleet(claim("x"))
    hold(picture, of_claim(key("x")))
    hold(picture, of_claim(key("x")))
    assert [type(one) for one in said] == [Nominated]
    assert len(picture.store.nominations) == 1


async def test_a_later_nomination_of_the_same_name_replaces_the_room():
    picture, _ = fleet(claim("x"))
    hold(picture, of_claim(key("x")), room=500)
    hold(picture, of_claim(key("x")), room=700)
    assert picture.nodes.room.left("a", "cpu") == 0
    assert picture.store.snapshot_for(NOBODY).occupancy.held.sum() == 1
    assert [one.nominee.key for one in picture.store.nominations] == [ObjectKey("default", "x")]


WEB = of_replacement("default", OwnerReference(kind="ReplicaSet", name="web", uid="w"))


def of_web(made: dict[str, Any], uid: str) -> dict[str, Any]:
    """A pod of the ReplicaSet `web`."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": True}
    made["metadata"] |= {"ownerReferences": [owner], "uid": uid}
    return made


def made_for(uid: str, name: str, device: str | None) -> dict[str, Any]:
    """A claim from a template of the pod with this uid, with a device or without."""
    made = claim(name, managed=False)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made if device is None else {**made, "status": held(DRIVER, "a", device, on="a")}


async def test_what_replaces_a_pod_gets_the_place_that_is_held_for_it():
    """First fit would give it `d0`, which the other pod has just left."""
    picture, _ = fleet(of_web(pod("new", "x"), "2"), pod("other", "y"), claim("x"), claim("y"))
    place = HeldPlace("a", (DeviceID(DRIVER, "a", "d1"),))
    picture.nominating.hold(Nomination(WEB, (place,), 0, 10.0, DEADLINE, "1"), "a test")
    decider = Decider(Ownership(alone=True), steps=100)
    got = []
    for name in ("other", "new"):
        question = step(picture, pod_unit(name))
        assert isinstance(question, Decide)
        answer = decider.answer(question, picture.store.snapshot_for(question.own))
        assert isinstance(answer, Granted)
        got += [result.device for result in answer.plans[0].allocation.devices.results]
    assert got == ["d0", "d1"]


async def test_what_replaces_a_pod_gets_other_devices_if_it_cannot_have_those():
    picture, _ = fleet(of_web(pod("new", "x"), "2"), claim("x"))
    place = HeldPlace("a", (DeviceID(DRIVER, "a", "gone"),))
    picture.nominating.hold(Nomination(WEB, (place,), 0, 10.0, DEADLINE, "1"), "a test")
    question = step(picture, pod_unit("new"))
    assert isinstance(question, Decide)
    answer = Decider(Ownership(alone=True), steps=100).answer(question, picture.store.snapshot())
    assert isinstance(answer, Granted)
    assert [result.device for result in answer.plans[0].allocation.devices.results] == ["d0"]


async def test_a_replacement_has_its_place_when_its_own_claim_holds_it():
    """Not while the pod that is evicted still holds the device."""
    picture, said = fleet(of_web(pod("old"), "1"))
    hold(picture, WEB, uid="1")
    put(picture, made_for("1", "before", "d0"))
    put(picture, of_web(pod("new"), "2"))
    assert ends(said) == []
    remove(picture, "ResourceClaim", "before")
    put(picture, made_for("2", "after", None))
    assert ends(said) == []
    put(picture, made_for("2", "after", "d0"))
    assert ends(said) == [NominationUsed]
