"""The record of held room, on the embedded server: it follows what is held, and the next leader reads it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace
from structlog.testing import capture_logs

from reconciler.api.objects.claims import AllocatedDevice, Allocation, DeviceAllocation, ResourceClaim
from reconciler.api.objects.meta import DeviceID, ObjectKey, OwnerReference
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import config_map
from reconciler.cluster.transport import Transport
from reconciler.control import held_room as keeper_module
from reconciler.control import held_room as takeover_module
from reconciler.control.decisions.declaration import Decision
from reconciler.control.decisions.every import Nominated, NominationDropped
from reconciler.control.held_room import (
    HELD_ROOM,
    LEAVING,
    HeldRoomKeeper,
    KeptConfigMap,
    read_held_room,
    take_over_held_room,
)
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.embedded import ApiServer
from reconciler.state.nominations import (
    HeldPlace,
    Leaving,
    Nomination,
    of_claim,
    of_replacement,
    read_record,
    text_of,
)
from tests.tools.faulty_transport import Fault, Faulty, answer, lost_answer
from tests.tools.running_reconciler import reached
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node
from tests.tools.unit_pictures import intake, key, typed

KEY = ObjectKey("default", "held-room")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Known(Client):
    """A client whose transport tests may wrap."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.transport = transport


@asynccontextmanager
async def server(**data: str) -> AsyncIterator[Known]:
    api = ApiServer()
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    api.load([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}])
    async with reached(api) as transport:
        yield Known(transport)


def kept(over: Client, name: ObjectKey = KEY) -> KeptConfigMap:
    return KeptConfigMap(over, name, on_problem=lambda _error, _remedy: None)


@asynccontextmanager
async def keeping(picture: Intake, over: Client, *, leads: bool = True) -> AsyncIterator[HeldRoomKeeper]:
    keeper = HeldRoomKeeper(picture, kept(over), writes=lambda: leads)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(keeper.run())
        yield keeper
        task.cancel()


def fleet(*objects: dict[str, Any], said: list[Decision] | None = None) -> Intake:
    fleet = (device_class(), node("a"), devices("a", "d0", "d1"), claim("x"), claim("y"))
    return intake(*fleet, *objects, report=lambda one: None if said is None else said.append(one))


def held_for(name: str, *, seconds: float = 60.0, uid: str = "") -> Nomination:
    """Device `d0`, for a claim."""
    place = HeldPlace("a", (DeviceID(DRIVER, "a", "d0"),), ())
    deadline = (NOON + timedelta(seconds=seconds)).isoformat()
    return Nomination(of_claim(key(name)), (place,), 0, 1_000.0 + seconds, deadline, uid)


async def written(over: Client) -> tuple[Nomination, ...]:
    data = (await over.get(config_map(KEY), KEY)).get("data", {})
    return read_record(data[HELD_ROOM], "").nominations if HELD_ROOM in data else ()


async def take_over(picture: Intake, over: Client, *, most: float = 600.0, name: ObjectKey = KEY) -> None:
    await take_over_held_room(
        picture, kept(over, name), most_seconds=most, clock=lambda: 5_000.0, now=lambda: NOON
    )


async def test_the_record_follows_what_is_held():
    picture = fleet()
    async with server(other="x") as over, keeping(picture, over) as keeper:
        picture.nominating.hold(held_for("x"), "a test")
        await keeper.written()
        assert [one.nominee for one in await written(over)] == [of_claim(key("x"))]
        picture.nominating.drop(of_claim(key("x")), "a test")
        await keeper.written()
        assert await written(over) == ()


async def test_who_does_not_lead_writes_nothing():
    picture = fleet()
    async with server() as over, keeping(picture, over, leads=False):
        picture.nominating.hold(held_for("x"), "a test")
        await asyncio.sleep(0)
        assert (await over.get(config_map(KEY), KEY)).get("data", {}) == {}


async def test_a_record_that_cannot_be_written_is_not_waited_for():
    picture = fleet()
    async with server() as over:
        gone = kept(over, ObjectKey("default", "gone"))
        keeper = HeldRoomKeeper(picture, gone, writes=lambda: True)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(keeper.run())
            picture.nominating.hold(held_for("x"), "a test")
            await keeper.written()
            task.cancel()


