"""What a large fleet's page starts with: the heat map, who holds and waits, the last hour, trouble first."""

import re
from datetime import timedelta

import pytest

from perf.fleets import mig
from reconciler.api.objects.meta import DeviceID, ObjectKey
from reconciler.api.validation.fields import timestamp
from reconciler.control.decisions.allocating import Allocated, Freed, Waits
from reconciler.control.decisions.every import MoveEvicted
from reconciler.operations.page.fleet import MOST_CELLS
from reconciler.operations.page.panels import MINUTES, MOST_NAMESPACES, Recent
from reconciler.operations.page.sources import PendingUnit
from tests.tools import builders, still_page
from tests.tools.browsing import Browser
from tests.tools.page_documents import Seen
from tests.tools.still_page import NOON, Still
from tests.tools.watched_reconciler import ask

pytestmark = pytest.mark.loopback

RACK = "example.com/rack"


async def seen(still: Still, path: str = "/") -> Seen:
    return Seen((await ask(f"{still.url}{path}")).text)


def racks(count: int = 6, gpus: int = 2) -> list[builders.Object]:
    """Two nodes in each rack but the last, which has one that is in no rack at all."""
    names = [f"n{at:02}" for at in range(count)]
    labels = [{RACK: f"r{at // 2}"} for at in range(count - 1)] + [{}]
    nodes = [builders.node(name, **own) for name, own in zip(names, labels, strict=True)]
    return [builders.device_class(), *nodes, *(builders.gpu_slice(name, gpus) for name in names)]


def cells(found: Seen) -> dict[str, str]:
    """Name -> address."""
    links = [(str(a.get("aria-label")), str(a["href"])) for a in found.all("a")]
    return {
        label.partition(":")[0]: href.partition("#")[0]
        for label, href in links
        if "physical devices full" in label
    }


async def test_a_cell_of_the_heat_map_opens_its_nodes_and_charts():
    async with still_page.standing(racks()) as still:
        still.allocate(*(builders.claim(f"c{at}", builders.request()) for at in range(3)))
        found = await seen(still, f"/?by=label={RACK}")
        links = cells(found)
        assert list(links) == ["no rack", "r0", "r1", "r2"]
        assert "r0: use 75 %, 1 of 4 physical devices full, 4 devices. Open." not in found.text
        assert "r0 75 %" in found.text
        assert len(found.charts) == 6
        opened = await seen(still, links["r0"])
        assert len(opened.charts) == 2
        assert "1 to 2 of 2 nodes that match the filter; 6 in total" in opened.text
        assert "r0 is open: use 75 %, 3 of 4 physical devices full, 4 devices: 3 held, 1 free." in opened.text
        # One cell at a time: the others open in its place, and it closes itself.
        assert cells(opened)["r1"] == links["r1"]
        assert "cell=" not in cells(opened)["r0"]
        assert len((await seen(still, links["no rack"])).charts) == 1
        wrong = await seen(still, "/?cell=r9")
        assert "No device is in the cell r9 of the heat map." in wrong.text


async def test_the_finest_grouping_that_can_be_looked_at_is_first():
    async with still_page.standing(racks()) as still:
        found = await seen(still)
        assert "Heat map use by node" in found.text
        assert "Group by rack model driver node" in found.text
    async with still_page.standing(racks(130, 1)) as still:
        found = await seen(still)
        assert "Heat map use by rack" in found.text
        assert len(cells(found)) == 66
        assert not found.charts  # nobody looks through 130 charts
        assert "130 counter sets and groups of devices: open a cell of the heat map, or filter." in found.text
        (every,) = [str(a["href"]) for a in found.all("a") if "page=1" in str(a["href"])]
        assert len((await seen(still, every.partition("#")[0])).charts) == 24
    assert MOST_CELLS > 130


async def test_nodes_with_trouble_come_first():
    gone = builders.resource_slice("half", builders.devices("x"), slices=2, driver="e", nodeName="n02")
    tainted = builders.resource_slice(
        "ill",
        [builders.device("y", taints=[{"key": "k", "effect": "NoSchedule"}])],
        driver="f",
        nodeName="n03",
    )
    async with still_page.standing([*racks(5), gone, tainted]) as still:
        still.allocate(builders.claim("c", builders.request(count=2)))
        found = await seen(still, "/?by=node")
        listed = found.text.partition("of 5 nodes")[2]
        assert re.findall(r"n0\d", listed)[:3] == ["n02", "n03", "n00"]
        assert "n02 ⚠ 1 pool cannot be used 0 % 0 2" in listed
        assert "n03 ⚠ 1 device tainted 0 % 0 3" in listed
        assert "n02 ⚠ 0 %" in found.text  # in the heat map too


