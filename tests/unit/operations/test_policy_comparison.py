"""The standing comparison of placement policies: sampled, in a thread, shown in metrics and on the page."""

import asyncio

import pytest

from reconciler.allocation.dra.allocate import allocate
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.names import POLICIES
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.api.objects.plan import Granted
from reconciler.control.decider import Refusal
from reconciler.control.demand import PoliciesInUse
from reconciler.control.handler import Decide
from reconciler.operations.policy_comparison import PolicyComparison
from tests.tools.builders import store
from tests.tools.naive_policies import GPUS
from tests.tools.patience import PATIENCE
from tests.tools.small_fleet import claim
from tests.tools.unit_pictures import typed

pytestmark = pytest.mark.loopback


async def test_a_sample_is_compared_with_every_policy_once_in_the_interval():
    known = store(*GPUS)
    asked = [typed(claim("c")), typed(claim("d"))]
    demand = Demand((Shape(asked[0].spec, 0, 1),))
    policies = PoliciesInUse(Policies(parse_policies(["best-fit"]), demand))
    comparison = PolicyComparison(known, policies, seconds=600.0, clock=asyncio.get_running_loop().time)
    snapshot = known.snapshot()
    for one in asked:
        granted = allocate([one], snapshot)
        assert isinstance(granted, Granted)
        comparison.offer(Decide((one,), None, policies=policies()), granted)
    async with asyncio.timeout(PATIENCE):
        await comparison.compare_one()
    assert comparison.samples == 1
    assert comparison.choices["first-fit", "same"] == 1
    assert comparison.choices["best-fit", "other node"] == 1
    view = comparison.view()
    assert [row.name for row in view.policies] == [*POLICIES]
    assert [row.name for row in view.policies if row.used] == ["best-fit"]
    assert view.demand == (("1 of class gpu", 1.0),)
    (fact,) = (fact() for fact in comparison.signals().facts)
    assert fact.value == "best-fit; demand of 1 shape; 1 compared"


async def test_refusals_are_no_samples():
    known = store(*GPUS)
    policies = PoliciesInUse(Policies(parse_policies(["best-fit"])))
    comparison = PolicyComparison(known, policies, seconds=0.0, clock=asyncio.get_running_loop().time)
    one = typed(claim("c"))
    comparison.offer(Decide((one,), None), Refusal("DevicesInUse", "", room=True))
    assert comparison._sample is None
