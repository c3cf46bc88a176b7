"""The page in a real browser: what it draws, filters and follows, for hands, eyes and ears."""

import re
from itertools import pairwise
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from perf.fleets import mig
from perf.fleets.objects import claim as bare_claim
from reconciler.control.decisions.allocating import Allocated, Waits
from tests.tools import builders
from tests.tools.browsing import Browser
from tests.tools.page_fleets import demonstration, hostile, hostile_claims, small
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import claim
from tests.tools.still_page import standing
from tests.tools.watched_reconciler import watched

pytestmark = pytest.mark.loopback

THEME = "prefers-color-scheme"


async def test_the_page_of_the_demonstration_renders_without_a_word_of_complaint(browser: Browser):
    cluster = Cluster(demonstration())
    async with watched(cluster) as seen:
        await seen.heard(Allocated, 3)
        await seen.heard(Waits, 3)
        await browser.live(seen.url)
        assert await browser.run("return document.querySelectorAll('article').length") == 5
        drawn = await browser.until(
            "return [...document.querySelectorAll('article rect.held')]"
            ".map((one) => [one.getBoundingClientRect().width, getComputedStyle(one).fill])"
        )
        assert all(width > 5 and fill != "rgb(0, 0, 0)" for width, fill in drawn)
        titles = "return [...document.querySelectorAll('article rect title')].map((t) => t.textContent)"
        assert any("held by inference/mig-mix" in title for title in await browser.run(titles))
        assert await browser.said() == []


SWAPPED = ["SECTION"] * 5 + ["ARTICLE"]
"""Heat map, fleet, namespaces, last hour, nodes, and one chart"""


async def test_an_allocation_appears_by_itself_and_touches_nothing_else(browser: Browser):
    cluster = Cluster(small())
    async with watched(cluster) as seen:
        await seen.heard(Allocated)
        await seen.heard(Waits)
        await browser.live(seen.url)
        await browser.until("return document.body.textContent.includes('default/first')")
        await browser.mark()
        cluster.load(claim("second"))
        await seen.heard(Allocated, 2)
        await browser.until("return document.body.textContent.includes('default/second')")
        await browser.until("return !document.getElementById('fleet').marked")
        assert await browser.swapped() == SWAPPED
        assert await browser.said() == []


async def test_an_update_takes_neither_the_focus_nor_what_was_opened(browser: Browser):
    async with standing(one_gpu()) as still:
        still.allocate(*claims_for(2)[:1])
        await browser.live(still.url)
        await browser.mark()
        await browser.run(
            "const told = document.querySelector('article details'); told.open = true;"
            "told.querySelector('summary').focus()"
        )
        still.allocate(*claims_for(2)[1:])
        await browser.until("return !document.querySelector('article').marked")
        assert await browser.run("return document.querySelector('article details').open")
        assert await browser.run("return document.activeElement.textContent") == "As text"


async def test_filters_are_filled_in_and_sent_from_the_keyboard(browser: Browser):
    cluster = Cluster(small())
    async with watched(cluster) as seen:
        await seen.heard(Allocated)
        await browser.live(seen.url)
        await browser.run("document.querySelector('input[name=node]').focus()")
        await browser.press("n2", Keys.ENTER)
        await browser.until("return location.search.includes('node=n2')")
        await browser.until("return document.querySelectorAll('article').length === 1")
        await browser.until("return document.getElementById('live').textContent === 'Live'")
        assert await browser.said() == []


async def test_everything_is_reached_by_the_keyboard_and_has_a_name(browser: Browser):
    async with standing(one_gpu()) as still:
        still.allocate(*claims_for(2))
        await browser.live(still.url)
        await browser.press(Keys.TAB)
        assert await browser.run("return document.activeElement.className") == "skip"
        assert await browser.run("return document.activeElement.getBoundingClientRect().top >= 0")
        await browser.press(Keys.ENTER)
        assert await browser.until("return document.activeElement.id === 'map'")
        stops = []
        for _ in range(60):
            await browser.press(Keys.TAB)
            where = await browser.run(
                "const a = document.activeElement; return a === document.body ? null : "
                "[(a.getAttribute('aria-label') || a.textContent).trim(), getComputedStyle(a).outlineStyle]"
            )
            if where is None or where in stops:
                break
            stops.append(where)
        assert any("A: claim default/c-0 holds" in name for name, _ in stops)
        assert any(name.endswith("as text") for name, _ in stops)
        assert all(name and outline != "none" for name, outline in stops)


async def test_who_cannot_see_is_told_by_structure(browser: Browser):
    """What checkers of accessibility look for first, of the tree that a screen reader is given."""
    async with standing(hostile()) as still:
        still.allocate(*hostile_claims())
        await browser.live(still.url)
        nodes = (await browser.do(lambda driver: driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})))[
            "nodes"
        ]
        tree = [
            (n.get("role", {}).get("value", ""), n.get("name", {}).get("value", ""))
            for n in nodes
            if not n["ignored"]
        ]
        roles = {role for role, _ in tree}
        parts = {"banner", "main", "search", "heading", "table", "rowheader", "columnheader", "status"}
        assert parts <= roles
        for wanted in ("link", "button", "textbox", "image", "heading", "table", "article", "region"):
            nameless = [role for role, name in tree if role == wanted and not name.strip()]
            assert nameless == [], wanted
        assert await browser.run("return document.documentElement.lang") == "en"
        assert await browser.run("return document.title")
        ids = await browser.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))
        levels = await browser.run(
            "return [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => +h.tagName[1])"
        )
        assert levels[0] == 1
        assert all(later <= before + 1 for before, later in pairwise(levels))


