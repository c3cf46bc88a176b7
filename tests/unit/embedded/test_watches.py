"""Watches: every change once and in order, from any version that is not compacted."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.embedded import ApiServer, Request, Stream
from tests.tools.driving import CLAIMS, MERGE, PODS, call, claim, ok, pod, refused, take, watch
from tests.tools.examples import examples

STEPS = st.lists(st.tuples(st.sampled_from(["create", "label", "delete"]), st.integers(0, 3)), max_size=30)


def write(api, step, number):
    """One write, if it is valid, and the event that it must cause."""
    name = f"c{number}"
    exists = call(api, "GET", f"{CLAIMS}/{name}")[0] == 200
    if step == "create" and not exists:
        made = ok(api, "POST", CLAIMS, claim(name))
        return [("ADDED", name, made["metadata"]["resourceVersion"])]
    if step == "label" and exists:
        labels = {"metadata": {"labels": {"v": str(api.store.version)}}}
        made = ok(api, "PATCH", f"{CLAIMS}/{name}", labels, media=MERGE)
        return [("MODIFIED", name, made["metadata"]["resourceVersion"])]
    if step == "delete" and exists:
        made = ok(api, "DELETE", f"{CLAIMS}/{name}")
        return [("DELETED", name, made["metadata"]["resourceVersion"])]
    return []


async def test_rapid_changes_are_sent_in_batches():
    """Each chunk costs both sides a system call; the first events are still sent at once."""
    api = ApiServer()
    query = {"watch": "1", "resourceVersion": "1", "timeoutSeconds": "1"}
    answer = api.handle(Request("GET", CLAIMS, query, {}))
    assert isinstance(answer, Stream)

    async def sizes_of_chunks() -> list[int]:
        return [len(chunk.splitlines()) async for chunk in answer.chunks]

    reading = asyncio.create_task(sizes_of_chunks())
    for number in range(60):
        ok(api, "POST", CLAIMS, claim(f"c{number}"))
        await asyncio.sleep(0.0001)
    sizes = await reading
    assert sum(sizes) == 60
    assert sizes[:10] == [1] * 10
    assert max(sizes) > 10


async def seen(api, count, **query):
    found = []
    if count:
        async for event in watch(api, CLAIMS, **query):
            metadata = event["object"]["metadata"]
            found.append((event["type"], metadata["name"], metadata["resourceVersion"]))
            if len(found) == count:
                break
    return found


@examples(50)
@given(before=STEPS, after=STEPS)
def test_a_watch_shows_each_change_once_and_in_order(before, after):
    """From a list's version on, for any history; live changes equal past changes."""

    async def scenario():
        api = ApiServer()
        for step in before:
            write(api, *step)
        version = ok(api, "GET", CLAIMS)["metadata"]["resourceVersion"]
        half = len(after) // 2
        expected = [event for step in after[:half] for event in write(api, *step)]

        async def writer():
            for step in after[half:]:
                await asyncio.sleep(0)
                expected.extend(write(api, *step))
            # One more, so that the reader knows where the end is.
            expected.extend(write(api, "create", 99))

        async def reader():
            found = []
            async for event in watch(api, CLAIMS, resourceVersion=version):
                metadata = event["object"]["metadata"]
                found.append((event["type"], metadata["name"], metadata["resourceVersion"]))
                if metadata["name"] == "c99":
                    return found
            return found

        found, _ = await asyncio.gather(reader(), writer())
        assert found == expected

    asyncio.run(scenario())


async def test_list_then_watch_rebuilds_the_state():
    api = ApiServer()
    for number in range(3):
        write(api, "create", number)
    listing = ok(api, "GET", CLAIMS)
    picture = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listing["items"]}
    for step, number in (("label", 0), ("delete", 1), ("create", 3), ("label", 3)):
        write(api, step, number)
    for type_, name, version in await seen(api, 4, resourceVersion=listing["metadata"]["resourceVersion"]):
        if type_ == "DELETED":
            del picture[name]
        else:
            picture[name] = version
    now = ok(api, "GET", CLAIMS)["items"]
    assert picture == {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in now}


async def test_watchers_share_the_bytes_of_an_event():
    """Watchers share one encoded event."""
    api = ApiServer()
    version = str(api.store.version)
    streams = [
        api.handle(Request("GET", CLAIMS, {"watch": "1", "resourceVersion": version})) for _ in range(2)
    ]
    change = None
    ok(api, "POST", CLAIMS, claim())
    shelf = next(shelf for shelf in api.store if shelf.kind.plural == "resourceclaims")
    change = shelf.since(0, 1)[0]
    for stream in streams:
        assert isinstance(stream, Stream)
        chunk = await anext(stream.chunks)
        assert chunk == change.line(shelf.kind.stored)
        await stream.chunks.aclose()
    assert change.line(shelf.kind.stored) is change.line(shelf.kind.stored)