@pytest.mark.parametrize("fault", [answer(503), answer(409), lost_answer], ids=["busy", "conflict", "lost"])
async def test_a_write_that_fails_is_not_waited_for_and_made_good_later(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(keeper_module, "RETRY", 0.01)
    picture = fleet()
    async with server() as over:
        faulty = Faulty(over.transport)
        faulty.on("PATCH", KEY.name, fault)
        async with keeping(picture, Client(faulty)) as keeper:
            picture.nominating.hold(held_for("x"), "a test")
            await keeper.written()
            await keeper.written()
        assert [one.nominee for one in await written(over)] == [of_claim(key("x"))]


async def test_a_new_leader_waits_a_little_for_a_busy_server():
    first, second = fleet(), fleet()
    async with server() as over:
        async with keeping(first, over) as keeper:
            first.nominating.hold(held_for("x"), "a test")
            await keeper.written()
        faulty = Faulty(over.transport)
        faulty.on("GET", KEY.name, answer(503))
        await take_over(second, Client(faulty))
    assert [one.nominee for one in second.store.nominations] == [of_claim(key("x"))]


async def test_a_new_leader_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(takeover_module, "TAKEOVER_PATIENCE", 0.05)
    picture = fleet()
    async with server() as over:
        faulty = Faulty(over.transport)
        faulty.on("GET", KEY.name, answer(503), answer(503))
        with capture_logs() as logs:
            await take_over(picture, Client(faulty))
    (line,) = logs
    assert (line["event"], line["error"]) == ("held room not taken over", "no answer of the server")


async def test_the_next_leader_holds_the_same_room_until_the_same_deadline():
    first, said = fleet(), list[Decision]()
    second = fleet(said=said)
    async with server() as over:
        async with keeping(first, over) as keeper:
            first.nominating.hold(held_for("x"), "a test")
            await keeper.written()
        await take_over(second, over)
    (one,) = second.store.nominations
    assert (one.nominee, one.places, one.until) == (of_claim(key("x")), held_for("x").places, 5_060.0)
    assert [type(decision) for decision in said] == [Nominated]


@pytest.mark.parametrize(
    "ended",
    [held_for("x", seconds=0.0), held_for("gone"), held_for("x", uid="another"), held_for("done")],
    ids=["expired", "gone", "made anew", "allocated"],
)
async def test_room_that_nobody_waits_for_is_not_taken_over(ended: Nomination):
    first = fleet()
    second = fleet({**claim("done"), "status": held(DRIVER, "a", "d1", on="a")})
    async with server() as over:
        async with keeping(first, over) as keeper:
            first.nominating.hold(ended, "a test")
            await keeper.written()
        await take_over(second, over)
    assert not second.store.nominations


async def test_the_place_of_a_pod_that_moves_is_taken_over_until_what_replaces_it_has_it():
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="u", controller=True)
    moving = replace(held_for("x"), nominee=of_replacement("default", owner), uid="uid of old")
    first, waiting = fleet(), fleet()
    arrived = fleet({**claim("new"), "status": held(DRIVER, "a", "d0", on="a")})
    async with server() as over:
        async with keeping(first, over) as keeper:
            first.nominating.hold(moving, "a test")
            await keeper.written()
        await take_over(waiting, over)
        await take_over(arrived, over)
    assert [one.nominee for one in waiting.store.nominations] == [moving.nominee]
    assert not arrived.store.nominations


async def test_nothing_is_held_for_longer_than_the_settings_allow():
    first, second = fleet(), fleet()
    async with server() as over:
        async with keeping(first, over) as keeper:
            first.nominating.hold(held_for("x", seconds=1e6), "a test")
            await keeper.written()
        await take_over(second, over, most=30.0)
    assert [one.until for one in second.store.nominations] == [5_030.0]


async def test_what_an_earlier_term_of_this_process_held_gives_way_to_the_record():
    said: list[Decision] = []
    first, again = fleet(), fleet(said=said)
    again.nominating.hold(held_for("y"), "an earlier term")
    async with server() as over:
        async with keeping(first, over) as keeper:
            first.nominating.hold(held_for("x"), "a test")
            await keeper.written()
        await take_over(again, over)
    assert [one.nominee for one in again.store.nominations] == [of_claim(key("x"))]
    assert sum(isinstance(one, NominationDropped) for one in said) == 1


@pytest.mark.parametrize("text", ["{", '[{"nominee": 1}]'])
async def test_a_record_that_cannot_be_read_is_reported_and_holds_nothing(text: str):
    picture = fleet()
    async with server(heldRoom=text) as over:
        with capture_logs() as logs:
            await take_over(picture, over)
    assert not picture.store.nominations
    assert [line["event"] for line in logs] == ["held room not taken over"]


async def test_without_a_config_map_a_new_leader_starts_at_once():
    picture = fleet()
    async with server() as over:
        await take_over(picture, over, name=ObjectKey("default", "gone"))
    assert not picture.store.nominations


# -- Which claims and devices are ours.


BOTH = {"devices": {"requests": [
    {"name": "a", "exactly": {"deviceClassName": "gpu"}},
    {"name": "b", "firstAvailable": [
        {"name": "x", "deviceClassName": "nic"}, {"name": "y", "deviceClassName": "gpu"},
    ]},
]}}  # fmt: skip


