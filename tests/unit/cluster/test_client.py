"""Answers become values or errors that say what to do next."""

import asyncio
from contextlib import aclosing, suppress
from typing import Any

import pytest

from reconciler.api.objects.meta import ObjectKey
from reconciler.cluster.client import Client
from reconciler.cluster.discovery import negotiate
from reconciler.cluster.kinds import POD, resource_of
from reconciler.cluster.transport import Response
from reconciler.cluster.watch import follow
from reconciler.errors import Conflict, Gone, Protected, Rejected, Relist, Retry, Undecided
from tests.tools.cluster_objects import CLAIMS, NODES, listing, node
from tests.tools.scripted_transport import Scripted, ok, status

KEY = ObjectKey("default", "p")

STATUSES = [
    (400, Rejected, Rejected), (401, Retry, Retry), (403, Rejected, Rejected),
    (404, Gone, Gone), (405, Rejected, Rejected), (408, Retry, Retry),
    (409, Conflict, Conflict), (410, Relist, Relist), (413, Rejected, Rejected),
    (415, Rejected, Rejected), (422, Rejected, Rejected), (429, Retry, Retry),
    (500, Retry, Undecided), (502, Retry, Undecided), (503, Retry, Retry),
    (504, Retry, Undecided), (302, Rejected, Rejected),
]  # fmt: skip


@pytest.mark.parametrize(("code", "of_a_read", "of_a_write"), STATUSES)
async def test_a_status_says_what_to_do_next(code, of_a_read, of_a_write):
    client = Client(Scripted(status(code, "because"), status(code, "because")))
    with pytest.raises(of_a_read, match=f"GET .*/pods/p: {code} because") as read:
        await client.get(POD, KEY)
    with pytest.raises(of_a_write, match=f"PATCH .*/pods/p: {code} because") as write:
        await client.patch(POD, KEY, {})
    assert (type(read.value), type(write.value)) == (of_a_read, of_a_write)


RBAC = 'pods "p" is forbidden: User "u" cannot get resource "pods" in API group ""'
POLICY = "pods 'p' is forbidden: ValidatingAdmissionPolicy 'x' denied request: you cannot do that"
WEBHOOK = 'admission webhook "validate.example.com" denied the request: label "team" cannot be empty'
NODE = 'nodes "a" is forbidden: node "b" is not allowed to modify node "a"'


@pytest.mark.parametrize(
    ("code", "said", "remedy"),
    [
        (401, "Unauthorized", "renew the credentials"),
        (403, RBAC, "grant it this right"),
        (403, POLICY, ""),
        (403, WEBHOOK, ""),
        (403, NODE, ""),
    ],
)
async def test_a_refusal_for_lack_of_rights_says_what_helps_and_others_speak_for_themselves(
    code: int, said: str, remedy: str
):
    with pytest.raises((Retry, Rejected)) as caught:
        await Client(Scripted(status(code, said))).get(POD, KEY)
    before, _, after = str(caught.value).partition(said)
    assert before.endswith(f"{code} ")
    assert after.startswith(f": {remedy}" if remedy else "")
    assert bool(after) == bool(remedy)


@pytest.mark.parametrize(
    ("details", "wanted"),
    [
        ({"causes": [{"reason": "Other"}, {"reason": "DisruptionBudget"}]}, Protected),
        ({"causes": [{"reason": "Other"}, "DisruptionBudget"]}, Retry),
        ({"causes": None, "retryAfterSeconds": 1}, Retry),
        (None, Retry),
    ],
)
async def test_an_eviction_that_a_budget_does_not_allow_is_told_from_a_busy_server(details: Any, wanted: Any):
    client = Client(Scripted(status(429, "Cannot evict pod", details=details)))
    with pytest.raises(Retry) as caught:
        await client.evict(POD, KEY, {})
    assert type(caught.value) is wanted


async def test_creating_what_exists_is_a_conflict():
    """Two candidates create one Lease: the loser reads it and decides afresh."""
    client = Client(Scripted(status(409, "exists", reason="AlreadyExists")))
    with pytest.raises(Conflict):
        await client.create(POD, {"metadata": {"name": "p", "namespace": "default"}})


DETAILS: dict[str, Any] = {"details": {"retryAfterSeconds": 3}}
WAITS = [
    pytest.param(status(429, headers={"Retry-After": "17"}, **DETAILS), 17, id="the header"),
    pytest.param(status(429, **DETAILS), 3, id="the details"),
    pytest.param(status(504, **DETAILS), 3, id="a timeout"),
    pytest.param(status(429), 0, id="neither"),
    pytest.param(status(503, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), 0, id="a date"),
    pytest.param(status(429, headers={"Retry-After": "-5"}), 0, id="a negative number"),
    pytest.param(status(429, headers={"Retry-After": "99999999999"}), 300, id="three thousand years"),
    pytest.param(Response(503, {}, b'{"details": null}'), 0, id="null details"),
]


@pytest.mark.parametrize(("answer", "seconds"), WAITS)
async def test_how_long_to_stay_away_is_passed_on(answer, seconds):
    with pytest.raises(Retry) as caught:
        await Client(Scripted(answer)).get(POD, KEY)
    assert caught.value.after == seconds


