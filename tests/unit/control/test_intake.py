"""Which units a change puts in the queue, and in which order they leave it."""

from itertools import permutations
from typing import Any

import pytest
from structlog.testing import capture_logs

from reconciler.aio.queue import Queue
from reconciler.api.objects.changes import Changed, Refused, Removed, Replaced
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.objects.semantics import Semantics
from reconciler.control.decisions.allocating import Deleted
from reconciler.control.decisions.declaration import Decision
from reconciler.control.intake import Intake
from reconciler.control.ownership import Ownership
from reconciler.control.waiting import Wants
from reconciler.state.devices import naming
from reconciler.state.store import Store
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node, pod
from tests.tools.unit_pictures import claim_unit, intake, key, pod_unit, put, remove, taken, typed


def created(raw: dict[str, Any], moment: str) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "creationTimestamp": moment}}


async def test_a_new_claim_gets_a_turn_and_so_do_the_pods_that_name_it():
    picture = intake(pod("p", "a"))
    assert pod_unit("p") in await taken(picture)
    picture = intake(pod("p", "a"), claim("a"))
    assert set(await taken(picture)) == {pod_unit("p"), claim_unit("a")}


async def test_the_order_is_priority_then_age_then_name():
    picture = intake(
        created(claim("young"), "2026-01-03T00:00:00Z"),
        created(claim("b-old"), "2026-01-01T00:00:00Z"),
        created(claim("a-old"), "2026-01-01T00:00:00Z"),
        created(pod("urgent", priority=10), "2026-01-04T00:00:00Z"),
        created(pod("least", priority=-10), "2025-01-01T00:00:00Z"),
    )
    assert await taken(picture) == [
        pod_unit("urgent"),
        claim_unit("a-old"),
        claim_unit("b-old"),
        claim_unit("young"),
        pod_unit("least"),
    ]


