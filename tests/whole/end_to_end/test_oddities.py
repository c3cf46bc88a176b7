"""Devices held at odds, and expressions that fail, are noticed while the reconciler runs."""

from typing import Any

import pytest

from reconciler.api.versions.extension_shape import ANNOTATION
from reconciler.control.decisions.decisions import Allocated, ExclusionViolated, Waits
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.small_fleet import DRIVER, claim, device_class, devices, held, node

pytestmark = pytest.mark.loopback


def fleet(expression: str) -> Cluster:
    """The first device tells in the annotation beside which others it can be held."""
    slice_ = devices("n", "d0", "d1")
    text = f'{{"d0": {{"compatibleOnlyWith": {{"expression": "{expression}"}}}}}}'
    slice_["metadata"]["annotations"] = {ANNOTATION: text}
    return Cluster([node("n"), device_class(), slice_])


def holding(name: str, device: str) -> dict[str, Any]:
    return {**claim(name, managed=False), "status": held(DRIVER, "n", device)}


async def test_what_is_held_stands_against_others_by_the_annotation():
    cluster = fleet("false")
    cluster.load(holding("a", "d0"), claim("late"))
    async with reconciling(cluster) as running:
        (waits,) = await running.heard(Waits)
    assert waits.reason == "DevicesExcluded"
    assert "d0 is held by default/a and compatible only with false" in waits.message


async def test_devices_held_at_odds_are_told_and_left_alone():
    cluster = fleet("false")
    cluster.load(holding("a", "d0"), holding("b", "d1"), claim("late"))
    async with reconciling(cluster) as running:
        (odd,) = await running.heard(ExclusionViolated)
        await running.heard(Waits)
    assert (
        "d0 is held by default/a and compatible only with false, but d1 is held by default/b without a group"
        in odd.message
    )
    assert running.of(ExclusionViolated) == [odd]
    assert [cluster.devices(name) for name in "ab"] == [["n/d0"], ["n/d1"]]


async def test_an_expression_that_fails_is_told():
    cluster = fleet("device.nonsense")
    cluster.load(claim("first"))
    async with reconciling(cluster) as running:
        (odd,) = await running.heard(ExclusionViolated)
        await running.heard(Allocated)
    assert "d0: compatibleOnlyWith" in odd.message
