"""How a claim gets from its watch event to its write-back, through the rooms of the program."""

import pytest

from tests.tools.structure import entries, entry, levels, way_of_a_claim

UP = {
    ("reconciler.api.objects.plan", "reconciler.allocation.dra.result"),
    ("reconciler.control.background_search", "reconciler.app.control"),
    ("reconciler.cluster.watch", "reconciler.control.intake"),
    ("reconciler.cluster.events", "reconciler.control.intake"),
    ("reconciler.cluster.client", "reconciler.operations.metrics.requests"),
    ("reconciler.control.decisions.declaration", "reconciler.operations.observer"),
}
"""Calls from a room to a higher one"""


@pytest.mark.loopback
async def test_few_calls_go_to_a_higher_room():
    level = levels(entries())
    calls = [call[:2] for call in await way_of_a_claim()]
    assert {(caller, callee) for caller, callee in calls if level[entry(callee)] > level[entry(caller)]} <= UP
    assert ("reconciler.cluster.watch", "reconciler.control.intake") in calls