async def test_namespaces_say_who_holds_and_who_waits():
    async with still_page.standing(racks(4)) as still:
        for at in range(MOST_NAMESPACES + 3):
            key = ObjectKey(f"idle-{at:02}", "c")
            still.waiting.append(PendingUnit("claim", key, (key,), "DevicesInUse", ""))
            still.created["claim", key] = timestamp(NOON - timedelta(minutes=10 * at))
        still.allocate(builders.claim("c", builders.request(count=2)))
        found = await seen(still)
    told = found.text.partition("Namespaces")[2]
    assert "idle-14 has waited longest: 140m ." in found.text
    assert "default 2 25 % 0 –" in told
    assert "idle-14 0 0 % 1 140m" in told
    assert "idle-00 0 0 % 1 0s" in told
    assert "4 more; top --by namespace lists all." in told


def test_the_last_hour_is_counted_minute_by_minute():
    now = NOON
    recent = Recent(lambda: now)
    claim, pod = ObjectKey("a", "c"), ObjectKey("a", "p")
    device = DeviceID("d", "n", "x")
    recent.on_decision(Allocated(claim, None, (device,), "n", 0.1, 1))
    now += timedelta(minutes=30, seconds=20)
    recent.on_decision(Freed(claim, "deleted"))
    recent.on_decision(Waits((claim,), None, "DevicesInUse", "message"))
    recent.on_decision(MoveEvicted(pod, "u", "n", "m", (device,), "device", "m"))
    found = recent.by_minute()
    assert found["held"][MINUTES - 1 - 30] == 1
    assert {what: sum(counts) for what, counts in found.items()} == dict.fromkeys(found, 1)
    assert [(one.what, one.who, one.more) for one in recent.latest] == [
        ("evicted", "pod a/p", "moves to m"),
        ("refused", "claim a/c", "DevicesInUse"),
        ("freed", "claim a/c", "deleted"),
        ("held", "claim a/c", "1 device"),
    ]
    now += timedelta(minutes=MINUTES - 30)
    assert sum(recent.by_minute()["held"]) == 0
    assert sum(recent.by_minute()["freed"]) == 1
    now += timedelta(days=1)
    assert not any(map(sum, recent.by_minute().values()))


async def test_the_page_shows_the_last_hour():
    async with still_page.standing(racks()) as still:
        still.recent.on_decision(Waits((ObjectKey("a", "c"),), None, "DevicesInUse", "message"))
        still.now += timedelta(minutes=2)
        found = await seen(still)
        assert "refused a/c" not in found.text
        assert "refused claim a/c DevicesInUse 2m" in found.text
        assert "refused 1" in found.text


RENDERED = "return (window.looks = (window.looks || 0) + 1) % 10 === 0"
"""Charts get their height when they are seen"""


async def test_the_place_is_kept_while_parts_above_it_grow(browser: Browser):
    """What is looked at stays where it is on the screen, also if it is below what was swapped."""
    async with still_page.standing(mig.fleet(12)) as still:
        await browser.live(still.url)
        await browser.run(
            "document.querySelectorAll('article')[20].scrollIntoView(); window.scrollBy(0, -40)"
        )
        where = "return document.querySelectorAll('article')[20].getBoundingClientRect().top"
        await browser.until(RENDERED)
        before = await browser.run(where)
        for at in range(MOST_NAMESPACES):
            key = ObjectKey(f"team-{at}", "c")
            still.waiting.append(PendingUnit("claim", key, (key,), f"Reason{at}", "message"))
        await browser.until("return document.getElementById('namespaces').textContent.includes('team-11')")
        await browser.until(RENDERED)
        assert abs(await browser.run(where) - before) < 2


async def test_arrow_keys_move_between_cells(browser: Browser):
    async with still_page.standing(racks(30)) as still:
        await browser.live(f"{still.url}/?by=node")
        await browser.run("document.querySelectorAll('.cell')[0].focus()")
        await browser.press("\ue014", "\ue014", "\ue012")  # right, right, left
        assert await browser.run("return document.activeElement.textContent") == "n010 %"
        await browser.press("\ue015")  # down
        assert await browser.run(
            "return document.activeElement.offsetTop > document.querySelectorAll('.cell')[0].offsetTop"
        )
        await browser.press("\ue007")  # enter
        await browser.until("return location.search.includes('cell=')")