def asking() -> ResourceClaim:
    found = typed({**claim("c"), "spec": BOTH})
    assert isinstance(found, ResourceClaim)
    return found


def given(**drivers: str) -> Allocation:
    """Request -> driver of its device; `b_x` stands for b/x."""
    devices = tuple(
        AllocatedDevice(request=request.replace("_", "/"), driver=driver, pool="p", device="d")
        for request, driver in drivers.items()
    )
    return Allocation(devices=DeviceAllocation(results=devices))


@pytest.mark.parametrize(
    ("ours", "allocation", "allowed"),
    [
        pytest.param({"alone": True}, given(a="any"), True, id="alone: everything"),
        pytest.param({"drivers": {"d"}}, given(a="d", b_x="d"), True, id="all of an owned driver"),
        pytest.param({"drivers": {"d"}}, given(a="d", b_x="e"), False, id="one of another driver"),
        pytest.param({"classes": {"gpu"}}, given(a="e", b_y="e"), True, id="owned class by alternative"),
        pytest.param({"classes": {"gpu"}}, given(a="e", b_x="e"), False, id="another class by alternative"),
        pytest.param(
            {"classes": {"gpu"}, "drivers": {"d"}}, given(a="e", b_x="d"), True, id="each by one of them"
        ),
        pytest.param({}, given(), True, id="nothing taken, nothing trespassed"),
    ],
)
def test_a_device_may_be_given_if_its_driver_or_its_class_is_owned(
    ours: dict[str, Any], allocation: Allocation, allowed: bool
):
    assert (Ownership(**ours).trespass(asking(), allocation) is None) is allowed


@pytest.mark.parametrize(
    ("ours", "foreign"),
    [
        pytest.param({"alone": True}, False, id="alone"),
        pytest.param({"drivers": {"d"}}, False, id="with drivers only the devices tell"),
        pytest.param({"classes": {"gpu", "nic"}}, False, id="all classes owned"),
        pytest.param({"classes": {"gpu"}}, True, id="an alternative of another class"),
    ],
)
def test_classes_that_are_not_ours_are_told_from_the_claim_alone(ours: dict[str, Any], foreign: bool):
    assert (Ownership(**ours).foreign_class(asking()) is not None) is foreign


@pytest.mark.parametrize(
    ("labels", "ours"),
    [({"dra-reconciler.io/managed": "true"}, True), ({"dra-reconciler.io/managed": "yes"}, False)],
)
def test_the_label_has_to_say_true(labels: dict[str, str], ours: bool):
    raw = claim("c")
    raw["metadata"]["labels"] = labels
    assert Ownership(alone=True).claims(typed(raw)) is ours
    assert Ownership(alone=True, all_claims=True).claims(typed(raw))


def test_without_anything_owned_nothing_is_written():
    assert not Ownership(all_claims=True).writes


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"nominee": ["pod", ["default", "x"], ""], "pods": 5}',
        f'{{"other": {"[" * 5_000}{"]" * 5_000}}}',
    ],
    ids=["text", "list", "number", "nested"],
)
async def test_a_group_that_leaves_and_cannot_be_read_is_left_out_alone(text: str):
    picture = fleet()
    record = text_of([held_for("x")])
    async with server(**{HELD_ROOM: record, LEAVING: text}) as over:
        with capture_logs() as lines:
            await take_over(picture, over)
    assert picture.nominating.leaving is None
    assert [one.nominee for one in picture.store.nominations] == [of_claim(key("x"))]
    (told,) = [line for line in lines if line["log_level"] == "warning"]
    assert "leaving: is not a group that leaves" in told["error"]


def test_half_a_surrogate_in_the_group_that_leaves_is_left_out_too():
    found = read_held_room({LEAVING: '{"nominee": "\ud800"}'}, "ConfigMap x")
    assert (found.leaving, [one.subject for one in found.refused]) == (None, ["ConfigMap x leaving"])


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("2026-01-01T12:00:30Z", "2026-01-01T12:00:30Z"),
        ("2999-01-01T00:00:00Z", "2026-01-01T12:10:00+00:00"),
        ("soon", "soon"),
    ],
)
async def test_no_group_has_to_leave_later_than_room_is_held(written: str, known: str):
    """A deadline that cannot be read counts as over."""
    picture = fleet()
    leaving = Leaving(of_claim(key("x")), ((key("a"), "u"),), written)
    async with server(**{LEAVING: json.encode(leaving).decode()}) as over:
        await take_over(picture, over)
    assert picture.nominating.leaving == replace(leaving, deadline=known)
