"""A kind stays in view whatever the server does. No sockets; time is virtual."""

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from reconciler.aio.tasks import MOST
from reconciler.api.objects.changes import Changed, Listed, Notice, Refused, Removed, Replaced
from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.kinds import NODE, Resource
from reconciler.cluster.watch import OLD_LISTINGS, Pace, follow
from reconciler.errors import Inconsistent, Rejected, Retry
from tests.tools.cluster_objects import CLAIMS, NODES, bookmark, claim, error_event, event, listing, node
from tests.tools.scripted_transport import Scripted, Wait, ok, status


async def followed(
    transport: Scripted, *, seconds: float = 10_000.0, random=lambda: 1.0, resource: Resource = NODES
) -> list[Any]:
    """What a sink was told within so many seconds."""
    told: list[Notice] = []
    work = follow(Client(transport), resource, sink=told.append, random=random, pace=Pace())
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        pass
    return [brief(change) for change in told]


def brief(change: Notice) -> Any:
    match change:
        case Replaced(objects=objects, afresh=afresh):
            return ["afresh" if afresh else "listed", *(found.metadata.name for found in objects)]
        case Listed():
            return ["listed"]
        case Changed(object=found):
            return (found.metadata.name, found.metadata.resource_version)
        case Removed(key=key):
            return f"-{key}"
        case Refused(key=key):
            return f"?{key}"


def watches(transport: Scripted) -> list[str]:
    """The versions from which watches began."""
    return [asked.query["resourceVersion"] for asked in transport.requests if "watch" in asked.query]


async def test_a_listing_comes_first_then_each_change():
    transport = Scripted(
        ok(listing(node("a"), node("b"))),
        streams=[
            [
                event("ADDED", node("c", "11")),
                event("MODIFIED", node("a", "12")),
                event("DELETED", node("b", "13")),
            ]
        ],
    )
    assert await followed(transport) == [["listed", "a", "b"], ("c", "11"), ("a", "12"), "-b"]
    asked = {"watch": "true", "resourceVersion": "10", "allowWatchBookmarks": "true"}
    assert transport.requests[1].query == {**asked, "timeoutSeconds": "600"}


async def test_a_listing_is_read_in_pages_and_told_once():
    transport = Scripted(ok(listing(node("a"), token="t1")), ok(listing(node("b"), version="12")))
    assert await followed(transport) == [["listed", "a", "b"]]
    found = [asked.query for asked in transport.requests[:2]]
    assert found == [{"limit": "500"}, {"limit": "500", "continue": "t1"}]
    assert watches(transport) == ["12"]


CLAIM_LIST = {
    "metadata": {"resourceVersion": "10"},
    "kind": "ResourceClaimList",
    "apiVersion": CLAIMS.api_version,
}


async def test_claims_of_the_first_listing_are_told_one_by_one_and_later_ones_at_one_go():
    """Thousands at one go would hold the loop. Later only what changed is dear, and its order unknown."""
    pages = [{**CLAIM_LIST, "items": [claim(name, spec={"devices": {}})]} for name in ("a", "b")]
    pages[0]["metadata"] = {"resourceVersion": "10", "continue": "t"}
    transport = Scripted(*map(ok, [*pages, {**pages[1], "metadata": {"resourceVersion": "11"}}]),
                         streams=[[error_event(410)]])  # fmt: skip
    found = await followed(transport, resource=CLAIMS)
    assert found == [("a", "10"), ("b", "10"), ["listed", "a", "b"], ["listed", "b"]]


async def test_of_a_first_listing_that_breaks_off_nothing_is_told():
    """Claims that are gone by the time it begins again might seem to hold what others hold."""
    metadata = {"resourceVersion": "9", "continue": "t"}
    half = {**CLAIM_LIST, "items": [claim("a", spec={"devices": {}})], "metadata": metadata}
    whole = {**CLAIM_LIST, "items": [claim("b", spec={"devices": {}})]}
    transport = Scripted(ok(half), status(410, reason="Expired"), ok(whole))
    assert await followed(transport, resource=CLAIMS) == [("b", "10"), ["listed", "b"]]


