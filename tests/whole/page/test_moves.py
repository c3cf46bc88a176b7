"""The panel of standing advice which pods to move."""

import pytest

from reconciler.control.relocation.moves import MovesAdvice
from reconciler.operations.page.panels import MOST_MOVES
from reconciler.operations.page.sources import PlacementView, PolicyRow
from tests.tools.page_documents import Seen
from tests.tools.page_fleets import HOSTILE, move, small
from tests.tools.still_page import Still, standing
from tests.tools.watched_reconciler import ask

pytestmark = pytest.mark.loopback


async def page(still: Still) -> Seen:
    answer = await ask(f"{still.url}/")
    assert answer.status == 200
    return Seen(answer.text)


async def test_each_move_says_from_where_to_where_and_what_it_frees():
    async with standing(small()) as still:
        still.moves = (
            MovesAdvice("node=1", "free node", 1, 1, 1),
            MovesAdvice("whole=2", "device of whole", 0, 2, 2, (move(0), move(1, HOSTILE))),
        )
        found = await page(still)
    assert "whole=2 : 2 instead of 0 of device of whole after 2 moves, in this order." in found.text
    assert "default/web-0 n0 n1 n0/gpu-0" in found.text
    assert "default/web-1 n0 n1 " in found.text
    assert "node=1" not in found.text
    assert found.all("section", id="moves")


async def test_a_long_plan_is_cut():
    async with standing(small()) as still:
        moves = tuple(move(number) for number in range(MOST_MOVES + 1))
        still.moves = (MovesAdvice("whole=2", "device of whole", 0, 2, 2, moves),)
        found = await page(still)
    assert f"{MOST_MOVES} are shown." in found.text
    assert f"web-{MOST_MOVES - 1} " in found.text
    assert f"web-{MOST_MOVES} " not in found.text


async def test_the_panel_is_absent_while_nothing_should_move():
    async with standing(small()) as still:
        still.moves = (MovesAdvice("whole=2", "device of whole", 2, 2, 2),)
        assert not (await page(still)).all("section", id="moves")


# -- The panel about placement policies.


ROWS = (PolicyRow("first-fit", False, 3, 1, 2, 0.25), PolicyRow("least-loss", True, 6, 0, 0, 0.0))


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