@pytest.mark.parametrize("body", [b"404 page not found\n", b"", b"\xff\xfe", b"[]", b'"text"'])
async def test_an_error_without_a_status_object_is_still_an_error(body):
    with pytest.raises(Gone):
        await Client(Scripted(Response(404, {}, body))).fetch("/apis/nope")


async def test_an_answer_that_is_no_json_leaves_a_write_undecided():
    answer = Response(200, {}, b"<html>")
    client = Client(Scripted(answer, answer))
    with pytest.raises(Retry):
        await client.get(POD, KEY)
    with pytest.raises(Undecided):
        await client.patch(POD, KEY, {})


async def test_a_listing_from_something_else_is_tried_again():
    """A proxy's login page, for instance, with status 200."""
    with pytest.raises(Retry, match="no listing"):
        [page async for page in Client(Scripted(ok("welcome"))).list_pages(NODES, limit=5)]


async def test_pages_follow_each_other_until_no_token_is_left():
    client = Client(Scripted(ok(listing(node("a"), token="t")), ok(listing(node("b"), version="12"))))
    pages = [page async for page in client.list_pages(NODES, limit=1)]
    assert [(len(page.items), page.version) for page in pages] == [(1, "10"), (1, "12")]


async def test_pages_of_large_objects_hold_fewer_of_them():
    large = node("a", annotations={"a": "x" * 100_000})
    pages = [ok(listing(one, token="t")) for one in (large, node("b"), large, large)]
    transport = Scripted(*pages, ok(listing()))
    assert len([page async for page in Client(transport).list_pages(NODES, limit=500)]) == 5
    assert [asked.query["limit"] for asked in transport.requests] == ["500", "20", "40", "20", "20"]


async def test_an_empty_page_is_followed_by_a_larger_one():
    """A server may send one with a token: nothing says how large objects are."""
    transport = Scripted(ok(listing(token="t")), ok(listing()))
    assert len([page async for page in Client(transport).list_pages(NODES, limit=5)]) == 2
    assert [asked.query["limit"] for asked in transport.requests] == ["5", "10"]


async def test_a_page_that_nobody_waits_for_any_more_is_dropped():
    """Neither is its error reported, nor does it stay under way."""
    client = Client(Scripted(ok(listing(node("a"), token="t")), Retry("too late")))
    async with aclosing(client.list_pages(NODES, limit=1)) as pages:
        async for _ in pages:
            await asyncio.sleep(0)
            break
    assert len(asyncio.all_tasks()) == 1


async def test_a_listing_whose_items_are_null_is_empty():
    answer = {**listing(), "items": None}
    assert [page.items async for page in Client(Scripted(ok(answer))).list_pages(NODES, limit=5)] == [[]]


async def test_every_verb_goes_to_its_path():
    body = {"metadata": {"name": "c", "namespace": "ns"}}
    transport = Scripted(*[ok(body)] * 5)
    client = Client(transport)
    key = ObjectKey("ns", "c")
    await client.get(CLAIMS, key)
    await client.create(CLAIMS, body)
    await client.patch(CLAIMS, key, {}, subresource="status")
    await client.delete(CLAIMS, key)
    await client.get(NODES, ObjectKey("", "n"))
    path = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"
    assert [(asked.method, asked.path) for asked in transport.requests] == [
        ("GET", f"{path}/c"),
        ("POST", path),
        ("PATCH", f"{path}/c/status"),
        ("DELETE", f"{path}/c"),
        ("GET", "/api/v1/nodes/n"),
    ]


async def test_a_kind_is_followed_in_the_version_that_is_served_now():
    """An upgrade from 1.36 to 1.37 takes v1alpha2 of PodGroups away."""

    def group(name: str) -> Any:
        return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"schedulingPolicy": {"basic": {}}}}

    def versions(*served: str) -> Any:
        return ok({"versions": [{"version": one} for one in served]})

    groups = ok({"resources": [{"name": "podgroups", "verbs": ["list", "watch"]}]})
    transport = Scripted(
        *(versions("v1alpha2"), groups, ok(listing(group("a")))),
        status(404),  # of the group, which no version is switched on of
        *(versions("v1alpha3", "v1beta1"), groups, ok(listing(group("b")))),
        streams=[[], status(404)],
    )
    client, told = Client(transport), list[Any]()
    failures = list[str]()
    work = follow(
        client,
        resource_of("PodGroup"),
        sink=told.append,
        random=lambda: 1.0,
        on_error=lambda exc: failures.append(str(exc)),
        choose=lambda: negotiate(client, "PodGroup"),
    )
    with suppress(TimeoutError):
        async with asyncio.timeout(10_000):
            await work
    assert [[one.metadata.name for one in change.objects] for change in told] == [["a"], ["b"]]
    found = [asked.path.split("/")[3] for asked in transport.requests if asked.path.endswith("/podgroups")]
    assert found == [*("v1alpha2", "v1alpha2", "v1alpha2"), *("v1beta1", "v1beta1")]
    assert "does not serve PodGroup of scheduling.k8s.io in v1beta1 or v1alpha3 or v1alpha2" in failures[-1]
