"""Small and large fleets, light and dark, wide and narrow as a phone: accessible, nothing is cut off."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from perf.fleets import mig
from perf.fleets.objects import claim as bare_claim
from reconciler.allocation.reason_table import REASONS
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.fields import timestamp
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.control.gangs.planner import GangLine
from reconciler.control.relocation.moves import MovesAdvice
from reconciler.operations.page.sources import GangEntry, PendingUnit, PlacementView, PolicyRow
from tests.tools.browsing import Browser
from tests.tools.page_fleets import demonstration, hostile, hostile_claims, move
from tests.tools.page_racks import JOINT, fleet, give, release
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.still_page import NOON, Still, standing
from tests.tools.watched_reconciler import watched

pytestmark = pytest.mark.loopback

FOLDER = Path(__file__).parents[2] / "tools" / "axe"
SCRIPT = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
INSTALL = "npm ci --prefix tests/tools/axe --ignore-scripts"
RUN = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then(
  (found) => done(JSON.stringify(found.violations.map((one) =>
    [one.id, one.help, ...one.nodes.slice(0, 5).map((node) => node.html.slice(0, 200))]))),
  (error) => done(JSON.stringify([['axe-core failed', String(error)]])));
"""


async def violations(browser: Browser) -> Any:
    """What axe-core finds: rule, its text, and the elements. Skips the test if it is not installed."""
    if not SCRIPT.exists():
        pytest.skip(f"axe-core is not installed; with npm: {INSTALL}")
    await browser.do(lambda driver: driver.set_script_timeout(PATIENCE))
    script = SCRIPT.read_text("utf-8") + RUN
    return json.loads(await browser.do(lambda driver: driver.execute_async_script(script)))


SIZES = pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1400)])
CUT_OFF = """
return [...document.querySelectorAll('main td, main th, main li, main p, main summary, header dd, nav a')]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().width > 1
    && (one.getBoundingClientRect().right > innerWidth + 1 || one.getBoundingClientRect().left < -1)
    && !one.closest('details.chart-text') && !one.closest('#jump'))
  .map((one) => one.outerHTML.slice(0, 120))
"""
BROKEN = """
return [...document.querySelectorAll('.cell span')].filter((one) => one.scrollWidth > one.clientWidth
  || one.getClientRects().length > 1).map((one) => one.textContent)
"""
"""Figures of the heat map that do not fit on one line of their cell"""
NAVIGATIONS = "return [...document.querySelectorAll('nav')].map((one) => one.getAttribute('aria-label'))"


@SIZES
async def test_the_demonstrations_65_devices(browser: Browser, theme: str, width: int):
    async with watched(Cluster(demonstration())) as seen:
        await seen.heard(Allocated, 4)
        await seen.heard(Waits, 9)
        await check(browser, seen.url, theme, width)
        await check(browser, f"{seen.url}/?cell=a100-0&by=node", theme, width)
        await browser.open(f"{seen.url}/explanation?kind=claim&namespace=training&name=quartet")
        assert "training/quartet" in await browser.run("return document.querySelector('h1').textContent")
        assert await violations(browser) == []


@SIZES
async def test_many_devices_with_every_reason(browser: Browser, theme: str, width: int):
    async with standing(mig.fleet(27)) as still:
        still.allocate(*(bare_claim(f"c-{at}", [mig.partition("p", "1g.5gb")]) for at in range(40)))
        many_reasons(still)
        still.moves = (MovesAdvice("whole=2", "device of whole", 0, 2, 2, (move(0),)),)
        still.placement = PlacementView(6, (PolicyRow("spread", True, 6, 0, 0, 0.5),), (("gpu", 1.0),), 4)
        gang = GangKey("team", GangSource.POD_GROUP, "train")
        line = GangLine(gang, 4, gated=3, bound=1, released=0, nodes=1, domain=(("rack", "r1"),))
        still.gangs[gang] = GangEntry(line, "GangUnplaced", "2 of 3 pods fit together")
        await check(browser, still.url, theme, width)
        await check(browser, f"{still.url}/?reason=DevicesInUse&nodes=2&page=2", theme, width)


@SIZES
async def test_machines_with_long_names(browser: Browser, theme: str, width: int):
    made = fleet(14)
    give(made, "p" * 200, {"nvidia.com/gpu": 1, "rdma": 1}, **JOINT)
    async with standing(hostile(), made) as still:
        still.allocate(*hostile_claims())
        await check(browser, still.url, theme, width)


async def test_an_empty_fleet_and_a_filter_that_names_nothing(browser: Browser):
    async with standing([]) as still:
        await check(browser, f"{still.url}/?node=zz", "light", 390)


async def test_sections_that_are_alike_have_names_of_their_own(browser: Browser):
    """The pages of the map can be turned above and below it."""
    async with standing(mig.fleet(5), fleet(14)) as still:
        many_reasons(still)
        await browser.live(f"{still.url}/?reason=DevicesInUse")
        names = await browser.run(NAVIGATIONS)
    assert len(names) > 4
    assert len(names) == len(set(names))


async def check(browser: Browser, url: str, theme: str, width: int) -> None:
    await browser.size(width, 900)
    await browser.media("prefers-color-scheme", theme)
    await browser.live(url)
    assert await browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert await browser.run(CUT_OFF) == []
    assert await browser.run(BROKEN) == []
    assert await browser.said() == []
    assert await violations(browser) == []


