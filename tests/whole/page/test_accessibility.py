"""Small and large fleets, light and dark, wide and narrow as a phone: accessible, nothing is cut off."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perf.fleets import mig
from perf.fleets.objects import claim as bare_claim
from reconciler.allocation.reasons.reasons import REASONS
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.validation.fields import timestamp
from reconciler.control.decisions.allocating import Allocated, Waits
from reconciler.operations.page.sources import PendingUnit
from tests.tools.browsing import Browser
from tests.tools.page_fleets import demonstration, hostile, hostile_claims
from tests.tools.page_racks import JOINT, fleet, give
from tests.tools.patience import PATIENCE
from tests.tools.running_reconciler import Cluster
from tests.tools.still_page import NOON, Still, standing
from tests.tools.watched_reconciler import watched

FOLDER = Path(__file__).parent / "axe"
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


pytestmark = pytest.mark.loopback

SIZES = pytest.mark.parametrize(
    ("theme", "width"), [("light", 1400), ("dark", 1400), ("light", 390), ("dark", 390)]
)
CUT_OFF = """
return [...document.querySelectorAll('main td, main th, main li, main p, main summary, header dd, nav a')]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().width > 1
    && (one.getBoundingClientRect().right > innerWidth + 1 || one.getBoundingClientRect().left < -1)
    && !one.closest('details.chart-text') && !one.closest('#jump'))
  .map((one) => one.outerHTML.slice(0, 120))
"""
NAVIGATIONS = "return [...document.querySelectorAll('nav')].map((one) => one.getAttribute('aria-label'))"


@SIZES
async def test_the_demonstrations_65_devices(browser: Browser, theme: str, width: int):
    async with watched(Cluster(demonstration())) as seen:
        await seen.heard(Allocated, 4)
        await seen.heard(Waits, 9)
        await check(browser, seen.url, theme, width)


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1400)])
async def test_10400_devices_with_every_reason(browser: Browser, theme: str, width: int):
    async with standing(mig.fleet(50)) as still:
        still.allocate(*(bare_claim(f"c-{at}", [mig.partition("p", "1g.5gb")]) for at in range(40)))
        many_reasons(still)
        await check(browser, still.url, theme, width)


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
