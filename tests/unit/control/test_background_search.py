"""A question that had to wait is asked as it is by then."""

import asyncio

from reconciler.control.background_search import BackgroundSearch
from reconciler.control.decider import Decider
from reconciler.control.planner import Decide, Planner
from tests.tools.burst_loop import OURS
from tests.tools.small_fleet import claim, device_class, devices, node
from tests.tools.unit_pictures import claim_unit, intake, put


async def test_a_node_that_is_cordoned_meanwhile_is_not_among_the_nodes_of_the_question():
    """Units that are decided ahead get devices on the nodes of the question, too."""
    picture = intake(device_class(), node("a"), devices("a"), node("b"), devices("b"), claim("c"), ours=OURS)
    planner = Planner(picture.store, picture.roster, picture.placement, OURS, picture.reclaimed)
    search, unit = BackgroundSearch(picture, planner, Decider(OURS, steps=100)), claim_unit("c")
    question = planner.next(unit)
    assert isinstance(question, Decide)
    await search.answer(unit, question)  # from now on its selectors are known
    async with asyncio.TaskGroup() as group, search._order:  # as while a thread works for another unit
        answering = group.create_task(search.answer(unit, question))
        await asyncio.sleep(0)
        put(picture, {**node("b"), "spec": {"unschedulable": True}})
    search.close()
    found = answering.result()
    assert found is not None
    assert found[0] == planner.next(unit)
    assert found[0].nodes is not None
    assert list(found[0].nodes) == ["a"]