async def test_nodes_are_told_one_by_one_while_they_are_listed():
    """Those that are gone are removed in the end, also what only a watch or a listing that broke off told."""
    odd = node("odd", "9", labels="none")
    transport = Scripted(
        ok(listing(node("a"), odd, token="t1")),
        status(410, reason="Expired"),
        ok(listing(node("b"), node("c"))),
        ok(listing(node("c", "20"), version="20")),
        ok(listing(version="30")),
        streams=[
            [event("ADDED", node("d", "11")), event("DELETED", node("b", "12")), error_event(410)],
            [error_event(410)],
        ],
    )
    assert await followed(transport, resource=NODE) == [
        *[("a", "1"), "?odd"],
        *[("b", "1"), ("c", "1"), "-a", "-odd", ["listed"]],
        *[("d", "11"), "-b"],
        *[("c", "20"), "-d", ["listed"]],
        *["-c", ["listed"]],
    ]


async def test_the_next_page_is_asked_for_while_one_is_read():
    asked: list[int] = []
    transport = Scripted(ok(listing(node("a"), token="t")), ok(listing(node("b"))))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await follow(
                Client(transport),
                NODE,
                sink=lambda _: asked.append(len(transport.requests)),
                random=lambda: 1.0,
            )
    assert asked[0] == 2


async def test_a_listing_whose_token_expired_begins_again():
    transport = Scripted(
        ok(listing(node("a"), token="t1")), status(410, reason="Expired"), ok(listing(node("a"), node("b")))
    )
    assert await followed(transport) == [["listed", "a", "b"]]
    assert "continue" not in transport.requests[2].query


async def test_a_watch_that_ends_goes_on_from_the_last_version_without_a_pause():
    transport = Scripted(
        ok(listing()), streams=[[event("ADDED", node("a", "11"))], [Wait(60), bookmark("40")]]
    )
    assert await followed(transport) == [["listed"], ("a", "11")]
    assert watches(transport) == ["10", "11", "40"]
    assert [asked.at for asked in transport.requests] == [0, 0, 0, 60]


async def test_a_watch_that_dies_within_a_line_loses_nothing():
    """The half line is not parsed; the server sends its event again from the last version."""
    whole = event("MODIFIED", node("a", "12"))
    transport = Scripted(
        ok(listing()),
        streams=[[event("ADDED", node("a", "11")), b'{"type":"MODIFIED","object":{"metadata":{"na'], [whole]],
    )
    assert await followed(transport) == [["listed"], ("a", "11"), ("a", "12")]
    assert watches(transport) == ["10", "11", "12"]


async def test_a_complete_line_that_is_not_json_reconnects_from_the_last_version():
    transport = Scripted(
        ok(listing()),
        streams=[[event("ADDED", node("a", "11")), b"<html>\n"], [event("ADDED", node("b", "12"))]],
    )
    assert await followed(transport) == [["listed"], ("a", "11"), ("b", "12")]
    assert watches(transport) == ["10", "11", "12"]


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param([error_event(410, "too old")], id="an ERROR event"),
        pytest.param(status(410, reason="Expired"), id="the status of the watch"),
    ],
)
async def test_a_version_that_is_too_old_lists_again(gone):
    transport = Scripted(
        ok(listing(node("a"), node("b"))), ok(listing(node("b"), version="90")), streams=[gone]
    )
    assert await followed(transport) == [["listed", "a", "b"], ["listed", "b"]]
    assert watches(transport) == ["10", "90"]


async def test_a_server_that_was_set_back_is_listed_again():
    """Restored from a backup, or a demo server started afresh: its versions begin lower."""
    transport = Scripted(
        ok(listing(node("a"), version="500")),
        *[ok(listing(node("b"), version="7"))] * (OLD_LISTINGS + 1),
        streams=[[bookmark("7")], [event("ADDED", node("c", "8"))]],
    )
    assert await followed(transport) == [["listed", "a"], ["afresh", "b"], ("c", "8")]