async def test_a_version_that_was_compacted_gets_a_410():
    api = ApiServer()
    version = ok(api, "POST", CLAIMS, claim("a"))["metadata"]["resourceVersion"]
    ok(api, "POST", CLAIMS, claim("b"))
    api.store.compact()
    events = [event async for event in watch(api, CLAIMS, resourceVersion=version)]
    found = [(event["type"], event["object"]["code"], event["object"]["reason"]) for event in events]
    assert found == [("ERROR", 410, "Expired")]


async def test_compaction_does_not_disturb_current_watches():
    api = ApiServer()
    version = ok(api, "POST", CLAIMS, claim("a"))["metadata"]["resourceVersion"]
    api.store.compact()
    ok(api, "POST", CLAIMS, claim("b"))
    assert await take(api, 1, CLAIMS, resourceVersion=version) == [("ADDED", "b")]


async def test_history_is_bounded_and_a_slow_reader_gets_an_error():
    api = ApiServer(history=4)
    events = watch(api, CLAIMS, resourceVersion=str(api.store.version))
    ok(api, "POST", CLAIMS, claim("a"))
    assert (await anext(events))["object"]["metadata"]["name"] == "a"
    for number in range(20):
        ok(api, "POST", CLAIMS, claim(f"b{number}"))
    assert (await anext(events))["object"]["code"] == 410
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_an_idle_watch_gets_bookmarks_until_its_time_is_over():
    """Each has the version of the whole store, so that watches of a quiet kind stay current."""
    api = ApiServer()
    asked = {
        "resourceVersion": str(api.store.version),
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "150",
    }
    ok(api, "POST", PODS, pod())
    start = asyncio.get_running_loop().time()
    found = [
        (asyncio.get_running_loop().time() - start, event["type"], event["object"]["metadata"])
        async for event in watch(api, CLAIMS, **asked)
    ]
    version = {"resourceVersion": str(api.store.version)}
    assert found == [(60.0, "BOOKMARK", version), (120.0, "BOOKMARK", version)]
    assert asyncio.get_running_loop().time() - start == 150.0


async def test_a_watch_without_timeout_ends_too():
    loop = asyncio.get_running_loop()
    start = loop.time()
    assert [event async for event in watch(ApiServer(), CLAIMS, resourceVersion="1")] == []
    assert loop.time() - start == 1800.0


async def test_a_namespace_and_a_name_narrow_a_watch():
    api = ApiServer()
    start = str(api.store.version)
    ok(api, "POST", CLAIMS.replace("default", "kube-system"), claim("a"))
    ok(api, "POST", CLAIMS, claim("b"))
    ok(api, "POST", CLAIMS, claim("c"))
    assert await take(api, 1, CLAIMS, resourceVersion=start) == [("ADDED", "b")]
    assert await take(api, 1, f"{CLAIMS}/c", resourceVersion=start) == [("ADDED", "c")]
    everywhere = "/apis/resource.k8s.io/v1/resourceclaims"
    assert await take(api, 2, everywhere, resourceVersion=start) == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_watch_without_initial_events_starts_now():
    api = ApiServer()
    ok(api, "POST", CLAIMS, claim("a"))
    asked = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    events = watch(api, CLAIMS, **asked)
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    ok(api, "POST", CLAIMS, claim("b"))
    assert (await waiting)["object"]["metadata"]["name"] == "b"
    await events.aclose()


async def test_a_cancelled_reader_leaves_no_waiter():
    api = ApiServer()
    shelf = next(shelf for shelf in api.store if shelf.kind.plural == "resourceclaims")
    events = watch(api, CLAIMS, resourceVersion=str(api.store.version))
    waiting = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    assert len(shelf._waiters) == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(shelf._waiters) == 0


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ({"sendInitialEvents": "true"}, (422, "Invalid")),
        ({"resourceVersionMatch": "NotOlderThan"}, (422, "Invalid")),
        ({"timeoutSeconds": "soon"}, (400, "BadRequest")),
        (
            {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "resourceVersion": "9999"},
            (504, "Timeout"),
        ),
    ],
)
def test_an_invalid_watch_is_refused_at_once(query, answer):
    assert refused(ApiServer(), "GET", CLAIMS, watch="true", **query) == answer