async def test_names_that_mean_harm_do_none(browser: Browser):
    async with standing(hostile()) as still:
        still.allocate(*hostile_claims()[:1])
        await browser.size(400, 900)
        await browser.live(still.url)
        still.allocate(*hostile_claims()[1:])
        await browser.until("return document.querySelectorAll('.legend li').length >= 3")
        assert await browser.run("return window.harm === undefined")
        assert await browser.run("return document.querySelectorAll('img').length") == 0
        assert await browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert await browser.said() == []


async def test_the_policy_stops_what_would_be_written_into_the_page(browser: Browser):
    """If a name ever got through, it still could not run."""
    async with standing(one_gpu()) as still:
        await browser.live(still.url)
        await browser.run(
            "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.harm=1\">')"
        )
        await browser.run(
            "const made = document.createElement('script'); made.textContent = 'window.harm=1';"
            "document.body.append(made)"
        )
        assert await browser.run("return window.harm === undefined")
        assert any("Content Security Policy" in message for message in await browser.said())


@pytest.mark.parametrize(("theme", "width"), [("dark", 1400), ("light", 360)])
async def test_both_themes_fit_on_wide_and_on_narrow_screens(browser: Browser, theme: str, width: int):
    async with standing(one_gpu()) as still:
        still.allocate(*claims_for(3))
        await browser.size(width, 900)
        await browser.media(THEME, theme)
        await browser.live(still.url)
        colour = await browser.run("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", colour))) > 3 * 128) == (theme == "light")
        assert await browser.run("return document.documentElement.scrollWidth <= innerWidth")


async def test_updates_can_be_held_and_nothing_moves_for_who_wants_that(browser: Browser):
    async with standing(one_gpu()) as still:
        await browser.media("prefers-reduced-motion", "reduce")
        await browser.live(still.url)
        await browser.run("document.getElementById('hold').click()")
        assert await browser.run("return document.getElementById('live').textContent") == "Paused"
        still.allocate(*claims_for(1))
        await browser.run("document.getElementById('hold').click()")
        await browser.until("return document.body.textContent.includes('default/c-0')")
        fresh = (
            "const f = document.querySelector('article.fresh'); return f && getComputedStyle(f).animationName"
        )
        assert await browser.until(fresh) == "none"


async def test_without_scripts_everything_is_there_but_updates(browser: Browser):
    async with standing(one_gpu()) as still:
        still.allocate(*claims_for(1))
        await browser.do(
            lambda driver: driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        )
        try:
            await browser.open(still.url)
            text = await browser.do(lambda driver: driver.find_element(By.TAG_NAME, "body").text)
            assert "default/c-0" in text
            assert "Pause updates" not in text
            await browser.do(lambda driver: driver.find_element(By.CSS_SELECTOR, ".legend a").click())
            assert "claim=default%2Fc-0" in await browser.do(lambda driver: driver.current_url)
        finally:
            await browser.do(
                lambda driver: driver.execute_cdp_cmd(
                    "Emulation.setScriptExecutionDisabled", {"value": False}
                )
            )


async def test_ten_thousand_devices_are_a_page_of_bounded_size(browser: Browser):
    """50 nodes with 8 A100 each: 10,400 devices on 400 GPUs. An update swaps one chart of them."""
    async with standing(mig.fleet(50)) as still:
        wants = [bare_claim(f"c-{at}", [mig.partition("p", "1g.5gb")]) for at in range(20)]
        still.allocate(*wants[:19])
        await browser.live(still.url)
        assert await browser.run("return document.querySelectorAll('article').length") == 0
        assert await browser.run("return document.querySelectorAll('.cell').length") == 50
        await browser.live(f"{still.url}/?page=1")
        assert await browser.run("return document.querySelectorAll('article').length") == 24
        assert await browser.run("return document.querySelectorAll('*').length") < 10_000
        assert "10400" in await browser.run("return document.getElementById('fleet').textContent")
        await browser.mark()
        still.allocate(*wants[19:])
        await browser.until("return !document.getElementById('fleet').marked")
        await browser.until("return [...document.querySelectorAll('article')].some((part) => !part.marked)")
        assert await browser.swapped() == ["SECTION", "SECTION", "SECTION", "SECTION", "ARTICLE"]
        assert await browser.said() == []


def one_gpu() -> list[builders.Object]:
    """One GPU of four slots with five partitions, and two plain devices."""
    sets: dict[str, dict[str, str | int]] = {
        "gpu-0": {f"slice-{at}": 1 for at in range(4)} | {"memory": "40Gi"}
    }
    parts = [
        builders.device(f"part-{at}", {"profile": "1g"}, draws={"gpu-0": {f"slice-{at}": 1}})
        for at in range(4)
    ]
    whole = builders.device("whole", {"profile": "4g"}, draws={"gpu-0": sets["gpu-0"]})
    where: dict[str, Any] = {"nodeName": "n1", "slices": 2}
    return [
        builders.device_class(),
        builders.node("n1"),
        builders.counter_slice("counters", sets, **where),
        builders.resource_slice("parts", [*parts, whole], **where),
        builders.gpu_slice("n1", 2, driver="plain"),
    ]


def claims_for(count: int) -> list[builders.Object]:
    return [builders.claim(f"c-{at}", builders.request()) for at in range(count)]