async def test_a_list_that_is_older_than_what_was_seen_is_asked_for_again():
    """Of a cache that is behind: what it lacks must not be taken for gone."""
    transport = Scripted(
        ok(listing(node("a"), version="500")),
        ok(listing(version="7")),
        ok(listing(node("a", "400"), version="501")),
        streams=[[bookmark("7")], []],
    )
    assert await followed(transport) == [["listed", "a"], ["listed", "a"]]


SINGLY = replace(NODES, singly=True)


async def test_so_it_is_where_objects_are_passed_on_as_they_are_read():
    """Nothing of the old list is told: neither what it has, nor that what it lacks is gone."""
    transport = Scripted(
        ok(listing(node("a", "400"), version="500")),
        ok(listing(node("a", "3"), node("b", "4"), version="7")),
        ok(listing(node("a", "400"), version="501")),
        streams=[[bookmark("7")], []],
    )
    assert await followed(transport, resource=SINGLY) == [("a", "400"), ["listed"], ("a", "400"), ["listed"]]


async def test_a_server_that_was_set_back_is_read_singly_too():
    old = [ok(listing(node("b", "4"), version="7"))] * (OLD_LISTINGS + 1)
    transport = Scripted(ok(listing(node("a"), version="500")), *old, streams=[[bookmark("7")]])
    told = await followed(transport, resource=SINGLY)
    assert told == [("a", "1"), ["listed"], ("b", "4"), "-a", ["listed"]]


async def test_a_version_that_keeps_failing_is_given_up():
    """A server that never had it answers with timeouts, not with 410."""
    too_large = status(504, "Too large resource version")
    old = [ok(listing(node("b"), version="7"))] * (OLD_LISTINGS + 1)
    transport = Scripted(ok(listing(node("a"), version="500")), *old, streams=[too_large] * 6)
    assert await followed(transport) == [["listed", "a"], ["afresh", "b"]]
    assert watches(transport) == ["500"] * 6 + ["7"]


async def test_a_stalled_watch_is_given_up_and_resumed():
    """A connection that a firewall forgot looks like silence."""
    transport = Scripted(ok(listing()), streams=[[Wait(1e6)], [event("ADDED", node("a", "11"))]])
    assert await followed(transport) == [["listed"], ("a", "11")]
    assert [asked.at for asked in transport.requests[1:3]] == [0, 90 + 1]


async def test_being_told_to_wait_is_obeyed():
    transport = Scripted(status(429, headers={"Retry-After": "17"}), ok(listing(node("a"))))
    assert await followed(transport) == [["listed", "a"]]
    assert [asked.at for asked in transport.requests[:2]] == [0, 17]


async def test_failures_back_off_and_success_starts_afresh():
    down = Retry("connection refused")
    transport = Scripted(
        *[down] * 7, ok(listing()), streams=[status(500), [Wait(10), Retry("reset")], status(503)]
    )
    await followed(transport)
    times = [asked.at for asked in transport.requests]
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 0, 30, 10 + 1, 2]


async def test_jitter_shortens_a_pause_by_up_to_half():
    transport = Scripted(Retry("refused"), ok(listing()))
    await followed(transport, random=lambda: 0.0)
    assert [asked.at for asked in transport.requests[:2]] == [0, 0.5]
    assert transport.requests[2].query["timeoutSeconds"] == "300"


async def test_a_server_that_closes_at_once_is_not_hammered():
    transport = Scripted(ok(listing()), ok(listing()), streams=[[] for _ in range(100)])
    await followed(transport, seconds=100)
    assert len(watches(transport)) == 8


async def test_an_object_that_cannot_be_read_is_refused_alone():
    odd = node("odd", "11", labels="none")
    transport = Scripted(
        ok(listing(node("a"), odd, {"metadata": None})),
        streams=[
            [
                event("MODIFIED", odd),
                event("ADDED", node("b", "12")),
                event("DELETED", node("odd", "13", labels="none")),
            ]
        ],
    )
    told: list[Notice] = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await follow(Client(transport), NODES, sink=told.append, random=lambda: 1.0)
    assert isinstance(told[0], Replaced)
    assert [refused.key.name for refused in told[0].refused] == ["odd", ""]
    assert "labels" in told[0].refused[0].reason
    assert [brief(change) for change in told] == [["listed", "a"], "?odd", ("b", "12"), "-odd"]


