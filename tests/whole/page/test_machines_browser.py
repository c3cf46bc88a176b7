"""Koordinator's devices in a real browser."""

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.tools.browsing import Browser
from tests.tools.page_racks import JOINT, fleet, give, release
from tests.tools.still_page import standing

pytestmark = pytest.mark.loopback

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
        assert (
            await browser.run("return document.activeElement.getAttribute('aria-label')") == "rack-0 as text"
        )


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
async def test_it_fits_on_wide_and_on_narrow_screens(browser: Browser, width: int):
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
        for wanted in (
            "link",
            "button",
            "textbox",
            "image",
            "heading",
            "table",
            "article",
            "region",
            "navigation",
        ):
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
