"""The page over HTTP as a browser without scripts gets it, of a reconciler at work."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.operations.page import routes
from reconciler.operations.page.sources import Fact, PendingUnit
from tests.tools.page_documents import Seen, page
from tests.tools.page_fleets import (
    HOSTILE,
    LONG,
    QUOTES,
    TURNED,
    demonstration,
    hostile,
    hostile_claims,
    small,
)
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim
from tests.tools.still_page import standing
from tests.tools.watched_reconciler import Watched, ask, watched

pytestmark = pytest.mark.loopback


@asynccontextmanager
async def settled(
    objects: list[Any], allocated: int, waits: int, **flags: Any
) -> AsyncIterator[tuple[Watched, Cluster]]:
    """A reconciler that has decided so much."""
    cluster = Cluster(objects)
    async with watched(cluster, **flags) as seen:
        await seen.heard(Allocated, allocated)
        await seen.heard(Waits, waits)
        yield seen, cluster


def is_allocated(one: Any, name: str) -> bool:
    return bool(one["metadata"]["name"] == name and one.get("status", {}).get("allocation"))


def rows(found: Seen) -> set[str]:
    """The pending claims and pods that are listed."""
    links = [str(a["aria-label"]) for a in found.all("a") if str(a["href"]).startswith("/explanation")]
    return {link.removeprefix("Why ").removesuffix(" is pending").partition(" ")[2] for link in links}


async def test_the_page_shows_devices_holders_and_pending_claims():
    async with settled(small(), 1, 1) as (seen, _):
        found = await page(seen)
        rows = re.search(r"gpu.example.com (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)", found.text)
        assert rows is not None
        assert rows.groups() == ("1", "0", "3", "0", "0", "4")
        assert "1 claim is pending. NoMatchingDevice 1 claim" in found.text
        assert "the request needs 9 devices" in found.text
        assert "Mode allocating" in found.text
        assert "Devices held twice 0" in found.text
        assert len(found.charts) == 2
        labels = [str(svg["aria-label"]) for svg in found.all("svg", role="img")]
        told = "devices: 1 held by 1 claim, 1 free, 0 blocked"
        assert f"Devices 1 to 2 of n1: {told}" in labels
        assert "default/first" in found.text


async def test_partitions_are_drawn_by_slot_amount_and_profile():
    """The fleet of the demonstration: a claim holds four partitions of one A100."""
    async with settled(demonstration(), 3, 3) as (seen, cluster):
        await cluster.until(lambda: any(is_allocated(one, "mig-mix") for one in cluster.claims()))
        found = await page(seen, "/?claim=inference/mig-mix")
        (only,) = found.charts
        assert only
        assert "memory-slice" in found.text
        assert "0 of 8 free" in found.text
        assert "multiprocessors 98 0" in found.text  # the table in words
        held = [one for one in found.all("rect") if str(one["class"]).startswith("held c")]
        # four partitions: among the slots, and each in the row of its profile; four counters
        assert len(held) == 4 + 4 + 4
        assert {one["class"] for one in held} == {held[0]["class"]}
        for profile in ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"):
            assert profile in found.text


async def test_filters_work_without_scripts_and_show_in_their_fields():
    async with settled(small(), 1, 1) as (seen, _):
        (on_n1,) = (await page(seen, "/?node=n1")).charts
        (on_n2,) = (await page(seen, "/?node=N2")).charts
        assert on_n1 != on_n2
        assert len((await page(seen, "/?node=n")).charts) == 2
        assert len((await page(seen, "/?driver=example")).charts) == 2
        assert not (await page(seen, "/?driver=other")).charts
        both = await page(seen, "/?node=n1&claim=default/first")
        assert list(both.charts) == [on_n1]
        assert both.all("input", name="claim")[0]["value"] == "default/first"
        assert not (await page(seen, "/?node=n2&claim=default/first")).charts
        assert "None of 2" in (await page(seen, "/?claim=nobody")).text
        assert "default/greedy" not in rows(await page(seen, "/?claim=nobody"))
        assert "default/greedy" in rows(await page(seen, "/?claim=GREEDY"))


async def test_long_maps_have_pages_that_stay_within_bounds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("reconciler.operations.page.map.A_PAGE", 1)
    async with settled(small(), 1, 1) as (seen, _):
        first, second, beyond = [await page(seen, f"/?page={number}") for number in (1, 2, 99)]
        assert len(first.charts) == len(second.charts) == 1
        assert first.charts.keys() != second.charts.keys()
        assert beyond.charts == second.charts
        assert first.all("a", rel="next")[0]["href"] == "/?page=2#map"
        assert second.all("a", rel="prev")
        assert not second.all("a", rel="next")
        assert "Page 1 of 2" in first.text


async def test_nothing_comes_from_elsewhere_and_nothing_else_may_run():
    async with settled(small(), 1, 1) as (seen, _):
        answer = await seen.get("/")
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["Cache-Control"] == "no-store"
        found = Seen(answer.text)
        assert len(found.all("script")) == len(found.all("style")) == 1
        for tag, attributes in found.elements:
            assert not [name for name in attributes if name.startswith("on") or name == "style"], tag
            for name in ("src", "href"):
                where = attributes.get(name) or "/"
                assert where.startswith(("/", "#", "data:image/svg+xml,")), where
                assert not where.startswith("//")


async def test_hostile_names_are_escaped():
    async with standing(hostile()) as still:
        still.allocate(*hostile_claims())
        still.facts.append(Fact(HOSTILE, QUOTES, alert=True))
        key = ObjectKey(HOSTILE, QUOTES)
        still.waiting += [
            PendingUnit("pod", key, (key, ObjectKey(TURNED, LONG)), HOSTILE, QUOTES),
            PendingUnit("claim", ObjectKey("\udc80", "x"), (), TURNED, LONG),
        ]
        for query in ("", f"?{urlencode({'claim': HOSTILE, 'node': QUOTES})}", "?node=%ff%fe"):
            answer = await ask(f"{still.url}/{query}")
            assert answer.status == 200
            found = Seen(answer.text)
            assert len(found.all("script")) == len(found.all("style")) == 1
            assert not found.all("img")
            assert TURNED[0] not in answer.text
            assert LONG not in answer.text
            assert "{{7*7}}" in found.text
        found = Seen((await ask(still.url)).text)
        assert len(found.charts) == 2
        assert HOSTILE in found.text
        assert QUOTES in found.text
        assert "�evil�" in found.text
        for link in {str(link["href"]) for link in found.all("a") if str(link["href"]).startswith("/")}:
            again = Seen((await ask(f"{still.url}{link}")).text)
            assert len(again.all("script")) == (0 if link.startswith("/explanation") else 1)
            assert not again.all("img")


async def test_a_filter_that_was_clicked_shows_what_it_was_clicked_on():
    """Names survive the way through an address, odd ones too."""
    async with standing(hostile()) as still:
        still.allocate(*hostile_claims())
        found = Seen((await ask(still.url)).text)
        links = {str(link["href"]) for link in found.all("a") if "claim=" in str(link["href"])}
        links = {link for link in links if not link.endswith("%2F")}  # of namespaces
        assert len(links) == len(hostile_claims())
        for link in links:
            assert len(Seen((await ask(f"{still.url}{link}")).text).charts) == 1


class Listener:
    """Reads server-sent events."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def state(self) -> dict[str, str]:
        """Part -> version, of the next message."""
        async with asyncio.timeout(PATIENCE):
            async for line in self._response.content:
                if line.startswith(b"data: "):
                    versions: dict[str, str] = json.loads(line.removeprefix(b"data: "))["versions"]
                    return versions
        raise AssertionError("the stream ended")

    async def until(self, true: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        while True:
            if true(state := await self.state()):
                return state


@asynccontextmanager
async def listening(seen: Watched, query: str = "") -> AsyncIterator[Listener]:
    async with aiohttp.ClientSession() as session, session.get(f"{seen.url}/events{query}") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        yield Listener(response)


async def test_events_name_the_parts_that_changed_and_no_others():
    async with settled(small(), 1, 1) as (seen, cluster), listening(seen) as heard:
        before = await heard.state()
        assert before == {**before, **(await page(seen)).charts}
        (first,) = (await page(seen, "/?claim=default/first")).charts
        cluster.load(claim("second", 1))
        await seen.heard(Allocated, 2)
        after = await heard.until(lambda now: now["fleet"] != before["fleet"])
        changed = {part for part in after if after[part] != before[part]}
        # first fit: the other device of the same node
        assert changed == {"heat", "fleet", "namespaces", "hour", "nodes", first}
        answer = await seen.get(f"/fragments?id={first}&id=fleet")
        parts = Seen(answer.text)
        assert parts.charts == {first: after[first]}
        assert "default/second" in parts.text
        assert not parts.all("section", id="map")


EVERYWHERE = {"heat", "fleet", "namespaces", "hour"}
"""What filters do not change"""


async def test_a_filtered_page_hears_only_of_what_it_shows():
    async with settled(small(), 1, 1) as (seen, cluster), listening(seen, "?node=n2") as heard:
        before = await heard.state()
        found = before.keys() - {"head", "filters", *EVERYWHERE, "waiting", "nodes", "map", "jump"}
        assert found == (await page(seen, "/?node=n2")).charts.keys()
        cluster.load(claim("second", 1))
        await seen.heard(Allocated, 2)
        after = await heard.until(lambda now: now["fleet"] != before["fleet"])
        assert {part for part in after if after[part] != before[part]} == EVERYWHERE


async def test_the_number_of_open_pages_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(routes, "MOST_CLIENTS", 1)
    async with settled(small(), 1, 1) as (seen, _):
        async with listening(seen) as heard:
            await heard.state()
            async with asyncio.timeout(PATIENCE):
                refused = await seen.get("/events")
            assert refused.status == 503
            assert "Retry-After" in refused.headers

        async def answered() -> bool:
            async with aiohttp.ClientSession() as session, session.get(f"{seen.url}/events") as response:
                return response.status == 200

        await seen.until(answered)


async def test_a_quiet_stream_says_that_it_lives(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(routes, "BEAT_SECONDS", 0.0)
    async with (
        settled(small(), 1, 1) as (seen, _),
        aiohttp.ClientSession() as session,
        session.get(f"{seen.url}/events") as response,
        asyncio.timeout(PATIENCE),
    ):
        async for line in response.content:
            if line == b"event: alive\n":
                break


async def test_streams_end_with_the_process():
    async with settled(small(), 1, 1) as (seen, _), listening(seen) as heard:
        await heard.state()
        seen.stop.set()
        with pytest.raises(AssertionError, match="the stream ended"):
            await heard.until(lambda _: False)


async def test_explanations_are_limited():
    async with settled(small(), 1, 1) as (seen, _):
        (link,) = [a for a in (await page(seen)).all("a") if str(a["href"]).startswith("/explanation")]
        found = await page(seen, str(link["href"]))
        assert "NoMatchingDevice" in found.text
        assert "What to do:" in found.text
        assert "Request r" in found.text
        assert "Needed: 9" in found.text
        answers = [await seen.get(str(link["href"])) for _ in range(5)]
        busy = [answer for answer in answers if answer.status == 429]
        assert busy
        assert "Retry-After" in busy[0].headers
        assert (await seen.get("/explanation?kind=node&name=n1")).status == 400


async def test_a_claim_that_needs_nothing_is_not_explained():
    async with settled(small(), 1, 1) as (seen, _):
        found = await page(seen, "/explanation?kind=claim&namespace=default&name=first")
        assert "There is nothing to decide" in found.text


async def test_alerts_are_shown_in_the_header():
    async with settled(small(), 0, 1, pause=True) as (seen, _):
        found = await page(seen)
        assert "Writes" in found.text
        assert "paused" in found.text
        assert found.all("div", class_="alert")


async def test_the_page_asks_for_the_token_like_everything_else(tmp_path):
    file = tmp_path / "token"
    file.write_text("sesame")
    async with settled(small(), 1, 1, status_token_file=file) as (seen, _):
        for path in ("/", "/events", "/fragments?id=head", "/explanation?kind=claim&name=x"):
            assert (await seen.get(path)).status == 401
        assert (await seen.get("/", Authorization="Bearer sesame")).status == 200