async def test_an_object_that_nests_too_deeply_is_refused_alone():
    """Opaque parameters of 10 KiB may hold thousands of brackets, and stop a naive decoder for good."""
    deep = b"[" * 5000 + b"]" * 5000

    def bomb(raw: bytes) -> bytes:
        return raw.replace(b'"BOMB"', deep)

    page = ok(listing(node("a"), node("deep", labels="BOMB"), node("z")))
    change = ok(event("MODIFIED", node("deep", "11", labels="BOMB"))).body + b"\n"
    transport = Scripted(
        type(page)(200, {}, bomb(page.body)), streams=[[bomb(change), event("ADDED", node("b", "12"))]]
    )
    assert await followed(transport) == [["listed", "a", "z"], "?deep", ("b", "12")]
    assert watches(transport) == ["10", "12"]


async def test_an_error_of_the_sink_is_not_taken_for_one_of_the_server():
    def sink(change: Notice) -> None:
        raise Rejected("our own mistake")

    with pytest.raises(Inconsistent, match="our own mistake"):
        await follow(Client(Scripted(ok(listing()))), NODES, sink=sink, random=lambda: 1.0)


async def test_cancelling_ends_the_watch_after_telling_what_was_read():
    told: list[Notice] = []
    transport = Scripted(ok(listing()), streams=[[event("ADDED", node("a", "11")), None]])
    task = asyncio.create_task(follow(Client(transport), NODES, sink=told.append, random=lambda: 1.0))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [brief(change) for change in told] == [["listed"], ("a", "11")]
    assert told[0] == Replaced("Node", (), ())
    assert isinstance(told[1], Changed)
    assert told[1].object.key == ObjectKey("", "a")


async def test_others_run_while_many_events_are_buffered():
    """Who takes the lines of one piece never waits."""
    lines = [json.dumps(event("MODIFIED", node("a", str(version)))) for version in range(11, 11 + 3 * MOST)]
    transport = Scripted(ok(listing()), streams=[["\n".join([*lines, ""]).encode(), None]])
    turns, seen = 0, set[int]()

    async def other() -> None:
        nonlocal turns
        while len(seen) < 4 and turns < 10_000:
            turns += 1
            await asyncio.sleep(0)

    def sink(change: Notice) -> None:
        if isinstance(change, Changed):
            seen.add(turns)

    work = asyncio.create_task(follow(Client(transport), NODES, sink=sink, random=lambda: 1.0))
    await other()
    await asyncio.sleep(1)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert len(seen) >= 3


async def test_waiting_for_an_event_is_no_reason_for_a_break_after_it():
    """A break costs more than the events that come now and then."""
    pairs = [
        [Wait(1), event("MODIFIED", node("a", str(at))), event("MODIFIED", node("a", str(at + 1)))]
        for at in range(12, 12 + MOST // 2, 2)
    ]
    transport = Scripted(ok(listing()), streams=[[step for pair in pairs for step in pair] + [None]])
    others: list[str] = []
    ran: list[int] = []

    def sink(change: Notice) -> None:
        if not isinstance(change, Changed):
            return
        if int(change.object.metadata.resource_version) % 2:  # the second of two
            ran.append(len(others))
        else:
            others.clear()
            asyncio.get_running_loop().call_soon(others.append, "ran")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100):
            await follow(Client(transport), NODES, sink=sink, random=lambda: 1.0)
    assert ran == [0] * len(pairs)


async def test_every_page_and_every_line_counts_as_contact():
    transport = Scripted(
        ok(listing(node("a"))), streams=[[Wait(5), event("ADDED", node("b", "11")), Wait(20)]]
    )
    client = Client(transport)
    loop = asyncio.get_running_loop()
    times: list[float] = []
    began = loop.time()

    def sink(_: Notice) -> None:
        times.append(client.last_contact["Node"] - began)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await follow(client, NODES, sink=sink, random=lambda: 1.0)
    assert times == [0, 5]
    assert loop.time() - began == 10
