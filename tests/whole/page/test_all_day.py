"""The page as it is used all day: ages go on, a lost connection is named, and updates move nothing."""

from datetime import timedelta

import pytest

from perf.fleets import mig
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.fields import age, timestamp
from reconciler.operations.page import routes
from reconciler.operations.page.sources import PendingUnit
from tests.tools.browsing import Browser
from tests.tools.page_fleets import small
from tests.tools.still_page import NOON, Still, standing

pytestmark = pytest.mark.loopback

SECONDS = (
    0, 119, 120, 150,
    599, 600, 10_799, 10_800,
    28_799, 28_800, 172_799, 172_800,
    691_199, 691_200, 10**8,
)  # fmt: skip


def wait(still: Still, name: str, seconds: int, reason: str = "DevicesInUse") -> None:
    key = ObjectKey("team", name)
    still.waiting.append(PendingUnit("claim", key, (key,), reason, "few are free"))
    still.created["claim", key] = timestamp(NOON - timedelta(seconds=seconds))


async def test_the_script_prints_ages_as_the_server_does(browser: Browser, monkeypatch: pytest.MonkeyPatch):
    """The server's clock counts, which here stands still; a later message moves it."""
    monkeypatch.setattr(routes, "BEAT_SECONDS", 0.0)
    async with standing(small()) as still:
        for seconds in SECONDS:
            wait(still, f"c-{seconds}", seconds)
        await browser.live(f"{still.url}/?reason=DevicesInUse")
        still.now = NOON + timedelta(hours=5)
        ages = [
            age(timestamp(NOON), still.now + timedelta(seconds=seconds))
            for seconds in sorted(SECONDS, reverse=True)
            if seconds >= 28_800 or seconds in (600, 10_800)  # shown in hours, so a slow test changes none
        ]
        shown = (
            "const wanted = arguments[0];"
            "const now = [...document.querySelectorAll('#waiting li time')].map((one) => one.textContent);"
            "return wanted.every((one) => now.includes(one))"
        )
        await browser.until(shown.replace("arguments[0]", repr(ages)))
        assert await browser.said() == []


async def test_a_lost_connection_is_named_with_the_time_of_the_data(browser: Browser):
    async with standing(small()) as still:
        await browser.live(still.url)
        assert await browser.run("return document.getElementById('stale').hidden")
        before = await browser.run("return document.querySelector('main').getBoundingClientRect().top")
    told = await browser.until("return document.getElementById('stale').textContent")
    assert told == "Not connected. The page shows the state as of 2026-03-01 12:00:00 UTC."
    assert await browser.run("return document.getElementById('stale').checkVisibility()")
    after = await browser.run("return document.querySelector('main').getBoundingClientRect().top")
    assert after == before


async def test_a_paused_page_says_of_when_it_is(browser: Browser):
    async with standing(small()) as still:
        await browser.live(still.url)
        await browser.run("document.getElementById('hold').click()")
        told = await browser.run("return document.getElementById('stale').textContent")
        assert told.startswith("Paused. The page shows the state as of 2026-03-01 12:00:00")
        await browser.run("document.getElementById('hold').click()")
        await browser.until("return document.getElementById('stale').hidden")


async def test_what_was_closed_stays_closed_and_what_was_read_stays_in_place(browser: Browser):
    async with standing(mig.fleet(5)) as still:
        for at in range(30):
            wait(still, f"c-{at:02}", 60 * (100 - at), ("DevicesInUse", "ClassNotFound")[at % 2])
        await browser.size(1400, 700)
        await browser.live(still.url)
        await browser.run("document.querySelector('#waiting details').open = false")
        await browser.run("document.querySelector('.lists').scrollTop = 150; scrollTo(0, 900)")
        before = await browser.run("return [scrollY, document.querySelector('.lists').scrollTop]")
        await browser.mark()
        wait(still, "another", 5, "ClassNotFound")
        await browser.until("return !document.getElementById('waiting').marked")
        opened = "return [...document.querySelectorAll('#waiting details')].map((one) => one.open)"
        assert await browser.run(opened) == [False, True]
        assert await browser.run("return [scrollY, document.querySelector('.lists').scrollTop]") == before


async def test_lists_are_beside_the_map_on_wide_screens_and_links_jump_past_the_bar(browser: Browser):
    async with standing(mig.fleet(5)) as still:
        wait(still, "c", 5)
        await browser.size(1400, 900)
        await browser.live(still.url)
        place = (
            "const at = (id) => document.getElementById(id).getBoundingClientRect();"
            "return [at('map').top - at('waiting').top, at('map').left > at('waiting').right]"
        )
        assert await browser.run(place) == [0, True]
        await browser.size(390, 900)
        for name in ("map", "nodes", "waiting", "fleet"):
            await browser.run("document.querySelector(`#jump a[href='#${arguments[0]}']`).click()", name)
            top = await browser.run(
                "return document.getElementById(arguments[0]).getBoundingClientRect().top", name
            )
            bar = await browser.run("return document.getElementById('jump').getBoundingClientRect().bottom")
            assert bar - 1 <= top <= 450, name
