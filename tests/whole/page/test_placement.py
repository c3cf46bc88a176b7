"""The panel about placement policies."""

import pytest

from reconciler.operations.page.sources import PlacementView, PolicyRow
from tests.tools.page_documents import Seen
from tests.tools.page_fleets import HOSTILE, small
from tests.tools.still_page import Still, standing
from tests.tools.watched_reconciler import ask

pytestmark = pytest.mark.loopback

ROWS = (PolicyRow("first-fit", False, 3, 1, 2, 0.25), PolicyRow("least-loss", True, 6, 0, 0, 0.0))


async def page(still: Still) -> Seen:
    answer = await ask(f"{still.url}/")
    assert answer.status == 200
    return Seen(answer.text)


async def test_policies_and_the_demand_are_shown():
    async with standing(small()) as still:
        still.placement = PlacementView(6, ROWS, (("2 of class gpu", 0.75), (HOSTILE, 0.25)), 4)
        found = await page(still)
    assert "first-fit 3 1 2 0.25" in found.text
    assert "least-loss (in use) 6 0 0 0.00" in found.text
    assert "2 of class gpu 75.0 %" in found.text
    assert "4 more shapes" in found.text
    assert found.all("section", id="placement")


async def test_the_panel_is_absent_under_first_fit_and_says_what_is_missing():
    async with standing(small()) as still:
        assert not (await page(still)).all("section", id="placement")
        still.placement = PlacementView(0, ROWS, (), 0)
        found = await page(still)
    assert "No decision was compared yet." in found.text
    assert "No demand is known yet." in found.text