def many_reasons(still: Still) -> None:
    """Claims of a long name for every reason, more than a page of one of them."""
    reasons = [*map(str, REASONS), *["DevicesInUse"] * 60]
    for at, reason in enumerate(reasons):
        key = ObjectKey(f"team-{at % 7}", f"training-run-with-a-long-generated-name-{at:05}")
        message = f"claim {key}, request gpus: 10400 of 10400 devices match the class; 4 are free"
        still.waiting.append(PendingUnit("claim", key, (key,), reason, message))
        still.created["claim", key] = timestamp(NOON - timedelta(minutes=at * at * 7))


# -- Koordinator's devices in a real browser.


BOXES = (
    "return [...document.querySelectorAll('#machines article:first-of-type rect.held')]"
    ".map((one) => one.className.baseVal)"
)


async def test_machines_are_drawn_and_follow_without_a_word_of_complaint(browser: Browser):
    made = fleet()
    async with standing([], made) as still:
        give(made, "first", {"nvidia.com/gpu": 2, "rdma": 1}, **JOINT)
        await browser.live(still.url)
        assert len(await browser.run(BOXES)) == 3
        assert len(set(await browser.run(BOXES))) == 1  # one pod, one colour
        await browser.mark()
        give(made, "second", {"gpu-core": 50, "gpu-memory-ratio": 50})
        await browser.until(
            "return document.getElementById('machines').textContent.includes('default/second')"
        )
        assert await browser.swapped() == ["SECTION"]
        release(made, "first")
        await browser.until(
            "return !document.getElementById('machines').textContent.includes('default/first')"
        )
        assert await browser.said() == []


async def test_what_was_opened_and_focused_stays_so_over_updates(browser: Browser):
    made = fleet()
    async with standing([], made) as still:
        await browser.live(still.url)
        await browser.run(
            "const told = document.querySelector('#machines details'); told.open = true;"
            "told.querySelector('summary').focus()"
        )
        give(made, "p", {"nvidia.com/gpu": 1})
        await browser.until("return document.getElementById('machines').textContent.includes('default/p')")
        assert await browser.run("return document.querySelector('#machines details').open")
        found = await browser.run("return document.activeElement.getAttribute('aria-label')")
        assert found == "rack-0 as text"


async def test_filters_work_from_the_keyboard_and_by_links_without_scripts(browser: Browser):
    made = fleet()
    give(made, "p", {"nvidia.com/gpu": 1})
    async with standing([], made) as still:
        await browser.live(still.url)
        await browser.run("document.querySelector('input[name=driver]').focus()")
        await browser.press("rdma", Keys.ENTER)
        await browser.until("return location.search.includes('driver=rdma')")
        await browser.until(
            "return !document.querySelector('#machines article').textContent.includes('gpu 0')"
        )
        await browser.tell("Emulation.setScriptExecutionDisabled", value=True)
        try:
            await browser.open(still.url)
            await browser.do(
                lambda driver: driver.find_element(By.CSS_SELECTOR, "#machines .legend a").click()
            )
            assert "claim=default%2Fp" in await browser.do(lambda driver: driver.current_url)
            titles = await browser.do(
                lambda driver: driver.find_element(By.CSS_SELECTOR, "#machines .charts").text
            )
            assert [name for name in ("rack-0", "rack-1") if name in titles] == ["rack-0"]
            told = await browser.do(lambda driver: driver.find_element(By.ID, "machines").text)
            assert "1 to 1 of 1 machines that match the filter." in told
        finally:
            await browser.tell("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("width", [1400, 360])
async def test_it_fits_on_wide_and_on_narrow_screens_with_everything_open(browser: Browser, width: int):
    made = fleet()
    give(made, "p" * 200, {"nvidia.com/gpu": 1, "rdma": 1}, **JOINT)
    async with standing([], made) as still:
        await browser.size(width, 900)
        await browser.live(still.url)
        await browser.run("document.querySelectorAll('details').forEach((one) => one.open = true)")
        assert await browser.run("return document.documentElement.scrollWidth <= innerWidth")


async def test_who_cannot_see_is_told_by_structure(browser: Browser):
    made = fleet(14)
    give(made, "p", {"nvidia.com/gpu": 1})
    async with standing([], made) as still:
        await browser.live(still.url)
        nodes = (await browser.tell("Accessibility.getFullAXTree"))["nodes"]
        tree = [(n.get("role", {}).get("value", ""), n.get("name", {}).get("value", "")) for n in nodes]
        roles = ("link", "button", "textbox", "image", "heading", "table", "article", "region", "navigation")
        for wanted in roles:
            nameless = [role for role, name in tree if role == wanted and not name.strip()]
            assert nameless == [], wanted
        ids = await browser.run("return [...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(ids) == len(set(ids))
        keys = await browser.run(
            "return [...document.querySelectorAll('#machines article [data-k]')].map((one) => one.dataset.k)"
        )
        assert len(keys) == len(set(keys))


async def test_a_thousand_machines_are_a_page_of_bounded_size(browser: Browser):
    """1,024 machines: 6,144 devices. An update swaps one part."""
    made = fleet(1024)
    async with standing([], made) as still:
        await browser.live(still.url)
        assert await browser.run("return document.querySelectorAll('#machines article').length") == 12
        assert await browser.run("return document.querySelectorAll('*').length") < 3_000
        await browser.mark()
        give(made, "p", {"nvidia.com/gpu": 1})
        await browser.until("return document.getElementById('machines').textContent.includes('default/p')")
        assert await browser.swapped() == ["SECTION"]
        assert await browser.said() == []