async def test_news_in_which_nothing_that_matters_changed_gives_nobody_a_turn():
    """Above all the echo of the finalizer that we write before each allocation."""
    picture = intake(claim("a"))
    async with picture.queue.take():
        changed = claim("a")
        changed["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
        put(picture, changed)
    assert await taken(picture) == []


async def test_a_report_of_a_kubelet_gives_nobody_a_turn():
    def reported(version: str, **status: Any) -> dict[str, Any]:
        raw = pod("p", "a", gates=(), nodeName="n")
        return {**raw, "metadata": {**raw["metadata"], "resourceVersion": version}, "status": status}

    picture = intake(claim("a"), reported("1", phase="Running"))
    for _ in range(2):
        async with picture.queue.take():
            pass
    put(picture, reported("2", phase="Running", conditions=[{"type": "Ready", "status": "True"}]))
    assert not len(picture.queue)
    assert picture.store.pods[key("p")].metadata.resource_version == "2"
    put(picture, reported("3", phase="Running", startTime="2026-01-01T00:00:00Z"))
    assert not len(picture.queue)
    assert picture.store.pods[key("p")].status.start_time
    put(picture, reported("4", phase="Succeeded"))
    assert pod_unit("p") in await taken(picture)


@pytest.mark.parametrize(
    ("spec", "metadata", "status"),
    [
        pytest.param({"nodeName": ""}, {}, {}, id="it is not bound"),
        pytest.param({"priority": 1}, {}, {}, id="its spec changed"),
        pytest.param({}, {"uid": "new"}, {}, id="it is another pod"),
        pytest.param({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, id="it is being deleted"),
        pytest.param({}, {}, {"phase": "Failed"}, id="it ended"),
        pytest.param(
            {},
            {},
            {"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "b"}]},
            id="it names a claim",
        ),
    ],
)
async def test_a_change_of_a_pod_that_is_no_report_gives_it_a_turn(spec, metadata, status):
    before = pod("p", "a", gates=(), nodeName="n")
    before |= {"metadata": {**before["metadata"], "resourceVersion": "1"}, "status": {"phase": "Pending"}}
    changed = {
        **before,
        "metadata": {**before["metadata"], "resourceVersion": "2", **metadata},
        "spec": {**before["spec"], **spec},
        "status": {"phase": "Running", **status},
    }
    picture = intake(claim("a"), before)
    for _ in range(2):
        async with picture.queue.take():
            pass
    put(picture, changed)
    assert pod_unit("p") in await taken(picture)


@pytest.mark.parametrize(("cpu", "woken"), [("1", True), ("4", False)])
async def test_a_report_tells_how_much_room_a_pod_leaves(cpu: str, woken: bool):
    """A container that was resized down leaves room for those that wait for it."""

    def reported(version: str, cpu: str) -> dict[str, Any]:
        raw = pod("p", "a", gates=(), nodeName="n")
        container = {"name": "main", "allocatedResources": {"cpu": cpu}}
        metadata = {**raw["metadata"], "resourceVersion": version}
        return {**raw, "metadata": metadata, "status": {"phase": "Running", "containerStatuses": [container]}}

    picture = intake(node("n"), claim("a"), reported("1", "4"))
    picture.waiting.add(claim_unit("w"), Wants(frozenset(), room=False, crowded=True))
    picture.queue.put(claim_unit("w"), priority=(0, "", "", ""), after=600.0)
    put(picture, reported("2", cpu))
    assert (claim_unit("w") in await taken(picture)) is woken


async def test_a_unit_waits_until_the_watch_shows_a_version_of_its_claims():
    """The answer to our write is faster. At the latest after a second, it waits no more."""
    picture = intake(pod("p", "a"))
    async with picture.queue.take():
        pass
    written = typed({**claim("a"), "metadata": {**claim("a")["metadata"], "resourceVersion": "7"}})
    assert picture.lag.awaits(pod_unit("p"), [written], now=10.0)
    assert picture.lag.awaits(pod_unit("p"), [written], now=10.9)
    picture.lag.shown("7")
    async with picture.queue.take() as unit:
        assert unit == pod_unit("p")
    assert not picture.lag.awaits(pod_unit("p"), [written], now=10.9)
    later = typed({**claim("a"), "metadata": {**claim("a")["metadata"], "resourceVersion": "8"}})
    assert picture.lag.awaits(pod_unit("p"), [later], now=20.0)
    assert not picture.lag.awaits(pod_unit("p"), [later], now=21.0)


async def test_an_allocated_claim_needs_no_turn_of_its_own():
    assert await taken(intake({**claim("a"), "status": held(DRIVER, "n", "d0")})) == []


async def test_a_claim_whose_last_pod_goes_gets_a_turn():
    picture = intake(claim("a"), pod("p", "a"))
    for _ in range(2):
        async with picture.queue.take():
            pass
    remove(picture, "Pod", "p")
    assert claim_unit("a") in await taken(picture)


def waiting(picture: Intake, *, room: bool = True) -> None:
    picture.waiting.add(claim_unit("w"), Wants(frozenset({"gpu"}), room))
    picture.queue.put(claim_unit("w"), priority=(0, "", "", ""), after=600.0)


@pytest.mark.parametrize(
    ("raws", "room", "woken"),
    [
        pytest.param([device_class("gpu")], True, True, id="its class"),
        pytest.param([device_class("other")], True, False, id="another class"),
        pytest.param([devices("n", "d1")], True, True, id="devices"),
        pytest.param([node("m")], True, True, id="a node"),
        pytest.param([node("m")], False, True, id="a node, although room would not help"),
        pytest.param([pod("p")], True, False, id="a pod"),
    ],
)
async def test_what_wakes_a_waiting_unit(raws: list[dict[str, Any]], room: bool, woken: bool):
    picture = intake()
    waiting(picture, room=room)
    put(picture, *raws)
    assert (claim_unit("w") in await taken(picture)) is woken


async def test_a_node_that_takes_pods_again_wakes_who_waits():
    picture = intake({**node("n"), "spec": {"unschedulable": True}})
    waiting(picture)
    put(picture, node("n"))
    assert claim_unit("w") in await taken(picture)


@pytest.mark.parametrize(("room", "woken"), [(True, True), (False, False)])
async def test_a_device_set_free_wakes_those_for_whom_room_may_be_enough(room: bool, woken: bool):
    picture = intake(devices("n", "d0"), {**claim("a"), "status": held(DRIVER, "n", "d0")})
    waiting(picture, room=room)
    remove(picture, "ResourceClaim", "a")
    assert (claim_unit("w") in await taken(picture)) is woken


async def test_nothing_is_ready_before_every_kind_was_listed():
    def report(_: Decision) -> None:
        raise AssertionError

    picture = Intake(
        Store(Semantics()), Queue(base=1, cap=1, random=lambda: 0.0), ["Node", "ResourceClaim"], report
    )
    picture.take(Replaced("Node", (), ()))
    picture.take(Changed("Node", typed(node("n"))))
    assert not picture.listed.is_set()
    picture.take(Replaced("ResourceClaim", (), ()))
    assert picture.listed.is_set()


@pytest.mark.parametrize("relisted", [False, True])
async def test_the_deletion_of_our_claims_is_told_with_what_they_held(*, relisted: bool):
    """Also if the watch missed it, and a listing shows that they are gone, or made again."""
    told: list[Decision] = []
    owned = Ownership(drivers=frozenset({DRIVER}))
    picture = Intake(
        Store(Semantics()),
        Queue(base=1, cap=1, random=lambda: 0.0),
        ["ResourceClaim"],
        told.append,
        ours=owned,
    )
    others = {**claim("others", managed=False), "status": held("other.example.com", "n", "d1")}
    mine = {**claim("held", managed=False), "status": held(DRIVER, "n", "d0")}
    kept, odd = claim("kept"), claim("odd")
    for raw in (claim("theirs", managed=False), claim("ours"), mine, others, kept, odd):
        picture.take(Changed("ResourceClaim", typed(raw)))
    if relisted:
        again = {**mine, "metadata": {**mine["metadata"], "uid": "another"}}
        unreadable = Refused("ResourceClaim", key("odd"), "why")
        picture.take(Replaced("ResourceClaim", (typed(again), typed(kept)), (unreadable,)))
    else:
        for name in ("theirs", "ours", "held", "others", "held"):
            remove(picture, "ResourceClaim", name)
    assert told == [Deleted(key("ours"), ()), Deleted(key("held"), (DeviceID(DRIVER, "n", "d0"),))]


async def test_an_unreadable_object_is_reported_once_for_each_reason():
    picture = intake()
    with capture_logs() as lines:
        for reason in ("odd", "odd", "odder"):
            picture.take(Refused("ResourceSlice", key("s"), reason))
    assert [(line["event"], line["kind"], line["reason"]) for line in lines] == [
        ("invalid object ignored", "ResourceSlice", "odd"),
        ("invalid object ignored", "ResourceSlice", "odder"),
    ]


@pytest.mark.parametrize(
    "gone",
    [Removed("ResourceClaim", key("a")), Replaced("ResourceClaim", (), ())],
    ids=["deleted", "unlisted"],
)
async def test_an_unreadable_object_is_forgotten_when_it_is_gone(gone):
    """Anybody may create claims that cannot be read, by ever new names."""
    picture = intake()
    refused = Refused("ResourceClaim", key("a"), "odd")
    with capture_logs() as lines:
        picture.take(Refused("ResourceSlice", key("s"), "odd"))
        for change in (refused, gone, refused):
            picture.take(change)
        picture.take(Replaced("ResourceClaim", (), (refused,)))
    assert [line["kind"] for line in lines] == ["ResourceSlice", "ResourceClaim", "ResourceClaim"]
    picture.take(gone)
    assert list(picture.store.refused) == [("ResourceSlice", key("s"))]


async def test_a_claim_from_an_answer_is_not_brought_back_to_life():
    """It was deleted while the answer was on its way; its devices would be held for ever."""
    picture = intake(claim("a"))
    answer = typed({**claim("a"), "status": held(DRIVER, "n", "d0")})
    remove(picture, "ResourceClaim", "a")
    picture.observe(answer)
    assert key("a") not in picture.store.claims


async def test_slices_with_new_names_are_taken_in_once_the_old_ones_are_gone(monkeypatch: pytest.MonkeyPatch):
    """A list names first what exists now, then what is gone: a driver may have named all anew meanwhile."""
    monkeypatch.setattr(naming, "MAX_OF_DRIVER", 4)

    def of_names(name: str, *names: str) -> dict[str, Any]:
        found = devices("n", "d0")
        attributes = {each: {"int": 1} for each in names}
        found["spec"]["devices"][0] |= {"attributes": attributes, "capacity": {}}
        found["metadata"]["name"] = name
        return found

    picture = intake(of_names("old", "a", "b", "c"))
    put(picture, of_names("new", "d", "e", "f"))
    assert [one.key.name for one in picture.store.supply.slices] == ["old"]
    picture.take(Removed("ResourceSlice", ObjectKey("", "old")))
    assert [one.key.name for one in picture.store.supply.slices] == ["new"]
    assert not picture.store.refused


@pytest.mark.parametrize("order", list(permutations(("pod", "claim", "slice"))))
async def test_a_pod_is_charged_for_what_its_devices_take_of_its_node_whatever_is_listed_first(
    order: tuple[str, ...],
):
    """And by the newest slice (NAR-1)."""
    picture = intake()
    slices = [devices("n", "d0") for _ in range(3)]
    for raw, cpus in zip(slices[:2], ("3", "2"), strict=True):
        mapping = {"cpu": {"mapping": {"deviceMultiplier": cpus}}}
        raw["spec"]["devices"][0]["nodeAllocatableResources"] = mapping
    bound = pod("p", "c", gates=())
    bound["spec"]["nodeName"] = "n"
    raws = {"pod": bound, "claim": {**claim("c"), "status": held(DRIVER, "n", "d0")}, "slice": slices[0]}
    put(picture, node("n"), *(raws[kind] for kind in order))

    def cpu() -> int:
        charge = picture.nodes.room.charged(key("p"))
        assert charge is not None
        return charge.amounts.get("cpu", 0)

    found = [cpu()]
    for raw in slices[1:]:
        put(picture, raw)
        found.append(cpu())
    assert found == [3000, 2000, 0]
